r"""Motion of the box of a grid, $x = c + D\xi$ over cells that are fixed in $\xi$.

A fixed box does not resolve a measure that spreads, escapes or collapses. In a box that
moves with the measure, the density has the relative velocity $u - u_0 - R\xi$ with
$u = D^{-1}v$, where $c' = Du_0$ and $D' = DR$. Every choice of $u_0$ and $R$ is valid.
Moving boxes choose them such that certain moments are constant in $\xi$.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.cells import align_axis, centres, widths


class GridState(NamedTuple):
    r"""The coordinates of a density on a grid.

    Attributes:
        masses: masses of the cells; the first array axis runs over layers.
        outflow: mass that has left through the faces of the box.
        origin: $c$ in $x = c + D\xi$.
        axes: $D$.
        courant: time integral of the inverse of the largest stable step.
        blur: time integral of the error of interpolated velocities, a length.

    Examples:
        >>> from meanfield import Grid
        >>> edges = np.linspace(-6, 6, 25)
        >>> grid = Grid.from_function(
        ...     [edges], lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
        ... )
        >>> print(grid.state.masses.shape, grid.state.outflow)
        (1, 24) 0.0
    """

    masses: Float[Array, "layers ..."]
    outflow: Float[Array, ""]
    origin: Float[Array, " d"]
    axes: Float[Array, "d d"]
    courant: Float[Array, ""]
    blur: Float[Array, ""]


def initial_state(
    averages: Float[Array, "layers ..."], edges: tuple[Float[Array, "..."], ...]
) -> GridState:
    r"""The state of a density with given cell averages, scaled to mass 1; $D = I$."""
    masses = averages
    for axis, row in enumerate(edges):
        # Widths are scaled by a power of two, because areas may overflow.
        sizes = widths(row)
        sizes = sizes / float(np.exp2(np.frexp(np.max(np.asarray(sizes)))[1]))
        masses = masses * align_axis(sizes, axis + 1, masses.ndim)
    masses = masses / jnp.sum(masses)
    d, zero = len(edges), jnp.zeros((), masses.dtype)
    origin, axes = jnp.zeros(d, masses.dtype), jnp.eye(d, dtype=masses.dtype)
    return GridState(masses, zero, origin, axes, zero, zero)


class AbstractBox(eqx.Module):
    """The motion of the box of a grid, and the boundary condition at its walls.

    By default walls absorb: the density vanishes outside, and mass that flows through
    them is outflow.

    Examples:
        >>> from meanfield.measures import AbstractBox, AffineBox, FixedBox, ScaledBox
        >>> [issubclass(box, AbstractBox) for box in (AffineBox, FixedBox, ScaledBox)]
        [True, True, True]
    """

    @abc.abstractmethod
    def motion(
        self,
        places: Float[Array, "n d"],
        velocities: Float[Array, "n d"],
        weights: Float[Array, " n"],
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        r"""Computes $u_0$ and $R$ from positions $\xi$, velocities $u$ and weights."""

    @property
    def is_open(self) -> bool:
        """Whether mass can leave the box; if it can, the flow may depend on the box."""
        return True

    def apply_walls(
        self, faces: Float[Array, "*faces"], axis: int
    ) -> Float[Array, "*faces"]:
        """Applies the boundary condition to velocities or conductances of faces."""
        del axis
        return faces

    def extend_density(
        self, density: Float[Array, "*cells"], count: int
    ) -> Float[Array, "*wider"]:
        """The density with `count` more cells at each end of its last axis."""
        return jnp.pad(density, [(0, 0)] * (density.ndim - 1) + [(count, count)])

    def face_values(
        self, left: Float[Array, "*cells"], right: Float[Array, "*cells"]
    ) -> tuple[Float[Array, "*faces"], Float[Array, "*faces"]]:
        """The densities below and above each face, from inner limits of each cell.

        Args:
            left: limits of the densities of the cells at their lower faces.
            right: limits at their upper faces.
        """
        lead = [(0, 0)] * (left.ndim - 1)
        return jnp.pad(right, [*lead, (1, 0)]), jnp.pad(left, [*lead, (0, 1)])


class FixedBox(AbstractBox):
    """A box that does not move; mass that leaves it is outflow.

    Examples:
        >>> from meanfield.measures import FixedBox
        >>> x, w = jnp.array([[-1.0], [1.0]]), jnp.array([0.5, 0.5])
        >>> print(FixedBox().motion(x, 3 * x, w))
        (Array([0.], dtype=float64), Array([[0.]], dtype=float64))
    """

    @override
    def motion(
        self,
        places: Float[Array, "n d"],
        velocities: Float[Array, "n d"],
        weights: Float[Array, " n"],
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        d = places.shape[1]
        return jnp.zeros(d, places.dtype), jnp.zeros((d, d), places.dtype)


class ClosedBox(FixedBox):
    """A box that does not move, without flux through its walls.

    Examples:
        >>> from meanfield.measures import ClosedBox
        >>> print(ClosedBox().apply_walls(jnp.ones(5), 0))
        [0. 1. 1. 1. 0.]
    """

    @property
    @override
    def is_open(self) -> bool:
        return False

    @override
    def apply_walls(
        self, faces: Float[Array, "*faces"], axis: int
    ) -> Float[Array, "*faces"]:
        inner = jnp.moveaxis(faces, axis, 0).at[jnp.array([0, -1])].set(0)
        return jnp.moveaxis(inner, 0, axis)

    @override
    def extend_density(
        self, density: Float[Array, "*cells"], count: int
    ) -> Float[Array, "*wider"]:
        """The density, reflected at both walls."""
        ends = [(0, 0)] * (density.ndim - 1) + [(count, count)]
        return jnp.pad(density, ends, mode="symmetric")


class Ring(FixedBox):
    """A box whose ends are the same place, for densities that are periodic.

    Examples:
        >>> from meanfield.measures import Ring
        >>> print(Ring().extend_density(jnp.arange(4.0), 1))
        [3. 0. 1. 2. 3. 0.]
    """

    @property
    @override
    def is_open(self) -> bool:
        return False

    @override
    def apply_walls(
        self, faces: Float[Array, "*faces"], axis: int
    ) -> Float[Array, "*faces"]:
        """The values, with that of the first face also at the last one."""
        first = jnp.moveaxis(faces, axis, 0)[0]
        return jnp.moveaxis(jnp.moveaxis(faces, axis, 0).at[-1].set(first), 0, axis)

    @override
    def extend_density(
        self, density: Float[Array, "*cells"], count: int
    ) -> Float[Array, "*wider"]:
        ends = [(0, 0)] * (density.ndim - 1) + [(count, count)]
        return jnp.pad(density, ends, mode="wrap")

    @override
    def face_values(
        self, left: Float[Array, "*cells"], right: Float[Array, "*cells"]
    ) -> tuple[Float[Array, "*faces"], Float[Array, "*faces"]]:
        below = jnp.concatenate([right[..., -1:], right], axis=-1)
        return below, jnp.concatenate([left, left[..., :1]], axis=-1)


class ScaledBox(AbstractBox):
    """A box that follows the mean and the standard deviation along each axis.

    Examples:
        >>> from meanfield.measures import ScaledBox
        >>> x = jnp.array([[-1.0, -1.0], [1.0, 1.0]])
        >>> print(ScaledBox().motion(x, x * jnp.array([3.0, 0.0]), jnp.full(2, 0.5))[1])
        [[3. 0.]
         [0. 0.]]
    """

    @override
    def motion(
        self,
        places: Float[Array, "n d"],
        velocities: Float[Array, "n d"],
        weights: Float[Array, " n"],
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        mean, drift = weights @ places, weights @ velocities
        z = places - mean[None]
        rates = weights @ (z * velocities) / (weights @ z**2)
        return drift - rates * mean, jnp.diag(rates)


class AffineBox(AbstractBox):
    r"""A box that follows the mean and the covariance.

    $R$ is the linear part of the best affine fit to $u$ in $L^2(\mu)$, so mean and
    covariance are constant in $\xi$. Under an affine field the relative velocity
    vanishes, and a Gaussian moves without any error from the discretisation in space.

    Examples:
        >>> from meanfield.measures import AffineBox
        >>> x, w = jnp.array([[-1.0], [1.0]]), jnp.array([0.5, 0.5])
        >>> print(AffineBox().motion(x, 3 * x, w))  # grows at rate 3
        (Array([0.], dtype=float64), Array([[3.]], dtype=float64))
    """

    @override
    def motion(
        self,
        places: Float[Array, "n d"],
        velocities: Float[Array, "n d"],
        weights: Float[Array, " n"],
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        mean, drift = weights @ places, weights @ velocities
        z = places - mean[None]
        cross_moment = (weights[:, None] * z).T @ velocities
        R = jnp.linalg.solve((weights[:, None] * z).T @ z, cross_moment).T
        return drift - R @ mean, R


def linear_velocity(
    row: Float[Array, " d"], axis: int, edges: tuple[Float[Array, "..."], ...]
) -> Float[Array, "..."]:
    r"""The product of a row of $R$ and $\xi$, at the faces perpendicular to an axis."""
    d = len(edges)
    parts = jnp.zeros((1,) * (d + 1), row.dtype)
    for k, axis_edges in enumerate(edges):
        xi = axis_edges if k == axis else centres(axis_edges)
        parts = parts + row[k] * align_axis(xi, k + 1, d + 1)
    return parts
