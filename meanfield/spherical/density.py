r"""Densities on the unit sphere that depend on one angle $\theta$.

The equation $\partial_t\mu + \nabla\cdot(\mu v) = 0$ is then one for the law of the
angle: $\partial_t q + \partial_\theta(q v_\theta) = 0$, where $q$ is the density
times the area of a circle of latitude. Areas and volumes are relative to the area of
the sphere, so that the uniform density is one.
"""

import abc
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import float_array
from meanfield.cells import centres
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField
from meanfield.linalg import HIGHEST
from meanfield.measures import (
    MIN_CELLS,
    AbstractBox,
    AbstractMeasure,
    AbstractReduction,
    Points,
)
from meanfield.measures.edges import averages
from meanfield.measures.grids import check_density, fluxes
from meanfield.scores import Dot
from meanfield.tokens import Tokens
from meanfield.zones import zone_areas, zone_edges, zone_moments, zone_volumes

from ._fixed_rows import FixedRows

MAX_CHANGE = 0.02  # largest change in a step, relative to the distance from uniform


class SphericalState(NamedTuple):
    r"""The coordinates of a density on a sphere.

    Attributes:
        masses: masses of the cells.
        courant: time integral of the inverse of the largest stable step.

    Examples:
        >>> from meanfield import CircleDensity
        >>> CircleDensity.from_function(16, np.ones_like).state.masses.shape
        (16,)
    """

    masses: Float[Array, " n"]
    courant: Float[Array, ""]


