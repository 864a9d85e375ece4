"""One axis of a grid: its cells, values at their middles, Chebyshev nodes."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def widths(edges: Float[Array, " faces"]) -> Float[Array, " cells"]:
    """The widths of the cells."""
    return jnp.diff(edges)


def centres(edges: Float[Array, " faces"]) -> Float[Array, " cells"]:
    """The middles of the cells."""
    return (edges[1:] + edges[:-1]) / 2


def along(values: Float[Array, " n"], axis: int, ndim: int) -> Array:
    """A vector laid along one axis of arrays of so many dimensions."""
    return values.reshape((1,) * axis + (-1,) + (1,) * (ndim - axis - 1))


def point_masses(
    masses: Float[Array, "*cells"], axis: int, h: Float[Array, " n"]
) -> Float[Array, "*cells"]:
    r"""Density at the middles of cells times their widths, along one axis.

    An average over a cell exceeds the value at its middle by $h^2\rho''/24$. Sums over
    middles then integrate a smooth density that ends inside an even grid to far more
    than second order, where cell masses would add $h^2/12$ to a variance. Moves mass
    between neighbours only, and at most half of what a cell has to either side.
    """
    density = masses / along(h, axis, masses.ndim)
    width = along((h[1:] + h[:-1]) / 2, axis, masses.ndim)
    n = masses.shape[axis]
    left = jax.lax.slice_in_dim(masses, 0, n - 1, axis=axis)
    right = jax.lax.slice_in_dim(masses, 1, n, axis=axis)
    flux = jnp.diff(density, axis=axis) * width / 24
    flux = jnp.clip(flux, -right / 2, left / 2)
    edge = [(0, 0)] * masses.ndim
    edge[axis] = (1, 1)
    return masses - jnp.diff(jnp.pad(flux, edge), axis=axis)


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
