r"""Cells of a grid: widths, centres, volumes, point masses, entropy.

Measures, distances, runs, files and plots share these formulas. Plots do not import
JAX, so each function computes with the library of its arrays: NumPy or JAX.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Array

    A = TypeVar("A", np.ndarray, Array)
else:
    A = TypeVar("A")  # naming JAX's array type would import JAX


def widths(edges: A) -> A:
    """Widths of the cells along an axis.

    Examples:
        >>> from meanfield.cells import widths
        >>> print(widths(np.array([0.0, 1.0, 3.0])))
        [1. 2.]
    """
    return edges.__array_namespace__().diff(edges)


def centres(edges: A) -> A:
    """Centres of the cells along an axis.

    Examples:
        >>> from meanfield.cells import centres
        >>> print(centres(np.array([0.0, 1.0, 3.0])))
        [0.5 2. ]
    """
    return (edges[1:] + edges[:-1]) / 2


def align_axis(values: A, axis: int, ndim: int) -> A:
    """A vector reshaped to lie along `axis` of an array with `ndim` dimensions.

    Examples:
        >>> from meanfield.cells import align_axis
        >>> print(align_axis(np.arange(3.0), 1, 3).shape)
        (1, 3, 1)
    """
    return values.reshape((1,) * axis + (-1,) + (1,) * (ndim - axis - 1))


def neighbours(values: A, axis: int) -> tuple[A, A]:
    """All entries along an axis except the last, and all entries except the first.

    For values at cells, these are the values on either side of each inner face. For
    values at faces, they are the values at the lower and upper face of each cell.

    Examples:
        >>> from meanfield.cells import neighbours
        >>> print(*neighbours(np.arange(4.0), 0))
        [0. 1. 2.] [1. 2. 3.]
    """
    xp = values.__array_namespace__()
    first = xp.arange(values.shape[axis] - 1)
    return xp.take(values, first, axis=axis), xp.take(values, first + 1, axis=axis)


def volumes(edges: Sequence[A], *sizes: A) -> A:
    r"""Volumes of the cells with these edges along each axis, times `sizes`.

    For a box $x = c + D\xi$ the size is $|\det D|$. The axes of `sizes` come before the
    axes of the cells.

    Examples:
        >>> from meanfield.cells import volumes
        >>> print(volumes([np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0])]))
        [[2.]
         [4.]]
    """
    outer = edges[0].__array_namespace__().multiply.outer
    return functools.reduce(outer, (*sizes, *map(widths, edges)))


def lattice(*places: A) -> A:
    """Points of the lattice with given coordinates along each axis, `[*n, d]`.

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
    r"""The points $c + D\xi$ for the points $\xi$ of a lattice, `[..., *n, d]`.

    `origin` is $c$, `[..., d]`, and `axes` is $D$, `[..., d, d]`.

    Examples:
        >>> from meanfield.cells import points
        >>> origin, axes = np.array([1.0, 0.0]), np.array([[2.0, 0.0], [0.0, 1.0]])
        >>> print(points(origin, axes, np.array([0.0, 1.0]), np.array([5.0])))
        [[[1. 5.]]
        <BLANKLINE>
         [[3. 5.]]]
    """
    xi = lattice(*places)
    transposed_axes = axes.__array_namespace__().swapaxes(axes, -1, -2)
    x = origin[..., None, :] + xi.reshape((-1, len(places))) @ transposed_axes
    return x.reshape((*x.shape[:-2], *xi.shape))


def point_masses(masses: A, edges: Sequence[A]) -> A:
    r"""Densities at cell centres, times cell volumes, computed from cell masses.

    The last axes of `masses` run over the cells. The average of a density over a cell
    exceeds its value at the centre by about $h^2\rho''/24$. For a smooth density that
    falls to zero inside a uniform grid, sums over point masses are accurate to far more
    than second order; cell masses would add $h^2/12$ to a variance. The correction
    moves mass between neighbouring cells only, at most half of the mass of a cell to
    either side.

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
    density = masses / align_axis(h, axis, masses.ndim)
    width = align_axis((h[1:] + h[:-1]) / 2, axis, masses.ndim)
    leading_axes = (slice(None),) * axis
    left, right = masses[*leading_axes, :-1], masses[*leading_axes, 1:]
    flux = xp.diff(density, axis=axis) * width / 24
    flux = xp.clip(flux, -right / 2, left / 2)
    ends = [(0, 0)] * masses.ndim
    ends[axis] = (1, 1)
    return masses - xp.diff(xp.pad(flux, ends), axis=axis)


def moments(masses: A, edges: Sequence[A], origin: A, axes: A) -> tuple[A, A]:
    r"""Mean and covariance factor of densities on boxes $x = c + D\xi$.

    The factor is $DR$, with $RR^\top$ the covariance of $\xi$.

    Args:
        masses: masses of the cells, `[time, *cells]`.
        edges: edges of the cells along each axis.
        origin: $c$, `[time, d]`.
        axes: $D$, `[time, d, d]`.

    Returns:
        The mean `[time, d]` and the factor `[time, d, d]`.

    Examples:
        >>> from meanfield.cells import moments
        >>> masses = np.array([[0.5, 0.0, 0.5]])
        >>> box = np.zeros((1, 1)), np.eye(1)[None]
        >>> mean, factor = moments(masses, [np.array([0.0, 1.0, 2.0, 3.0])], *box)
        >>> print(mean)
        [[1.5]]
    """
    xp, d = masses.__array_namespace__(), len(edges)
    weights = point_masses(masses, edges).reshape(masses.shape[0], -1)
    weights = weights / xp.sum(weights, axis=1, keepdims=True)
    xi = lattice(*map(centres, edges)).reshape(-1, d)
    mean = weights @ xi
    deviations = xp.sqrt(weights)[..., None] * (xi - mean[:, None])
    R = xp.linalg.qr(deviations, mode="r")
    shift = xp.einsum("tij,tj->ti", axes, mean)
    return origin + shift, axes @ xp.swapaxes(R, -1, -2)


def layer_masses(masses: A, d: int) -> A:
    """Mass of each layer of cells: sums over the last `d` axes, which get length 1.

    Examples:
        >>> from meanfield.cells import layer_masses
        >>> print(layer_masses(np.array([[0.1, 0.2], [0.3, 0.4]]), 1))
        [[0.3]
         [0.7]]
    """
    xp = masses.__array_namespace__()
    return xp.sum(masses, axis=tuple(range(-d, 0)), keepdims=True)


def entropy(masses: A, logs: A) -> A:
    r"""Entropy $\int\rho\log\rho\,dx$ from masses and log densities on the last axis.

    Examples:
        >>> from meanfield.cells import entropy
        >>> masses = np.full(4, 0.25)  # a uniform density on [0, 2]
        >>> print(entropy(masses, np.log(masses / 0.5)), -np.log(2))
        -0.69314... -0.69314...
    """
    xp = masses.__array_namespace__()
    return xp.sum(xp.where(masses > 0, masses * logs, 0), axis=-1)
