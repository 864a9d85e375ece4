"""Checks of edges and densities when a grid is created, in NumPy."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import is_concrete
from meanfield.cells import align_axis, widths
from meanfield.errors import InvalidInputError, UnsupportedError

MIN_CELLS = 8  # fewest cells along an axis; a face value depends on five cells
MAX_MISSING_MASS = 1e-3  # largest mass of a density outside the grid
MAX_ROUGHNESS = 0.3  # largest `roughness` of a density that a grid resolves


def _check_known(*values: object) -> None:
    """Raises if a grid would be created from traced values.

    Raises:
        UnsupportedError: inside `jit`, `vmap` or `grad`.
    """
    if not all(map(is_concrete, values)):
        raise UnsupportedError(
            "A grid must be created from concrete values, outside `jit`, `vmap` and "
            "`grad`. Inside these, replace the masses of an existing grid by "
            "`grid.replace_coordinates(grid.state._replace(masses=...))`."
        )


def check_edges(edges: tuple[Array, ...]) -> None:
    """Raises unless `edges` define a grid.

    Raises:
        InvalidInputError: unless there are one or two axes of at least eight cells,
            with increasing edges.
        UnsupportedError: inside `jit`, `vmap` or `grad`.

    Examples:
        >>> from meanfield.measures import check_edges
        >>> check_edges((jnp.linspace(0, 1, 5),))
        Traceback (most recent call last):
            ...
        meanfield.errors.InvalidInputError: Axis 0 of a grid needs at least 8 cel...
    """
    _check_known(*edges)
    if len(edges) not in (1, 2):
        raise InvalidInputError(
            f"A grid must have one or two axes; got edges for {len(edges)} axes. Use "
            "points in higher dimensions."
        )
    for axis, row in enumerate(edges):
        host = np.asarray(row)
        if host.ndim != 1 or host.size < MIN_CELLS + 1:
            raise InvalidInputError(
                f"Axis {axis} of a grid needs at least {MIN_CELLS} cells; got edges of "
                f"shape {host.shape}."
            )
        if not np.all(np.diff(host) > 0):
            raise InvalidInputError(f"The edges of axis {axis} must increase strictly.")


def check_density(density: Array, shape: tuple[int, ...]) -> None:
    """Raises unless `density` has shape `shape`, is non-negative, and is not all zero.

    Raises:
        InvalidInputError: if its shape differs, an entry is negative, or all are zero.
        UnsupportedError: inside `jit`, `vmap` or `grad`.
    """
    _check_known(density)
    host = np.asarray(density)
    if host.shape != shape:
        raise InvalidInputError(
            f"`density` must hold one average for each cell, in an array of shape "
            f"{shape}; got shape {host.shape}."
        )
    if np.min(host) < 0:
        worst = np.unravel_index(np.argmin(host), shape)
        raise InvalidInputError(
            "`density` must not be negative; the average over cell "
            f"{tuple(map(int, worst))} is {host[worst]:.3g}."
        )
    if not np.any(host > 0):
        raise InvalidInputError(
            "`density` must be positive somewhere; got zero everywhere."
        )


def check_mass(mass: float) -> None:
    """Raises if too much of the mass of a density lies outside the grid.

    Raises:
        InvalidInputError: if the mass on the grid is not close to one.
    """
    if abs(mass - 1) > MAX_MISSING_MASS:
        raise InvalidInputError(
            f"The density must have mass 1 on the grid; got {mass:.6g}. Widen the "
            "edges, use more cells, or divide the density by its integral."
        )


def check_resolved(rough: float) -> None:
    """Raises if a density is narrower than its cells.

    Args:
        rough: the `roughness` of the density.

    Raises:
        InvalidInputError: if the roughness is too large.
    """
    if rough > MAX_ROUGHNESS:
        raise InvalidInputError(
            "The density is about as narrow as a cell of the grid. Use more cells, or "
            "a smaller box."
        )


def roughness(
    masses: Float[Array, "layers ..."], edges: tuple[Array, ...]
) -> Float[Array, ""]:
    r"""Roughness of a density: half the sum of jumps times widths, divided by the mass.

    The roughness is the largest of the values along the axes. For a Gaussian with a
    standard deviation of $\sigma$ cells it is $1/(\sigma\sqrt{2\pi})$, and for a
    density of isolated cells it is 1.

    Examples:
        >>> from meanfield.measures import roughness
        >>> edges = (jnp.linspace(-6, 6, 25),)  # half as wide as the deviation of 2
        >>> masses = jnp.exp(-((edges[0][1:] + edges[0][:-1]) ** 2) / 8)
        >>> print(roughness(masses[None], edges), 1 / (2 * np.sqrt(2 * np.pi)))
        0.19333... 0.19947...
    """
    parts = []
    for axis, row in enumerate(edges, start=1):
        h = widths(row)
        ends = [(0, 0)] * masses.ndim
        ends[axis] = (1, 1)
        density = jnp.pad(masses / align_axis(h, axis, masses.ndim), ends)
        distances = jnp.concatenate([h[:1], (h[1:] + h[:-1]) / 2, h[-1:]])
        steps = jnp.abs(jnp.diff(density, axis=axis))
        parts.append(jnp.sum(steps * align_axis(distances, axis, masses.ndim)))
    return jnp.max(jnp.stack(parts)) / (2 * jnp.sum(masses))
