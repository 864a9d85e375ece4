r"""The cells of a grid: widths, middles, volumes, point masses, laws, entropy.

Measures, distances, runs, files and pictures share these formulas. Pictures load no
JAX, so each function computes in the namespace of its arrays, NumPy's or JAX's.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Array

    A = TypeVar("A", np.ndarray, Array)
else:
    A = TypeVar("A")  # to name JAX's arrays here would load JAX


def widths(edges: A) -> A:
    """The widths of the cells along an axis.

    Examples:
        >>> from meanfield.cells import widths
        >>> print(widths(np.array([0.0, 1.0, 3.0])))
        [1. 2.]
    """
    return edges.__array_namespace__().diff(edges)


def centres(edges: A) -> A:
    """The middles of the cells along an axis.

    Examples:
        >>> from meanfield.cells import centres
        >>> print(centres(np.array([0.0, 1.0, 3.0])))
        [0.5 2. ]
    """
    return (edges[1:] + edges[:-1]) / 2


def along(values: A, axis: int, ndim: int) -> A:
    """A vector laid along one axis of arrays of so many dimensions.

    Examples:
        >>> from meanfield.cells import along
        >>> print(along(np.arange(3.0), 1, 3).shape)
        (1, 3, 1)
    """
    return values.reshape((1,) * axis + (-1,) + (1,) * (ndim - axis - 1))


def neighbours(values: A, axis: int) -> tuple[A, A]:
    """All entries along an axis but the last, and all but the first.

    Of cells, what lies before and behind each face between two; of faces, what is at
    the lower and at the upper face of each cell.

    Examples:
        >>> from meanfield.cells import neighbours
        >>> print(*neighbours(np.arange(4.0), 0))
        [0. 1. 2.] [1. 2. 3.]
    """
    xp = values.__array_namespace__()
    first = xp.arange(values.shape[axis] - 1)
    return xp.take(values, first, axis=axis), xp.take(values, first + 1, axis=axis)


def volumes(edges: Sequence[A], *sizes: A) -> A:
    r"""The volumes of cells whose edges along each axis are given.

    In a box $x = c + D\xi$ they are larger by its size $|\det D|$. The axes of `sizes`
    lead those of the cells.

    Examples:
        >>> from meanfield.cells import volumes
        >>> print(volumes([np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0])]))
        [[2.]
         [4.]]
    """
    outer = edges[0].__array_namespace__().multiply.outer
    return functools.reduce(outer, (*sizes, *map(widths, edges)))


def lattice(*places: A) -> A:
    """The tensor product of places along each axis, `[*n, d]`.

    Examples:
        >>> from meanfield.cells import lattice
        >>> print(lattice(np.array([0.0, 1.0]), np.array([5.0])))
        [[[0. 5.]]
        <BLANKLINE>
         [[1. 5.]]]
    """
    xp = places[0].__array_namespace__()
    return xp.stack(xp.meshgrid(*places, indexing="ij"), axis=-1)


def points(origin: A, axes: A, *places: A) -> A:
    r"""The points $c + D\xi$ over a tensor product of places in $\xi$, `[..., *n, d]`.

    The leading axes are those of `origin`, `[..., d]`, and of `axes`, `[..., d, d]`.

    Examples:
        >>> from meanfield.cells import points
        >>> origin, axes = np.array([1.0, 0.0]), np.array([[2.0, 0.0], [0.0, 1.0]])
        >>> print(points(origin, axes, np.array([0.0, 1.0]), np.array([5.0])))
        [[[1. 5.]]
        <BLANKLINE>
         [[3. 5.]]]
    """
    xi = lattice(*places)
    turned = axes.__array_namespace__().swapaxes(axes, -1, -2)
    x = origin[..., None, :] + xi.reshape((-1, len(places))) @ turned
    return x.reshape((*x.shape[:-2], *xi.shape))


def point_masses(masses: A, edges: Sequence[A]) -> A:
    r"""Densities at the middles of cells times their volumes; cells are the last axes.

    An average over a cell exceeds the value at its middle by $h^2\rho''/24$. Sums over
    middles then integrate a smooth density that ends inside an even grid to far more
    than second order, where cell masses would add $h^2/12$ to a variance. Moves mass
    between neighbours only, and at most half of what a cell has to either side.

    Examples:
        >>> from meanfield.cells import centres, point_masses
        >>> edges = np.linspace(-6, 6, 25)
        >>> masses = np.diff((1 + np.tanh(edges)) / 2)  # a law of variance π²/12
        >>> variance = lambda w: float(w @ centres(edges) ** 2)
        >>> print(
        ...     f"{variance(masses):.4f} {variance(point_masses(masses, [edges])):.4f}"
        ... )
        0.8428 0.8219
        >>> print(f"{np.pi**2 / 12:.4f}")
        0.8225
    """
    for axis, faces in enumerate(edges, masses.ndim - len(edges)):
        masses = _point_masses(masses, axis, widths(faces))
    return masses


def _point_masses(masses: A, axis: int, h: A) -> A:
    xp = masses.__array_namespace__()
    density = masses / along(h, axis, masses.ndim)
    width = along((h[1:] + h[:-1]) / 2, axis, masses.ndim)
    before = (slice(None),) * axis
    left, right = masses[*before, :-1], masses[*before, 1:]
    flux = xp.diff(density, axis=axis) * width / 24
    flux = xp.clip(flux, -right / 2, left / 2)
    ends = [(0, 0)] * masses.ndim
    ends[axis] = (1, 1)
    return masses - xp.diff(xp.pad(flux, ends), axis=axis)


def layer_masses(masses: A, d: int) -> A:
    """The mass of each layer of cells, in arrays of as many dimensions.

    Examples:
        >>> from meanfield.cells import layer_masses
        >>> print(layer_masses(np.array([[0.1, 0.2], [0.3, 0.4]]), 1))
        [[0.3]
         [0.7]]
    """
    xp = masses.__array_namespace__()
    return xp.sum(masses, axis=tuple(range(-d, 0)), keepdims=True)


def entropy(masses: A, logs: A) -> A:
    r"""$\int\rho\log\rho\,dx$ from masses and logs of densities, over the last axis.

    Examples:
        >>> from meanfield.cells import entropy
        >>> masses = np.full(4, 0.25)  # a uniform density on [0, 2]
        >>> print(entropy(masses, np.log(masses / 0.5)), -np.log(2))
        -0.69314... -0.69314...
    """
    xp = masses.__array_namespace__()
    return xp.sum(xp.where(masses > 0, masses * logs, 0), axis=-1)
