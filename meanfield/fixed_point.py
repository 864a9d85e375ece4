"""Fixed points by safeguarded Anderson acceleration, usable inside `jit`."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from meanfield.linalg import solve

DEPTH = 5  # number of mixed iterates; more iterates did not help for Sinkhorn
GROWTH = 2.0  # a residual that grows by more than this factor restarts the history


class FixedPoint(NamedTuple):
    """Result of an iteration: the point, its residual, and the number of evaluations.

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
    residuals: Array  # residuals of past iterates, [DEPTH, n]
    n_rows: Array  # number of valid rows in the history
    last: Array  # sup norm of the last residual
    mark: Array  # residual at its last tenfold decrease
    mark_count: Array  # number of evaluations until the last tenfold decrease
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

    The method is type-II Anderson mixing. If it does not reach the tolerance, it
    returns the best point found. The iteration also stops if the residual is NaN, or
    has not decreased tenfold within `patience` evaluations.

    Examples:
        >>> from meanfield.fixed_point import anderson
        >>> root = anderson(jnp.cos, jnp.ones(1), tolerance=1e-12, max_evaluations=50)
        >>> print(root.point, bool(root.evaluations < 20))
        [0.7391] True
    """
    n = x0.shape[0]
    history = jnp.zeros((DEPTH, n), x0.dtype)
    far, zero = jnp.asarray(jnp.inf, x0.dtype), jnp.asarray(0)
    begin = FixedPoint(x0, far, zero)
    start = _State(x0, history, history, zero, far, far, zero, begin)

    def is_unfinished(state: _State) -> Array:
        evaluations = state.best.evaluations
        continues = (state.best.residual > tolerance) & ~jnp.isnan(state.last)
        continues &= evaluations < max_evaluations
        return (
            continues
            if patience is None
            else continues & (evaluations - state.mark_count < patience)
        )

    return jax.lax.while_loop(is_unfinished, lambda s: _step(fn, s), start).best


def _step(fn: Callable[[Array], Array], state: _State) -> _State:
    image = fn(state.x)
    residual = image - state.x
    size = jnp.max(jnp.abs(residual), initial=0)
    n_rows = jnp.where(size > GROWTH * state.last, 0, state.n_rows)
    slot = n_rows % DEPTH
    points = state.points.at[slot].set(image)
    residuals = state.residuals.at[slot].set(residual)
    n_rows = n_rows + 1
    weights = _mixing(residuals, jnp.minimum(n_rows, DEPTH))
    evaluations = state.best.evaluations + 1
    better = size < state.best.residual
    best = FixedPoint(
        jnp.where(better, state.x, state.best.point),
        jnp.where(better | jnp.isnan(size), size, state.best.residual),
        evaluations,
    )
    fell = best.residual < state.mark / 10
    mark = jnp.where(fell, best.residual, state.mark)
    mark_count = jnp.where(fell, evaluations, state.mark_count)
    return _State(
        weights @ points, points, residuals, n_rows, size, mark, mark_count, best
    )


def _mixing(residuals: Float[Array, "depth n"], n_rows: Int[Array, ""]) -> Array:
    """Weights with sum one that minimise the norm of the mixed residual."""
    depth = residuals.shape[0]
    is_used = jnp.arange(depth) < n_rows
    rows = jnp.where(is_used[:, None], residuals, 0)
    gram = rows @ rows.T
    # If residuals are parallel up to rounding errors, the ridge bounds the weights.
    ridge = (
        10 * jnp.finfo(gram.dtype).eps * jnp.trace(gram) + jnp.finfo(gram.dtype).tiny
    )
    gram = gram + jnp.diag(jnp.where(is_used, ridge, 1))
    weights = solve(gram, is_used.astype(gram.dtype))
    return weights / jnp.sum(weights)
