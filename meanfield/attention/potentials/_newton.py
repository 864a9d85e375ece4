r"""Newton's method for Sinkhorn potentials, by conjugate gradients, in $O(n)$ memory.

The potential maximises the concave $J(g) = \int f_g\,d\mu + \int g\,d\mu$, whose
gradient in $L^2(\mu)$ is $1 - m$, with $m$ the column masses of the plan, and whose
Hessian is $-(\mathrm{diag}(m) - P^*P)$: symmetric, with the constants as null space.
Where the plan is nearly an assignment, and alternation crawls, its few small
eigenvalues cost conjugate gradients little.

Where it nearly falls into parts, and a part has too much mass, $J$ is a ramp until the
potential of that part has moved by the logarithm of what binds it, 50 for weights of
$e^{-50}$; Newton's step is larger than any number that means something. Steps stay
within a box, whose size grows while they succeed, and end at its edge, like those of
Steihaug (1983).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from meanfield.fixed_point import FixedPoint
from meanfield.measures import Points
from meanfield.scores import AbstractScore

from ._steps import counts, full_step, full_step_along

FORCING = 0.1  # how far a linear system is solved: tighter ones cost passes, save none
LONGEST = 300  # conjugate gradients before what there is of a step is tried
RADIUS = 2.0  # of the first box, in units of the score
SHORTEST = 2.0**-20  # of a step; where less would be needed, rounding rules
DECREASE = 1e-4  # of the gap along the step: the usual sufficient decrease
LEAST = -40.0  # of the log-masses that are divided by: squares stay finite


class _State(NamedTuple):
    """A pass at a time: conjugate gradients at `g`, or a trial at `g + length step`."""

    g: Array
    gap: Array  # ∫ (1 - m)² / m dμ at g
    step: Array
    length: Array
    radius: Array  # of the box that steps stay in
    solving: Bool[Array, ""]
    residual: Array  # r, of the linear system
    direction: Array
    decrement: Array  # ∫ r² / m dμ
    inner: Int[Array, ""]
    best: FixedPoint


def newton(
    score: AbstractScore,
    mu: Points,
    start: FixedPoint,
    *,
    tolerance: Float[Array, ""],
    limit: int | Int[Array, ""],
    queries: Points | None = None,
) -> FixedPoint:
    r"""The potential to `tolerance` in the sup of |log column mass|.

    An evaluation is a pass over rows and columns, whichever it serves. A step is taken
    where it brings $m$ closer to 1, in $\int (1-m)^2/m\,d\mu$ (which falls along an
    exact step), or where $J$, which is concave, still rises at its end; elsewhere it is
    shortened. The evaluations spent on `start` are counted, and its residual is
    believed. The best point seen is returned.
    """
    g, zero = start.point, jnp.zeros_like(start.point)
    one = jnp.ones((), g.dtype)
    none, far = jnp.asarray(0), jnp.full_like(one, jnp.inf)
    trial = jnp.zeros((), bool)
    state = _State(g, far, zero, one, RADIUS * one, trial, zero, zero, one, none, start)

    def unfinished(state: _State) -> Array:
        going = (state.best.residual > tolerance) & (state.length >= SHORTEST)
        return going & (state.best.evaluations < limit)

    def one_pass(state: _State) -> _State:
        point = state.g + jnp.where(state.solving, 0, state.length) * state.step
        image, slope = full_step_along(score, mu, point, state.direction, queries)
        log_mass = jnp.where(counts(mu), point - image, 0)
        last = state.best.evaluations + 2 >= limit
        return _advanced(mu.weights, state, point, log_mass, slope, last=last)

    return jax.lax.while_loop(unfinished, one_pass, state).best


def alternated_plainly(
    score: AbstractScore,
    mu: Points,
    start: FixedPoint,
    *,
    tolerance: Float[Array, ""],
    limit: int | Int[Array, ""],
    queries: Points | None = None,
) -> FixedPoint:
    """Alternation without acceleration, from where Newton's steps are all too long.

    Nothing is faster at last, but it contracts from everywhere, at every bandwidth: in
    Hilbert's metric, by Birkhoff's constant.
    """

    def unfinished(state: tuple[Array, FixedPoint]) -> Array:
        best = state[1]
        return (best.residual > tolerance) & (best.evaluations < limit)

    def one_pass(state: tuple[Array, FixedPoint]) -> tuple[Array, FixedPoint]:
        point, best = state
        image = full_step(score, mu, point, queries)
        error = jnp.max(jnp.abs(jnp.where(counts(mu), point - image, 0)))
        return image, _better(best, point, error)

    return jax.lax.while_loop(unfinished, one_pass, (start.point, start))[1]


def _advanced(
    w: Array, state: _State, point: Array, log_mass: Array, slope: Array, *, last: Array
) -> _State:
    """What a pass at `point` leads to, a trial or one of conjugate gradients.

    In straight lines and few sums, for these take longer to compile than to run. A
    trial that is accepted begins conjugate gradients, preconditioned by `1 / m`.
    """
    m, q = jnp.exp(log_mass), state.direction
    divisor = jnp.exp(jnp.maximum(log_mass, LEAST))
    image = m * (q - slope)  # (diag m - P*P) q
    size, is_at_edge = _size(w * m * q**2, w * q * image, state)
    residual = jnp.where(state.solving, state.residual - size * image, 1 - m)
    decrement = jnp.sum(w * residual**2 / divisor)
    closer = decrement <= (1 - DECREASE * state.length) * state.gap
    uphill = jnp.sum(w * residual * state.step) >= 0  # of a trial: dJ along its step
    begins = ~state.solving & (closer | uphill)
    turn = jnp.where(begins, 0, decrement / state.decrement)
    solved = (decrement <= FORCING**2 * state.gap) | (state.inner >= LONGEST)
    goes_on = state.solving & ~(solved | is_at_edge | last)
    kept = begins | state.solving
    grows = begins & uphill & (state.length == 1)
    return _State(
        g=jnp.where(begins, point, state.g),
        gap=jnp.where(begins, decrement, state.gap),
        step=jnp.where(begins, 0, state.step + size * q),
        length=jnp.where(kept, 1, state.length / 2),
        radius=state.radius * jnp.where(grows, 2, jnp.where(kept, 1, 0.5)),
        solving=begins | goes_on,
        residual=residual,
        direction=residual / divisor + turn * q,
        decrement=decrement,
        inner=jnp.where(begins, 0, state.inner + 1),
        best=_better(state.best, point, jnp.max(jnp.abs(log_mass))),
    )


def _size(
    squares: Float[Array, " n"], curvatures: Float[Array, " n"], state: _State
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """How far to go along the direction, and whether the edge of the box ends it.

    `squares` and `curvatures` sum to the direction's square and to its image along
    itself. Nothing but the edge ends a direction whose curvature is lost to rounding.
    """
    q = state.direction
    moves = q != 0
    room = (state.radius - state.step * jnp.sign(q)) / jnp.abs(jnp.where(moves, q, 1))
    room = jnp.min(jnp.where(moves, room, jnp.inf))
    curvature, eps = jnp.sum(curvatures), jnp.finfo(q.dtype).eps
    is_curved = curvature > 4 * eps * jnp.sum(squares)
    full = jnp.where(is_curved, state.decrement / curvature, jnp.inf)
    is_at_edge = full >= room
    return jnp.where(state.solving, jnp.minimum(full, room), 0), is_at_edge


def _better(best: FixedPoint, point: Array, error: Array) -> FixedPoint:
    better = error < best.residual
    return FixedPoint(
        jnp.where(better, point, best.point),
        jnp.where(better, error, best.residual),
        best.evaluations + 1,
    )
