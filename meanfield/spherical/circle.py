"""Densities on the unit circle."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from meanfield.measures import AbstractBox, AbstractReduction, Dense, Points, Ring
from meanfield.tokens import Tokens
from meanfield.zones import zone_weights

from .density import AbstractSphericalDensity, SphericalState, initial_state


class CircleDensity(AbstractSphericalDensity):
    r"""A density on the unit circle, by its masses in cells of the angle.

    Attributes:
        state: the coordinates that move.
        reduction: how sums over the cells are evaluated; a flow chooses it.

    Examples:
        >>> from meanfield import CircleDensity, attentions, flow
        >>> start = CircleDensity.from_function(64, lambda a: 1 + 0.2 * np.cos(a))
        >>> softmax = attentions["softmax"](2 * jnp.eye(2), jnp.eye(2), jnp.eye(2))
        >>> end = flow(softmax, start, [0.0, 1.0]).final
        >>> print(start.mean, end.mean)  # it contracts towards the angle zero
        [ 0.1 -0. ] [0.1416 0.    ]
    """

    state: SphericalState
    reduction: AbstractReduction = Dense()

    box: ClassVar[AbstractBox] = Ring()

    @classmethod
    def from_function(
        cls, cells: int, density: Callable[[np.ndarray], np.ndarray]
    ) -> "CircleDensity":
        """A density given as a function of the angle, divided by its integral.

        Args:
            cells: number of cells, which have equal widths.
            density: function from angles in [-π, π] to densities of any scale.

        Raises:
            InvalidInputError: if there are fewer than eight cells, or the density is
                negative, not finite, or zero everywhere.
        """
        return cls(initial_state(density, cells, 2))

    @property
    @override
    def dimension(self) -> int:
        """Two, the dimension of the plane around the circle."""
        return 2

    @property
    @override
    def pole(self) -> Float[np.ndarray, " 2"]:
        return np.eye(2)[0]

    @override
    def frame(
        self, angles: Float[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, "m 2"], Float[np.ndarray, "m 2"]]:
        cosines, sines = np.cos(angles), np.sin(angles)
        return np.stack([cosines, sines], 1), np.stack([-sines, cosines], 1)

    @override
    def points(self) -> Points:
        """Weighted tokens at the centres, exact to fourth order in the cell width."""
        masses = self.state.masses
        tokens = Tokens(jnp.asarray(self.frame(self.angles)[0], masses.dtype))
        return Points(tokens, jnp.log(zone_weights(masses, 2)), self.reduction)

    @override
    def replace_coordinates(self, coordinates: SphericalState) -> "CircleDensity":
        return CircleDensity(coordinates, self.reduction)

    @override
    def replace_reduction(self, reduction: AbstractReduction) -> "CircleDensity":
        return CircleDensity(self.state, reduction)

    @override
    def accept(self, reader: Any) -> Any:
        return reader.read_nodes(self, self.points())
