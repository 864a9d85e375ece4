"""Forces that move a density between grid cells without a velocity field."""

import equinox as eqx
from jaxtyping import Array, Float

from ._typing import Scalar


class CellForces(eqx.Module):
    r"""Pressure and potential at the cells of a grid, which drive fluxes of mass.

    Unlike a velocity, the flux through a face is defined even if one of its two cells
    is empty. A pressure drives the flux $-\nabla p(\rho)$, and a potential known at the
    cells drives a flux with the velocity $-\nabla\phi$.

    Attributes:
        cell_pressure: $p(\rho)/\rho$ times the mass of each cell; the first axis runs
            over layers.
        stiffness: the larger of $p(\rho)/\rho$ and $p'(\rho)$ in each cell.
        potential: $\phi$ at the middle of each cell, for the velocity $-\nabla\phi$.

    Examples:
        >>> from meanfield._forces import CellForces
        >>> masses = jnp.full((1, 8), 1 / 8)
        >>> heat = CellForces(masses, jnp.ones((1, 8)), jnp.zeros((1, 8)))  # p = rho
        >>> print((heat + heat).stiffness.max())
        2.0
    """

    cell_pressure: Float[Array, "layers ..."]
    stiffness: Float[Array, "layers ..."]
    potential: Float[Array, "layers ..."]

    def __add__(self, other: "CellForces") -> "CellForces":
        """Sum of two sets of forces."""
        return CellForces(
            self.cell_pressure + other.cell_pressure,
            self.stiffness + other.stiffness,
            self.potential + other.potential,
        )

    def __rmul__(self, factor: Scalar) -> "CellForces":
        """The forces multiplied by `factor`."""
        return CellForces(
            factor * self.cell_pressure,
            factor * self.stiffness,
            factor * self.potential,
        )
