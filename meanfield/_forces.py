"""What moves a density between the cells of its grid, where no velocity says it."""

import equinox as eqx
from jaxtyping import Array, Float

from ._typing import Scalar


class CellForces(eqx.Module):
    r"""What moves mass between the cells of a grid beside a velocity: for densities.

    A flux through a face says what a velocity cannot, where one of two cells is empty:
    the density diffuses, $-\nabla p(\rho)$, or slides down a potential known at cells.

    Attributes:
        pressed: $p(\rho)/\rho$ times the mass, of each cell, by layer and axis.
        stiffness: the larger of $p(\rho)/\rho$ and $p'(\rho)$, of each cell.
        potential: $\phi$ at the middle of each cell, for the velocity $-\nabla\phi$.

    Examples:
        >>> from meanfield._forces import CellForces
        >>> masses = jnp.full((1, 8), 1 / 8)
        >>> heat = CellForces(masses, jnp.ones((1, 8)), jnp.zeros((1, 8)))  # p = rho
        >>> print((heat + heat).stiffness.max())
        2.0
    """

    pressed: Float[Array, "layers ..."]
    stiffness: Float[Array, "layers ..."]
    potential: Float[Array, "layers ..."]

    def __add__(self, other: "CellForces") -> "CellForces":
        """Both at once."""
        return CellForces(
            self.pressed + other.pressed,
            self.stiffness + other.stiffness,
            self.potential + other.potential,
        )

    def __rmul__(self, factor: Scalar) -> "CellForces":
        """So many times as strong."""
        return CellForces(
            factor * self.pressed, factor * self.stiffness, factor * self.potential
        )