class AbstractSphericalDensity(AbstractMeasure):
    r"""A density on the unit sphere, by its masses in cells of an angle $\theta$.

    Upwind fluxes of third order move the masses: their sum is conserved exactly, and
    none becomes negative. Nothing can leave the sphere.

    Examples:
        >>> from meanfield import CircleDensity
        >>> from meanfield.spherical import AbstractSphericalDensity
        >>> density = CircleDensity.from_function(64, lambda a: 1 + np.cos(a))
        >>> isinstance(density, AbstractSphericalDensity), density.is_confined
        (True, True)
    """

    state: eqx.AbstractVar[SphericalState]
    """The coordinates that move."""

    box: ClassVar[AbstractBox]
    """The boundary conditions at the ends of the angle."""

    @property
    @abc.abstractmethod
    def pole(self) -> Float[np.ndarray, " d"]:
        """The point of the sphere at angle zero."""

    @property
    def areas(self) -> Float[np.ndarray, " faces"]:
        """The areas of the faces, divided by the area of the sphere."""
        return zone_areas(self.state.masses.shape[-1], self.dimension)

    @property
    def volumes(self) -> Float[np.ndarray, " n"]:
        """The volumes of the cells, divided by the area of the sphere."""
        return zone_volumes(self.state.masses.shape[-1], self.dimension)

    @abc.abstractmethod
    def frame(
        self, angles: Float[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m d"]]:
        r"""A point of the sphere at each angle, and the unit vector $e_\theta$."""

    @property
    def edges(self) -> Float[np.ndarray, " faces"]:
        """The angles of the faces between cells of equal width, in radians."""
        return zone_edges(self.state.masses.shape[-1], self.dimension)

    @property
    def angles(self) -> Float[np.ndarray, " n"]:
        """The angles of the centres of the cells, in radians."""
        return centres(self.edges)

    @property
    def density(self) -> Float[Array, " n"]:
        """The average density of each cell, which is one for the uniform measure."""
        sizes = np.where(self.volumes > 0, self.volumes, 1)
        return jnp.where(self.volumes > 0, self.state.masses / sizes, 0)

    @property
    def mass(self) -> Float[Array, ""]:
        """The total mass, which is one."""
        return jnp.sum(self.state.masses)

    @property
    def mean(self) -> Float[Array, " d"]:
        r"""The mean $\int x\,d\mu$."""
        return zone_moments(self.state.masses, self.pole)[0]

    @property
    def covariance(self) -> Float[Array, "d d"]:
        r"""The covariance $\int (x - \alpha)(x - \alpha)^\top d\mu$."""
        factor = zone_moments(self.state.masses, self.pole)[1]
        return jnp.matmul(factor, factor.T, precision=HIGHEST)

    @property
    @override
    def coordinates(self) -> SphericalState:
        return self.state

    @property
    @override
    def is_confined(self) -> bool:
        return True

    @property
    @override
    def size(self) -> Float[Array, ""]:
        return jnp.ones((), self.state.masses.dtype)

    @override
    def norm(self, tangent: SphericalState) -> Float[Array, ""]:
        """The sum of the absolute masses."""
        return jnp.sum(jnp.abs(tangent.masses))

    @override
    def error_norm(self, error: SphericalState) -> Float[Array, ""]:
        return self.norm(error)

    @abc.abstractmethod
    def points(self) -> Points:
        """Weighted tokens, over which attention sums for queries in the plane."""

    @abc.abstractmethod
    def replace_reduction(
        self, reduction: AbstractReduction
    ) -> "AbstractSphericalDensity":
        """The density with another `reduction` for its sums over cells."""

    def fix_rows(self, score: Dot) -> "AbstractSphericalDensity":
        """The density with a matrix of the exponentials of a score."""
        dtype = self.state.masses.dtype
        faces = Tokens(jnp.asarray(self.frame(self.edges)[0], dtype))
        rows = FixedRows.from_score(score, faces, self.points().tokens)
        return self.replace_reduction(rows)

    @override
    def transport(self, field: AbstractField) -> SphericalState:
        """The fluxes between cells.

        Raises:
            UnsupportedError: if the field has forces, as those of an entropy.
        """
        velocity, forces = field.parts
        if forces is not None:
            raise UnsupportedError(
                "Forces between cells, such as those of an entropy, move a `Grid`. Use "
                "`noise` instead."
            )
        h, speeds = jnp.asarray(np.diff(self.edges)), self.face_speeds(velocity)
        flux, emptying = fluxes(self.state.masses, 0, h, speeds, self.box)
        change = -jnp.diff(flux)
        rate = jnp.max(stop_gradient(emptying)) + self._relative_rate(change)
        return SphericalState(change, rate)

    def face_speeds(self, velocity: AbstractField) -> Float[Array, " faces"]:
        r"""The velocities along $e_\theta$ at the faces."""
        dtype = self.state.masses.dtype
        x, directions = (jnp.asarray(a, dtype) for a in self.frame(self.edges))
        return jnp.sum(velocity(Tokens(x)) * directions, axis=1)

    def _relative_rate(self, change: Float[Array, " n"]) -> Float[Array, ""]:
        """The rate at which the distance from the uniform density changes.

        Velocities vanish near the uniform density, however fast it becomes unstable,
        and so they do not limit the steps there.
        """
        distance = jnp.sum(jnp.abs(stop_gradient(self.state.masses - self.volumes)))
        rate = jnp.sum(jnp.abs(stop_gradient(change))) / MAX_CHANGE
        return jnp.where(distance > 0, rate / jnp.where(distance > 0, distance, 1), 0)


def initial_state(
    density: Callable[[np.ndarray], np.ndarray], cells: int, d: int
) -> SphericalState:
    """The state of a density, scaled to mass one.

    Args:
        density: function from angles (m) to m densities.
        cells: number of cells.
        d: dimension of the space around the sphere.

    Raises:
        InvalidInputError: if there are too few cells, or the density is negative, not
            finite, or zero everywhere.
    """
    if not (isinstance(cells, int) and cells >= MIN_CELLS):
        raise InvalidInputError(
            f"`cells` must be a whole number of at least {MIN_CELLS}; got {cells!r}."
        )

    def law_of_angle(x: np.ndarray) -> np.ndarray:
        angles = x[:, 0]
        return np.asarray(density(angles)) * np.sin(angles) ** (d - 2)

    masses = float_array("density", averages(law_of_angle, [zone_edges(cells, d)]))
    check_density(masses, (cells,))
    return SphericalState(masses / jnp.sum(masses), jnp.zeros((), masses.dtype))
