r"""How the box of a grid moves: $x = c + D\xi$ over cells that stay where they are.

A measure that spreads, escapes or collapses leaves any box that stands still. One that
moves with it sees the density relative to itself, with the velocity
$u - u_0 - R\xi$, $u = D^{-1}v$, where $c' = Du_0$ and $D' = DR$. Any $u_0$ and $R$ are
right; a box chooses those of the flow that keep what it follows.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.cells import along, centres


class GridState(NamedTuple):
    r"""All that moves of a density on a grid.

    Attributes:
        masses: of the cells, by layer and axis.
        outflow: the mass that has left through the faces of the box.
        origin: $c$ in $x = c + D\xi$.
        axes: $D$.
        courant: stable steps taken: the integral of the inverse of the longest one.
        blur: the integral of the error of interpolated velocities, a length.

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


class AbstractBox(eqx.Module):
    """A rule for the motion of a grid's box, and for what happens at its walls.

    Unless it says otherwise walls absorb: beyond them there is nothing, and what flows
    through them is outflow.

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
        r"""$u_0$ and $R$ from cells' places $\xi$, velocities $u$ and masses."""

    @property
    def is_open(self) -> bool:
        """Whether mass can leave, so that a wider box may hold another flow."""
        return True

    def let_through(
        self, faces: Float[Array, "*faces"], axis: int
    ) -> Float[Array, "*faces"]:
        """Velocities, or conductances, of faces along an axis, as walls let them be."""
        del axis
        return faces

    def continued(
        self, density: Float[Array, "*cells"], count: int
    ) -> Float[Array, "*wider"]:
        """A density along its last axis, and so many cells beyond either wall."""
        return jnp.pad(density, [(0, 0)] * (density.ndim - 1) + [(count, count)])


class FixedBox(AbstractBox):
    """Stands still; what leaves it is outflow.

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
    """Stands still, and nothing passes its walls: no flux, of velocities or of heat.

    Examples:
        >>> from meanfield.measures import ClosedBox
        >>> print(ClosedBox().let_through(jnp.ones(5), 0))
        [0. 1. 1. 1. 0.]
    """

    @property
    @override
    def is_open(self) -> bool:
        return False

    @override
    def let_through(
        self, faces: Float[Array, "*faces"], axis: int
    ) -> Float[Array, "*faces"]:
        inner = jnp.moveaxis(faces, axis, 0).at[jnp.array([0, -1])].set(0)
        return jnp.moveaxis(inner, 0, axis)

    @override
    def continued(
        self, density: Float[Array, "*cells"], count: int
    ) -> Float[Array, "*wider"]:
        """The density and its mirror image."""
        ends = [(0, 0)] * (density.ndim - 1) + [(count, count)]
        return jnp.pad(density, ends, mode="symmetric")


class ScaledBox(AbstractBox):
    """Moves with the mean and stretches with the spread along each axis.

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
    r"""Moves with mean and covariance: $R$ fits $u$ best in $L^2(\mu)$.

    The relative flow leaves both as they are. Under an affine field it stands still, so
    that a Gaussian is moved without any error of the grid.

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
        moved = (weights[:, None] * z).T @ velocities
        R = jnp.linalg.solve((weights[:, None] * z).T @ z, moved).T
        return drift - R @ mean, R


def turning(
    row: Float[Array, " d"], axis: int, edges: tuple[Float[Array, "..."], ...]
) -> Float[Array, "..."]:
    r"""A component of $R\xi$, by its row of $R$, at the faces across an axis."""
    d = len(edges)
    parts = jnp.zeros((1,) * (d + 1), row.dtype)
    for k, own in enumerate(edges):
        xi = own if k == axis else centres(own)
        parts = parts + row[k] * along(xi, k + 1, d + 1)
    return parts
