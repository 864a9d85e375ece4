r"""Newton's method for Sinkhorn potentials, by conjugate gradients, in $O(n)$ memory.

The potential maximises the concave $J(g) = \int f_g\,d\mu + \int g\,d\mu$. The gradient
of $J$ in $L^2(\mu)$ is $1 - m$, where $m$ are the column masses of the plan. The
Hessian is $-(\mathrm{diag}(m) - P^*P)$. It is symmetric, and the constants are its null
space. If the plan is nearly an assignment, alternation is slow, but the Hessian has
only a few small eigenvalues, for which conjugate gradients need few iterations.

If the plan nearly decomposes into parts, and a part has too much mass, $J$ is almost
linear until the potential of this part has moved by the log of the weights that couple
it to the rest: by 50 for weights of $e^{-50}$. A full Newton step is then far too long.
Steps are therefore limited to a box, as in Steihaug (1983). They end at the edge of the
box, and the box grows while steps succeed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from meanfield.fixed_point import FixedPoint
from meanfield.measures import Points
from meanfield.scores import AbstractScore

from ._steps import full_step, full_step_jvp, has_weight

FORCING = 0.1  # relative tolerance of linear solves; a smaller one saves no Newton step
LONGEST = 300  # largest number of conjugate gradient iterations for one Newton step
RADIUS = 2.0  # half-width of the initial box, in units of the score
SHORTEST = 2.0**-20  # smallest step length; below it rounding dominates
DECREASE = 1e-4  # constant in the condition of sufficient decrease of the gap
LEAST = -40.0  # lower bound on the log of a divisor, so that squares stay finite


class _State(NamedTuple):
    """State between passes: conjugate gradients at `g`, or a trial step from `g`.

    The trial point is `g + length * step`.
    """

    g: Array
    gap: Array  # ∫ (1 - m)² / m dμ at g
    step: Array
    length: Array
    radius: Array  # half-width of the box to which a step is limited
    solving: Bool[Array, ""]
    residual: Array  # residual r of the linear system
    direction: Array
    decrement: Array  # ∫ r² / m dμ
    inner: Int[Array, ""]
    best: FixedPoint


class _Pass(NamedTuple):
    """Results of a pass over rows and columns."""

    point: Array  # potential at which the pass was made
    log_mass: Array  # log m at the point
    derivative: Array  # derivative of a full step at the point, along the direction
    is_last: Array  # whether at most one more evaluation is allowed after this one


def newton(
    score: AbstractScore,
    mu: Points,
    start: FixedPoint,
    *,
    tolerance: Float[Array, ""],
    limit: int | Int[Array, ""],
    queries: Points | None = None,
) -> FixedPoint:
    r"""The potential whose log column masses are within `tolerance`, or the best found.

    A conjugate gradient iteration and a trial step both need one pass over rows and
    columns, which counts as one evaluation. A step is accepted if it reduces
    $\int (1-m)^2/m\,d\mu$, as an exact Newton step does, or if the concave $J$ still
    rises at the end of the step; otherwise it is shortened. Evaluations are added to
    the number in `start`. If the residual of `start` is within `tolerance`, `start` is
    returned.
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

    It can be slow, but it converges from any start and at any bandwidth, since it
    contracts Hilbert's metric by Birkhoff's constant.
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
    """The state after a pass for a conjugate gradient iteration or for a trial step.

    The code has no branches and few sums, since these would take longer to compile than
    to run. After a trial step is accepted, conjugate gradients begin at the new point,
    preconditioned by `1 / m`.
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

    The sum of `squares` is the squared norm of the direction, and the sum of
    `curvatures` is its curvature. If rounding dominates the curvature, the step goes to
    the edge of the box.
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
