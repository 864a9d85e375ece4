r"""Fluxes between cells, driven by pressures and potentials.

A pressure $p(\rho)$ drives the flux $-\nabla p$ through a face: the difference of the
pressures in its two cells, divided by the distance between their centres. This flux is
of second order, and monotone for steps within the bound that the stiffness sets, even
next to empty cells. For $p = \rho U' - U$ the flux is $-\theta\nabla U'$, where
$\theta = \Delta p/\Delta U'$ is a mean of the two densities. So the dissipation of
$\int U(\rho)$ is a sum of squares, also on the grid. A potential with known values in
the cells gives the velocity $-\nabla\phi$ at the face between two of them.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._forces import CellForces
from meanfield.cells import align_axis, centres, neighbours, widths

from ._boxes import AbstractBox
from ._upwind import Fluxes


class ForceFluxes(NamedTuple):
    """Fluxes and velocities that forces cause along one axis.

    Attributes:
        flux: mass per time that pressures drive through each face.
        emptying: bound on the rate at which pressures empty each cell, as a fraction of
            its mass per time.
        velocity: velocity at each face due to the potential, in coordinates of the box.
        mean_velocity: mean velocity of the mass in each cell, from pressures and
            potentials.
    """

    flux: Float[Array, "layers ..."]
    emptying: Float[Array, "layers ..."]
    velocity: Float[Array, "layers ..."]
    mean_velocity: Float[Array, "layers ..."]

    def add_fluxes(self, fluxes: Fluxes) -> Fluxes:
        """Adds upwind fluxes; these already include the velocity due to potentials."""
        flux, emptying = fluxes
        return Fluxes(flux + self.flux, emptying + self.emptying)


def force_fluxes(
    forces: CellForces,
    masses: Float[Array, "layers ..."],
    *,
    edges: tuple[Float[Array, "..."], ...],
    axes: Float[Array, "d d"],
    box: AbstractBox,
) -> tuple[ForceFluxes, ...]:
    """Fluxes and velocities that forces cause along each axis.

    The pressure outside the box is zero.

    Args:
        forces: forces on the cells.
        masses: masses of the cells.
        edges: edges of the cells along each axis.
        axes: orthogonal axes of the box.
        box: the box, which sets the boundary condition at its walls.
    """
    scales = 1 / jnp.sum(axes**2, axis=0)
    return tuple(
        _axis_fluxes(
            forces, masses, axis + 1, row, scales[axis] * _conductances(row, box)
        )
        for axis, row in enumerate(edges)
    )


def _axis_fluxes(
    forces: CellForces,
    masses: Float[Array, "layers ..."],
    axis: int,
    edges: Float[Array, " faces"],
    conductances: Float[Array, " faces"],
) -> ForceFluxes:
    """Fluxes and velocities along one axis, from the conductances of its faces."""
    n = masses.ndim
    conductances, h = (
        align_axis(conductances, axis, n),
        align_axis(widths(edges), axis, n),
    )
    pressure, ends = forces.cell_pressure / h, [(0, 0)] * n
    ends[axis] = (1, 1)
    falls = -jnp.diff(jnp.pad(pressure, ends), axis=axis)
    flux = conductances * falls
    low, high = neighbours(jnp.broadcast_to(conductances, falls.shape), axis)
    emptying = forces.stiffness * (low + high) / h
    inner = -jnp.diff(forces.potential, axis=axis)
    velocity = jnp.pad(inner, ends, mode="edge") * conductances
    momentum = h * sum(neighbours(flux, axis)) / 2
    mean_velocity = momentum / jnp.where(masses > 0, masses, 1)
    mean_velocity = mean_velocity + sum(neighbours(velocity, axis)) / 2
    return ForceFluxes(
        flux, emptying, velocity, jnp.where(masses > 0, mean_velocity, 0)
    )


def _conductances(
    edges: Float[Array, " faces"], box: AbstractBox
) -> Float[Array, " faces"]:
    """Inverse distances between the cell centres on both sides of each face."""
    inner, h = jnp.diff(centres(edges)), widths(edges)
    return box.apply_walls(1 / jnp.concatenate([h[:1], inner, h[-1:]]), 0)
