"""Fixed points by Anderson acceleration, safeguarded, inside `jit`."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

DEPTH = 5  # past iterates mixed; more gained nothing on Sinkhorn problems
GROWTH = 2.0  # a residual that grows by more than this restarts the history


class FixedPoint(NamedTuple):
    """Where an iteration stopped: the point, its sup-norm residual, its evaluations.

    Examples:
        >>> from meanfield.fixed_point import anderson
        >>> end = anderson(jnp.cos, jnp.ones(1), tolerance=1e-12, max_evaluations=50)
        >>> print(end.point, end.residual < 1e-12)
        [0.7391] True
    """

    point: Float[Array, " n"]
    residual: Float[Array, ""]
    evaluations: Int[Array, ""]


class _State(NamedTuple):
    x: Array
    points: Array  # images of past iterates, [DEPTH, n]
    residuals: Array  # [DEPTH, n]
    held: Array  # how many rows of the history count
    last: Array  # sup norm of the last residual
    mark: Array  # the residual when it last had fallen tenfold
    since: Array  # the evaluations spent then
    best: FixedPoint


def anderson(
    fn: Callable[[Array], Array],
    x0: Float[Array, " n"],
    *,
    tolerance: Float[Array, ""] | float,
    max_evaluations: int | Int[Array, ""],
    patience: int | None = None,
) -> FixedPoint:
    """A fixed point of `fn`, to `tolerance` in the sup norm of `fn(x) - x`.

    Type-II Anderson mixing. Returns the best point seen when the tolerance is not
    reached; a residual that is not finite ends the iteration, and so does one that has
    not fallen tenfold in `patience` evaluations.

    Examples:
        >>> from meanfield.fixed_point import anderson
        >>> root = anderson(jnp.cos, jnp.ones(1), tolerance=1e-12, max_evaluations=50)
        >>> print(root.point, bool(root.evaluations < 20))
        [0.7391] True
    """
    n = x0.shape[0]
    history = jnp.zeros((DEPTH, n), x0.dtype)
    far, none = jnp.asarray(jnp.inf, x0.dtype), jnp.asarray(0)
    begin = FixedPoint(x0, far, none)
    start = _State(x0, history, history, none, far, far, none, begin)

    def unfinished(state: _State) -> Array:
        spent = state.best.evaluations
        going = (state.best.residual > tolerance) & ~jnp.isnan(state.last)
        going &= spent < max_evaluations
        return going if patience is None else going & (spent - state.since < patience)

    return jax.lax.while_loop(unfinished, lambda s: _step(fn, s), start).best


def _step(fn: Callable[[Array], Array], state: _State) -> _State:
    image = fn(state.x)
    residual = image - state.x
    size = jnp.max(jnp.abs(residual), initial=0)
    held = jnp.where(size > GROWTH * state.last, 0, state.held)
    slot = held % DEPTH
    points = state.points.at[slot].set(image)
    residuals = state.residuals.at[slot].set(residual)
    held = held + 1
    weights = _mixing(residuals, jnp.minimum(held, DEPTH))
    evaluations = state.best.evaluations + 1
    better = size < state.best.residual
    best = FixedPoint(
        jnp.where(better, state.x, state.best.point),
        jnp.where(better | jnp.isnan(size), size, state.best.residual),
        evaluations,
    )
    fell = best.residual < state.mark / 10
    mark = jnp.where(fell, best.residual, state.mark)
    since = jnp.where(fell, evaluations, state.since)
    return _State(weights @ points, points, residuals, held, size, mark, since, best)


def _mixing(residuals: Float[Array, "depth n"], held: Int[Array, ""]) -> Array:
    """Weights summing to one that make the mixed residual smallest."""
    depth = residuals.shape[0]
    used = jnp.arange(depth) < held
    rows = jnp.where(used[:, None], residuals, 0)
    gram = rows @ rows.T
    # Rounding leaves nearly parallel residuals: a ridge at that level bounds weights.
    ridge = (
        10 * jnp.finfo(gram.dtype).eps * jnp.trace(gram) + jnp.finfo(gram.dtype).tiny
    )
    gram = gram + jnp.diag(jnp.where(used, ridge, 1))
    weights = jnp.linalg.solve(gram, used.astype(gram.dtype))
    return weights / jnp.sum(weights)
