"""What a grid must be before anything flows on it; checked on the host."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import is_concrete
from meanfield.cells import along, widths
from meanfield.errors import InvalidInputError, UnsupportedError

FEWEST = 8  # cells along an axis: a face value is read from five
MISSING = 1e-3  # of its mass that a density may have outside the grid
COARSE = 0.3  # steps between neighbours, as a share of the mass; see `roughness`


def _check_known(*values: object) -> None:
    """Raises where a grid would be made of numbers that are not known yet.

    Raises:
        UnsupportedError: inside `jit`, `vmap` or `grad`.
    """
    if not all(map(is_concrete, values)):
        raise UnsupportedError(
            "A grid is checked as it is made, from numbers that are known: make it "
            "outside of `jit`, `vmap` and `grad`, and give these its masses by "
            "`grid.at(grid.state._replace(masses=...))`."
        )


def check_edges(edges: tuple[Array, ...]) -> None:
    """Refuses edges on which nothing can be computed.

    Raises:
        InvalidInputError: naming the axis and what works.
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
            f"A grid has one or two axes; got edges for {len(edges)}. Use points in "
            "higher dimensions."
        )
    for axis, row in enumerate(edges):
        host = np.asarray(row)
        if host.ndim != 1 or host.size < FEWEST + 1:
            raise InvalidInputError(
                f"Axis {axis} of a grid needs at least {FEWEST} cells; got edges of "
                f"shape {host.shape}."
            )
        if not np.all(np.diff(host) > 0):
            raise InvalidInputError(f"The edges of axis {axis} must increase strictly.")


def check_density(density: Array, shape: tuple[int, ...]) -> None:
    """Refuses values that are no density on cells of this shape.

    Raises:
        InvalidInputError: if they are of another shape, negative, or all zero.
        UnsupportedError: inside `jit`, `vmap` or `grad`.
    """
    _check_known(density)
    host = np.asarray(density)
    if host.shape != shape:
        raise InvalidInputError(
            f"`density` must hold one average for each cell, shape {shape}; got "
            f"{host.shape}."
        )
    if np.min(host) < 0:
        worst = np.unravel_index(np.argmin(host), shape)
        raise InvalidInputError(
            f"`density` must not be negative; in cell {tuple(map(int, worst))} it is "
            f"{host[worst]:.3g}."
        )
    if not np.any(host > 0):
        raise InvalidInputError(
            "`density` is zero everywhere: there is no mass; give one that is positive "
            "somewhere."
        )


def check_mass(mass: float) -> None:
    """Refuses a density of which the grid holds too little.

    Raises:
        InvalidInputError: naming what lies outside.
    """
    if abs(mass - 1) > MISSING:
        raise InvalidInputError(
            f"The grid holds a mass of {mass:.6g} of this density, where 1 belongs; "
            "widen its edges, use more cells, or divide the density by its integral."
        )


def check_resolved(rough: float) -> None:
    """Refuses a density that is narrower than its cells.

    Raises:
        InvalidInputError: naming how it may be resolved.
    """
    if rough > COARSE:
        raise InvalidInputError(
            "The density is about as narrow as a cell of the grid; use more cells, or "
            "a smaller box."
        )


def roughness(
    masses: Float[Array, "layers ..."], edges: tuple[Array, ...]
) -> Float[Array, ""]:
    r"""Half the sum of the density's steps times the widths they are made over.

    Over the mass, along the roughest axis: $1/(\sigma\sqrt{2\pi})$ for a Gaussian of
    $\sigma$ cells; 1 where every cell with mass stands alone.

    Examples:
        >>> from meanfield.measures import roughness
        >>> edges = (jnp.linspace(-6, 6, 25),)  # half as wide as the deviation
        >>> masses = jnp.exp(-((edges[0][1:] + edges[0][:-1]) ** 2) / 8)
        >>> print(roughness(masses[None], edges), 1 / (2 * np.sqrt(2 * np.pi)))
        0.19333... 0.19947...
    """
    parts = []
    for axis, row in enumerate(edges, start=1):
        h = widths(row)
        ends = [(0, 0)] * masses.ndim
        ends[axis] = (1, 1)
        density = jnp.pad(masses / along(h, axis, masses.ndim), ends)
        across = jnp.concatenate([h[:1], (h[1:] + h[:-1]) / 2, h[-1:]])
        steps = jnp.abs(jnp.diff(density, axis=axis))
        parts.append(jnp.sum(steps * along(across, axis, masses.ndim)))
    return jnp.max(jnp.stack(parts)) / (2 * jnp.sum(masses))
