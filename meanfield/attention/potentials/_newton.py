r"""Newton's method for Sinkhorn potentials, by conjugate gradients, in $O(n)$ memory.

The potential maximises the concave $J(g) = \int f_g\,d\mu + \int g\,d\mu$, whose
gradient in $L^2(\mu)$ is $1 - m$, with $m$ the column masses of the plan, and whose
Hessian is $-(\mathrm{diag}(m) - P^*P)$: symmetric, with the constants as null space.
Where the plan is nearly an assignment, and alternation crawls, its few small
eigenvalues cost conjugate gradients little.
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
SHORTEST = 2.0**-10  # of a Newton step; where less would be needed, rounding rules
DECREASE = 1e-4  # of the gap along the step: the usual sufficient decrease


class _State(NamedTuple):
    """A pass at a time: conjugate gradients at `g`, or a trial at `g + length step`."""

    g: Array
    gap: Array  # ∫ (1 - m)² / m dμ at g
    step: Array
    length: Array
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
    exact step), and shortened where it does not. The evaluations spent on `start` are
    counted, and its residual is believed. The best point seen is returned.
    """
    g, zero = start.point, jnp.zeros_like(start.point)
    one = jnp.ones((), g.dtype)
    none, far = jnp.asarray(0), jnp.full_like(one, jnp.inf)
    trial = jnp.zeros((), bool)
    state = _State(g, far, zero, one, trial, zero, zero, one, none, start)

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
    image = m * (q - slope)  # (diag m - P*P) q
    curvature = jnp.sum(w * q * image)
    flat = ~(curvature > 0)  # all that is left is rounding
    size = jnp.where(state.solving & ~flat, state.decrement / curvature, 0)
    residual = jnp.where(state.solving, state.residual - size * image, 1 - m)
    decrement = jnp.sum(w * residual**2 / m)
    closer = decrement <= (1 - DECREASE * state.length) * state.gap
    begins = ~state.solving & closer
    turn = jnp.where(begins, 0, decrement / state.decrement)
    solved = (decrement <= FORCING**2 * state.gap) | (state.inner >= LONGEST)
    goes_on = state.solving & ~(flat | solved | last)
    return _State(
        g=jnp.where(begins, point, state.g),
        gap=jnp.where(begins, decrement, state.gap),
        step=jnp.where(begins, 0, state.step + size * q),
        length=jnp.where(begins | state.solving, 1, state.length / 2),
        solving=begins | goes_on,
        residual=residual,
        direction=residual / m + turn * q,
        decrement=decrement,
        inner=jnp.where(begins, 0, state.inner + 1),
        best=_better(state.best, point, jnp.max(jnp.abs(log_mass))),
    )


def _better(best: FixedPoint, point: Array, error: Array) -> FixedPoint:
    better = error < best.residual
    return FixedPoint(
        jnp.where(better, point, best.point),
        jnp.where(better, error, best.residual),
        best.evaluations + 1,
    )
