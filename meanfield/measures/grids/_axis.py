"""Chebyshev nodes on an axis: interpolation, coefficients."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def chebyshev(count: int, low: Array, high: Array) -> Float[Array, " count"]:
    """Chebyshev nodes of the first kind on an interval."""
    angles = (np.arange(count) + 0.5) * np.pi / count
    return (low + high) / 2 - (high - low) / 2 * np.cos(angles)


def interpolation(
    nodes: Float[Array, " p"], points: Float[Array, " m"]
) -> Float[Array, "m p"]:
    """The matrix from values at Chebyshev nodes to those at points: barycentric."""
    p = nodes.shape[0]
    k = np.arange(p)
    weights = (-1.0) ** k * np.sin((k + 0.5) * np.pi / p)
    gap = points[:, None] - nodes[None, :]
    hit = gap == 0
    terms = weights[None, :] / jnp.where(hit, 1, gap)
    rows = terms / jnp.sum(terms, axis=1, keepdims=True)
    return jnp.where(jnp.any(hit, axis=1, keepdims=True), hit.astype(rows.dtype), rows)


def chebyshev_rows(count: int) -> Float[np.ndarray, "count count"]:
    """The matrix from values at Chebyshev nodes to the coefficients of their series."""
    angles = (np.arange(count) + 0.5) * np.pi / count
    rows = 2 / count * np.cos(np.outer(np.arange(count), np.pi - angles))
    rows[0] /= 2
    return rows
