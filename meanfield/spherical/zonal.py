"""Densities on spheres that depend on the angle to an axis only."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Float
from typing_extensions import override

from meanfield.errors import InvalidInputError
from meanfield.measures import (
    AbstractBox,
    AbstractReduction,
    Blocked,
    ClosedBox,
    Points,
)
from meanfield.tokens import Tokens
from meanfield.zones import zone_weights

from .density import AbstractSphericalDensity, SphericalState, initial_state

NODES = 32  # default number of nodes on a circle of latitude


class ZonalDensity(AbstractSphericalDensity):
    r"""A density on $S^{d-1}$, $d \ge 3$, that depends on the angle to an axis only.

    The cells are zones of the polar angle $\theta \in [0, \pi]$. Attention sums over
    nodes on each circle of latitude, with the weights of Gauss–Gegenbauer quadrature
    for $\omega = \cos\varphi$, which is exact for polynomials of $\omega$ of degree
    `2 n_nodes - 1`. The sums hold for queries in the plane of $\varphi = 0$, and this
    determines the velocity everywhere if the flow commutes with rotations around the
    axis.

    Attributes:
        state: the coordinates that move.
        axis: number of the coordinate axis.
        sphere_dimension: the dimension $d$ of the space around the sphere.
        n_nodes: number of nodes on a circle of latitude.
        reduction: how sums over the nodes are evaluated; a flow chooses it.

    Examples:
        >>> from meanfield import ZonalDensity, attentions, flow
        >>> start = ZonalDensity.from_function(64, lambda a: 1 + 0.3 * np.cos(a), d=3)
        >>> softmax = attentions["softmax"](2 * jnp.eye(3), jnp.eye(3), jnp.eye(3))
        >>> end = flow(softmax, start, [0.0, 1.0]).final
        >>> print(start.mean, end.mean)
        [0.1 0.  0. ] [0.1703 0.     0.    ]
    """

    state: SphericalState
    sphere_dimension: int = eqx.field(static=True)
    axis: int = eqx.field(static=True, default=0)
    n_nodes: int = eqx.field(static=True, default=NODES)
    reduction: AbstractReduction = Blocked()

    box: ClassVar[AbstractBox] = ClosedBox()

    @classmethod
    def from_function(
        cls,
        cells: int,
        density: Callable[[np.ndarray], np.ndarray],
        *,
        d: int,
        axis: int = 0,
    ) -> "ZonalDensity":
        """A density given as a function of the polar angle, divided by its integral.

        Args:
            cells: number of cells, which have equal widths.
            density: function from angles in [0, π] to densities of any scale, relative
                to the area of the sphere.
            d: dimension of the space around the sphere.
            axis: number of the coordinate axis, from 0 to `d - 1`.

        Raises:
            InvalidInputError: if `d` is below three, there is no such axis, there are
                fewer than eight cells, or the density is negative, not finite, or zero
                everywhere.
        """
        if d < 3:
            raise InvalidInputError(
                f"A zonal density needs d ≥ 3; got {d}. Use `CircleDensity` for d = 2."
            )
        if not 0 <= axis < d:
            raise InvalidInputError(f"`axis` must be in 0, …, {d - 1}; got {axis}.")
        return cls(initial_state(density, cells, d), d, axis)

    @property
    @override
    def dimension(self) -> int:
        """The dimension of the space around the sphere."""
        return self.sphere_dimension

    @property
    @override
    def pole(self) -> Float[np.ndarray, " d"]:
        return np.eye(self.sphere_dimension)[self.axis]

    @override
    def frame(
        self, angles: Float[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m d"]]:
        cosines, sines = np.cos(angles), np.sin(angles)
        return self._embed(cosines, sines), self._embed(-sines, cosines)

    def _embed(self, *parts: np.ndarray) -> Float[np.ndarray, "m d"]:
        """Vectors with given coordinates along the axis and the next axes."""
        x = np.zeros((len(parts[0]), self.sphere_dimension))
        for k, part in enumerate(parts):
            x[:, (self.axis + k) % self.sphere_dimension] = part
        return x

    @override
    def points(self) -> Points:
        """Weighted tokens on the circles of latitude, for queries in the plane.

        Use them for sums over keys only: their own inner products are not those of the
        density.
        """
        d, masses = self.sphere_dimension, self.state.masses
        omega, weights = scipy.special.roots_gegenbauer(self.n_nodes, (d - 3) / 2)
        cosines, sines = np.cos(self.angles), np.sin(self.angles)
        along = np.repeat(cosines, self.n_nodes)
        first = np.outer(sines, omega).ravel()
        second = np.outer(sines, np.sqrt(1 - omega**2)).ravel()
        tokens = Tokens(jnp.asarray(self._embed(along, first, second), masses.dtype))
        shares = np.log(weights / np.sum(weights))
        zones = zone_weights(masses, d)
        logs = jnp.log(zones)[:, None] + jnp.asarray(shares, masses.dtype)[None]
        return Points(tokens, logs.ravel(), self.reduction)

    def replace_nodes(self, n_nodes: int) -> "ZonalDensity":
        """The density with another number of nodes on a circle of latitude."""
        return ZonalDensity(self.state, self.sphere_dimension, self.axis, n_nodes)

    @override
    def replace_reduction(self, reduction: AbstractReduction) -> "ZonalDensity":
        return dataclasses.replace(self, reduction=reduction)

    @override
    def replace_coordinates(self, coordinates: SphericalState) -> "ZonalDensity":
        return dataclasses.replace(self, state=coordinates)

    @override
    def accept(self, reader: Any) -> Any:
        return reader.read_zonal(self, self.points())
