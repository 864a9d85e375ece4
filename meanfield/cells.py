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
    """The widths of the cells along an axis."""
    return edges.__array_namespace__().diff(edges)


def centres(edges: A) -> A:
    """The middles of the cells along an axis."""
    return (edges[1:] + edges[:-1]) / 2


def along(values: A, axis: int, ndim: int) -> A:
    """A vector laid along one axis of arrays of so many dimensions."""
    return values.reshape((1,) * axis + (-1,) + (1,) * (ndim - axis - 1))


def volumes(edges: Sequence[A], *sizes: A) -> A:
    r"""The volumes of cells whose edges along each axis are given.

    In a box $x = c + D\xi$ they are larger by its size $|\det D|$. The axes of `sizes`
    lead those of the cells.
    """
    outer = edges[0].__array_namespace__().multiply.outer
    return functools.reduce(outer, (*sizes, *map(widths, edges)))


def lattice(*places: A) -> A:
    """The tensor product of places along each axis, `[*n, d]`."""
    xp = places[0].__array_namespace__()
    return xp.stack(xp.meshgrid(*places, indexing="ij"), axis=-1)


def points(origin: A, axes: A, *places: A) -> A:
    r"""The points $c + D\xi$ over a tensor product of places in $\xi$, `[..., *n, d]`.

    The leading axes are those of `origin`, `[..., d]`, and of `axes`, `[..., d, d]`.
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
    """The mass of each layer of cells, in arrays of as many dimensions."""
    xp = masses.__array_namespace__()
    return xp.sum(masses, axis=tuple(range(-d, 0)), keepdims=True)


def entropy(masses: A, logs: A) -> A:
    r"""$\int\rho\log\rho\,dx$ from masses and logs of densities, over the last axis."""
    xp = masses.__array_namespace__()
    return xp.sum(xp.where(masses > 0, masses * logs, 0), axis=-1)
