r"""Evaluation of the velocity on a grid: at every face, or at Chebyshev nodes.

An attention field is smooth for every measure, because tilted means are analytic in the
query. On a two-dimensional grid the field is evaluated at a few thousand nodes, and
interpolated to the faces by two small matrix products. The last coefficients of the
Chebyshev series estimate the error.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.cells import centres, lattice
from meanfield.fields import AbstractField
from meanfield.linalg import HIGHEST
from meanfield.tokens import Tokens

Edges = tuple[Float[Array, "..."], ...]


class Chart(NamedTuple):
    r"""The map $x = c + D\xi$ from cells with fixed edges to the space.

    Attributes:
        origin: $c$.
        axes: $D$.
        edges: edges of the cells along each axis of $\xi$.
        position: position of each layer of cells; `None` if tokens have none.
    """

    origin: Float[Array, " d"]
    axes: Float[Array, "d d"]
    edges: Edges
    position: Float[Array, " layers"] | None

    @property
    def layers(self) -> int:
        """The number of layers of cells, one for each position."""
        return 1 if self.position is None else self.position.shape[0]

    def tokens(self, *places: Float[Array, "..."]) -> Tokens:
        """Tokens on the tensor grid of coordinates `places`, for each layer."""
        xi = lattice(*places).reshape(-1, len(places))
        x = self.origin[None, :] + jnp.matmul(xi, self.axes.T, precision=HIGHEST)
        if self.position is None:
            return Tokens(x)
        position = jnp.repeat(self.position, x.shape[0])
        return Tokens(jnp.tile(x, (self.layers, 1)), position)

    def relative(
        self, field: AbstractField, places: tuple[Float[Array, "..."], ...]
    ) -> Float[Array, "layers *places d"]:
        r"""The velocity $u = D^{-1}v$ on the tensor grid of coordinates `places`."""
        v = field(self.tokens(*places))
        u = jnp.linalg.solve(self.axes, v.T).T
        return u.reshape(self.layers, *(p.shape[0] for p in places), len(places))


class Velocities(NamedTuple):
    """Velocities relative to the axes of a chart.

    Attributes:
        faces: for each axis, all components at the centres of the faces perpendicular
            to it.
        error: interpolation error, in the units of the velocity $v$; 0 without
            interpolation.
    """

    faces: tuple[Float[Array, "..."], ...]
    error: Float[Array, ""]


class AbstractProbe(eqx.Module):
    """A method to compute the velocity at all faces.

    Examples:
        >>> from meanfield.measures import AbstractProbe, EveryFace, Nodes
        >>> issubclass(Nodes, AbstractProbe), issubclass(EveryFace, AbstractProbe)
        (True, True)
    """

    @abc.abstractmethod
    def velocities(self, chart: Chart, field: AbstractField) -> Velocities:
        """The velocities of a field at the faces of a chart."""


class EveryFace(AbstractProbe):
    """Evaluation of the velocity at every face.

    Examples:
        >>> from meanfield import Drift, Grid
        >>> from meanfield.measures import EveryFace
        >>> grid = Grid.from_density([np.linspace(-1, 1, 9)], np.ones(8))
        >>> velocities = EveryFace().velocities(
        ...     grid.chart, Drift(-jnp.eye(1)).field(0.0, grid)
        ... )
        >>> print(velocities.faces[0].ravel())
        [ 1.    0.75  0.5   0.25  0.   -0.25 -0.5  -0.75 -1.  ]
    """

    @override
    def velocities(self, chart: Chart, field: AbstractField) -> Velocities:
        faces = tuple(
            chart.relative(field, _faces(chart.edges, axis))
            for axis in range(len(chart.edges))
        )
        return Velocities(faces, jnp.zeros((), chart.origin.dtype))


class Nodes(AbstractProbe):
    """Evaluation at tensor Chebyshev nodes, and interpolation to the faces.

    Attributes:
        count: number of nodes along each axis.

    Examples:
        >>> from meanfield import Drift, Grid
        >>> from meanfield.measures import Nodes
        >>> grid = Grid.from_density([np.linspace(-1, 1, 9)], np.ones(8))
        >>> velocities = Nodes(5).velocities(
        ...     grid.chart, Drift(-jnp.eye(1)).field(0.0, grid)
        ... )
        >>> print(velocities.faces[0].ravel())
        [ 1.    0.75  0.5   0.25  0.   -0.25 -0.5  -0.75 -1.  ]
    """

    count: int = eqx.field(static=True)

    @override
    def velocities(self, chart: Chart, field: AbstractField) -> Velocities:
        nodes = tuple(chebyshev(self.count, e[0], e[-1]) for e in chart.edges)
        u = self._node_velocities(chart, field)
        faces = []
        for axis in range(len(nodes)):
            face_places = _faces(chart.edges, axis)
            rows = [
                interpolation(n, p) for n, p in zip(nodes, face_places, strict=True)
            ]
            faces.append(_apply_along_axes(u, rows))
        # The last Chebyshev coefficients estimate the truncation error.
        ends = chebyshev_rows(self.count)[-max(2, self.count // 8) :]
        v = jnp.matmul(u, chart.axes.T, precision=HIGHEST)
        tail = jnp.max(self._sizes(v, jnp.asarray(ends, v.dtype)))
        return Velocities(tuple(faces), tail)

    def coefficients(self, chart: Chart, field: AbstractField) -> Float[Array, " p"]:
        """Largest Chebyshev coefficient of each degree, relative to the top speed."""
        v = jnp.matmul(
            self._node_velocities(chart, field), chart.axes.T, precision=HIGHEST
        )
        sizes = self._sizes(v, jnp.asarray(chebyshev_rows(self.count), v.dtype))
        return sizes / jnp.max(jnp.abs(v))

    def _node_velocities(
        self, chart: Chart, field: AbstractField
    ) -> Float[Array, "layers *nodes d"]:
        nodes = tuple(chebyshev(self.count, e[0], e[-1]) for e in chart.edges)
        return chart.relative(field, nodes)

    def _sizes(
        self, v: Float[Array, "layers *nodes d"], rows: Float[Array, "k p"]
    ) -> Float[Array, " k"]:
        """The largest coefficient along any axis, for each degree in `rows`."""
        largest = []
        for axis in range(1, v.ndim - 1):
            coefficients = jnp.tensordot(rows, v, axes=(1, axis), precision=HIGHEST)
            largest.append(
                jnp.max(jnp.abs(coefficients).reshape(rows.shape[0], -1), axis=1)
            )
        return jnp.max(jnp.stack(largest), axis=0)


def _faces(edges: Edges, axis: int) -> Edges:
    """Coordinates of the faces perpendicular to `axis`.

    They are the edges along `axis`, and the cell centres along every other axis.
    """
    return tuple(e if k == axis else centres(e) for k, e in enumerate(edges))


def _apply_along_axes(u: Array, rows: list[Array]) -> Array:
    """Applies each matrix of `rows` along its own axis; the first axis has none."""
    for axis, matrix in enumerate(rows, start=1):
        product = jnp.tensordot(matrix, u, axes=(1, axis), precision=HIGHEST)
        u = jnp.moveaxis(product, 0, axis)
    return u


def chebyshev(count: int, low: Array, high: Array) -> Float[Array, " count"]:
    """Chebyshev nodes of the first kind on an interval."""
    angles = (np.arange(count) + 0.5) * np.pi / count
    return (low + high) / 2 - (high - low) / 2 * np.cos(angles)


def interpolation(
    nodes: Float[Array, " p"], points: Float[Array, " m"]
) -> Float[Array, "m p"]:
    """The matrix of barycentric interpolation from Chebyshev nodes to points."""
    p = nodes.shape[0]
    k = np.arange(p)
    weights = (-1.0) ** k * np.sin((k + 0.5) * np.pi / p)
    gap = points[:, None] - nodes[None, :]
    hit = gap == 0
    terms = weights[None, :] / jnp.where(hit, 1, gap)
    rows = terms / jnp.sum(terms, axis=1, keepdims=True)
    return jnp.where(jnp.any(hit, axis=1, keepdims=True), hit.astype(rows.dtype), rows)


def chebyshev_rows(count: int) -> Float[np.ndarray, "count count"]:
    """The matrix from values at Chebyshev nodes to Chebyshev coefficients."""
    angles = (np.arange(count) + 0.5) * np.pi / count
    rows = 2 / count * np.cos(np.outer(np.arange(count), np.pi - angles))
    rows[0] /= 2
    return rows
