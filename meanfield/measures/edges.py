"""Edges of cells along an axis, and averages of functions over cells."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from meanfield.cells import lattice
from meanfield.errors import InvalidInputError

GAUSS = 5  # Gauss nodes per cell and axis, exact up to degree nine


def even_edges(
    low: float | int, high: float | int, cells: int
) -> Float[np.ndarray, " faces"]:
    """Edges of cells of equal width.

    Raises:
        InvalidInputError: if `low` is not below `high`, or `cells` is not positive.

    Examples:
        >>> from meanfield.measures.edges import even_edges
        >>> print(even_edges(-1, 1, 4))
        [-1.  -0.5  0.   0.5  1. ]
    """
    _check(low, high, cells)
    return np.linspace(low, high, cells + 1)


def graded_edges(
    low: float | int, high: float | int, cells: int, *, ratio: float | int = 10.0
) -> Float[np.ndarray, " faces"]:
    r"""Edges of cells that are `ratio` times narrower in the middle than at the ends.

    The edges are stretched by $\sinh$, so that neighbouring widths differ little.

    Raises:
        InvalidInputError: as for `even_edges`, or if `ratio` is below one.

    Examples:
        >>> from meanfield.measures.edges import graded_edges
        >>> print(graded_edges(-1, 1, 4))
        [-1.     -0.2132  0.      0.2132  1.    ]
    """
    _check(low, high, cells)
    if not (np.isfinite(ratio) and ratio >= 1):
        raise InvalidInputError(f"`ratio` must be at least 1; got {ratio}.")
    steepness = np.arccosh(ratio)  # sinh(a s) is cosh(a) times steeper at 1 than at 0
    s = np.linspace(-1, 1, cells + 1)
    unit_edges = s if steepness == 0 else np.sinh(steepness * s) / np.sinh(steepness)
    return (low + high) / 2 + (high - low) / 2 * unit_edges


def averages(
    density: Callable[[np.ndarray], np.ndarray],
    edges: Sequence[Float[np.ndarray, "..."]],
) -> Float[np.ndarray, "*cells"]:
    """Averages of a function over the cells, by Gauss quadrature in each.

    Args:
        density: function from points (m, d) to m values.
        edges: edges of the cells along each axis.

    Examples:
        >>> from meanfield.measures.edges import averages
        >>> print(
        ...     averages(lambda x: x[:, 0] ** 2, [np.array([0.0, 1.0, 2.0])])
        ... )  # 1/3, 7/3
        [0.3333 2.3333]
    """
    u, w = np.polynomial.legendre.leggauss(GAUSS)
    nodes = [
        ((e[1:] + e[:-1])[:, None] + np.diff(e)[:, None] * u).ravel() / 2 for e in edges
    ]
    x = lattice(*nodes)
    values = np.asarray(density(x.reshape(-1, len(nodes)))).reshape(x.shape[:-1])
    for axis in range(len(nodes)):
        columns = np.moveaxis(values, axis, -1)
        columns = columns.reshape(*columns.shape[:-1], -1, GAUSS) @ (w / 2)
        values = np.moveaxis(columns, -1, axis)
    return values


def _check(low: float | int, high: float | int, cells: int) -> None:
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InvalidInputError(
            "`low` and `high` must be finite, and `low` must be the smaller one; got "
            f"{low} and {high}."
        )
    if cells < 1:
        raise InvalidInputError(f"`cells` must be at least 1; got {cells}.")
