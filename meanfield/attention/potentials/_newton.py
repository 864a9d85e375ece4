r"""Newton's method for Sinkhorn potentials, by conjugate gradients, in $O(n)$ memory.

The potential maximises the concave $J(g) = \int f_g\,d\mu + \int g\,d\mu$, whose
gradient in $L^2(\mu)$ is $1 - m$, with $m$ the column masses of the plan, and whose
Hessian is $-(\mathrm{diag}(m) - P^*P)$: symmetric, with the constants as null space.
If the plan is nearly an assignment, alternation is slow, but the Hessian has only a few
small eigenvalues, which conjugate gradients handle in few iterations.

If the plan nearly decomposes into parts, and a part has too much mass, $J$ is almost
linear until the potential of that part has moved by the log of the weights that couple
it to the rest: by 50 for weights of $e^{-50}$. A full Newton step is then far too long.
Steps are therefore restricted to a box, which grows while they succeed, and end at its
edge, as in Steihaug (1983).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from meanfield.fixed_point import FixedPoint
from meanfield.measures import Points
from meanfield.scores import AbstractScore

from ._steps import full_step, full_step_jvp, has_weight

FORCING = 0.1  # relative tolerance of linear solves; smaller ones save no Newton steps
LONGEST = 300  # conjugate gradient iterations before the step so far is tried
RADIUS = 2.0  # radius of the first box, in units of the score
SHORTEST = 2.0**-20  # least step length; rounding dominates below it
DECREASE = 1e-4  # constant of the usual sufficient decrease condition for the gap
LEAST = -40.0  # lower bound of log masses in divisors, so that squares stay finite


class _State(NamedTuple):
    """State between passes: conjugate gradients at `g`, or trial `g + length step`."""

    g: Array
    gap: Array  # ∫ (1 - m)² / m dμ at g
    step: Array
    length: Array
    radius: Array  # half-width of the box that holds a step
    solving: Bool[Array, ""]
    residual: Array  # residual r of the linear system
    direction: Array
    decrement: Array  # ∫ r² / m dμ
    inner: Int[Array, ""]
    best: FixedPoint


class _Pass(NamedTuple):
    """Results of a pass over rows and columns."""

    point: Array  # at which the pass was made
    log_mass: Array  # log m at the point
    derivative: Array  # of the image of the point, along the direction
    is_last: Array  # whether the limit of evaluations allows no further one


def newton(
    score: AbstractScore,
    mu: Points,
    start: FixedPoint,
    *,
    tolerance: Float[Array, ""],
    limit: int | Int[Array, ""],
    queries: Points | None = None,
) -> FixedPoint:
    r"""The potential, to `tolerance` in the sup of |log column mass|.

    Each pass over rows and columns counts as one evaluation, for a conjugate gradient
    iteration or for a trial. A step is accepted if it brings $m$ closer to 1, in
    $\int (1-m)^2/m\,d\mu$ (which decreases along an exact step), or if the concave $J$
    still rises at its end; otherwise it is shortened. The evaluations of `start` are
    included, and its residual is taken as correct. Returns the best point seen.
    """
    g, zero = start.point, jnp.zeros_like(start.point)
    unit = jnp.ones((), g.dtype)
    count, far = jnp.asarray(0), jnp.full_like(unit, jnp.inf)
    trial = jnp.zeros((), bool)
    state = _State(
        g, far, zero, unit, RADIUS * unit, trial, zero, zero, unit, count, start
    )

    def is_unfinished(state: _State) -> Array:
        going = (state.best.residual > tolerance) & (state.length >= SHORTEST)
        return going & (state.best.evaluations < limit)

    def one_pass(state: _State) -> _State:
        point = state.g + jnp.where(state.solving, 0, state.length) * state.step
        image, derivative = full_step_jvp(score, mu, point, state.direction, queries)
        log_mass = jnp.where(has_weight(mu), point - image, 0)
        is_last = state.best.evaluations + 2 >= limit
        result = _Pass(point, log_mass, derivative, is_last)
        return _next_state(mu.weights, state, result)

    return jax.lax.while_loop(is_unfinished, one_pass, state).best


def plain_alternation(
    score: AbstractScore,
    mu: Points,
    start: FixedPoint,
    *,
    tolerance: Float[Array, ""],
    limit: int | Int[Array, ""],
    queries: Points | None = None,
) -> FixedPoint:
    """Alternation without acceleration, the last resort if Newton's method fails.

    It can be slow, but it contracts from any start and at any bandwidth: in Hilbert's
    metric, by Birkhoff's constant.
    """

    def is_unfinished(state: tuple[Array, FixedPoint]) -> Array:
        best = state[1]
        return (best.residual > tolerance) & (best.evaluations < limit)

    def one_pass(state: tuple[Array, FixedPoint]) -> tuple[Array, FixedPoint]:
        point, best = state
        image = full_step(score, mu, point, queries)
        error = jnp.max(jnp.abs(jnp.where(has_weight(mu), point - image, 0)))
        return image, _better(best, point, error)

    return jax.lax.while_loop(is_unfinished, one_pass, (start.point, start))[1]


def _next_state(w: Array, state: _State, result: _Pass) -> _State:
    """The state after a pass: a conjugate gradient iteration or a trial.

    The code has no branches and few sums, since compiling them takes longer than
    running them. An accepted trial starts conjugate gradients, preconditioned by
    `1 / m`.
    """
    point, log_mass, derivative, is_last = result
    m, q = jnp.exp(log_mass), state.direction
    divisor = jnp.exp(jnp.maximum(log_mass, LEAST))
    image = m * (q - derivative)  # (diag m - P*P) q
    size, is_at_edge = _size(w * m * q**2, w * q * image, state)
    residual = jnp.where(state.solving, state.residual - size * image, 1 - m)
    decrement = jnp.sum(w * residual**2 / divisor)
    closer = decrement <= (1 - DECREASE * state.length) * state.gap
    uphill = jnp.sum(w * residual * state.step) >= 0  # derivative of J along the step
    begins = ~state.solving & (closer | uphill)
    turn = jnp.where(begins, 0, decrement / state.decrement)
    is_solved = (decrement <= FORCING**2 * state.gap) | (state.inner >= LONGEST)
    goes_on = state.solving & ~(is_solved | is_at_edge | is_last)
    is_accepted = begins | state.solving
    grows = begins & uphill & (state.length == 1)
    return _State(
        g=jnp.where(begins, point, state.g),
        gap=jnp.where(begins, decrement, state.gap),
        step=jnp.where(begins, 0, state.step + size * q),
        length=jnp.where(is_accepted, 1, state.length / 2),
        radius=state.radius * jnp.where(grows, 2, jnp.where(is_accepted, 1, 0.5)),
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
    """Step size along the direction, and whether the edge of the box limits it.

    `squares` and `curvatures` sum to the squared norm of the direction and to its
    curvature. If rounding dominates the curvature, the step goes to the edge.
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
