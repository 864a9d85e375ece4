r"""Fluxes of what moves mass between cells: pressures that diffuse it, and potentials.

A pressure $p(\rho)$ drives $-\nabla p$ through a face, by the difference of the two
cells over the distance of their middles: of second order, and monotone in steps that
empty no cell faster than the stiffness says, vacuum or not. For $p = \rho U' - U$ it is
$-\theta\nabla U'$ with the mean $\theta = \Delta p/\Delta U'$ of the two densities, so
that what is lost of $\int U(\rho)$ is a sum of squares on the grid as well. A potential
known at cells gives the velocity $-\nabla\phi$ at the face between two of them.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._forces import CellForces
from meanfield.cells import along, centres, neighbours, widths

from ._boxes import AbstractBox
from ._upwind import Fluxes


class Forced(NamedTuple):
    """What forces do across one axis.

    Attributes:
        through: mass per time that pressures drive through each face.
        emptying: the share of each cell that they may drive out of it, per time.
        velocity: at each face, relative to the axis, that of the potential.
        carried: the mean velocity of the mass of each cell, of both together.
    """

    through: Float[Array, "layers ..."]
    emptying: Float[Array, "layers ..."]
    velocity: Float[Array, "layers ..."]
    carried: Float[Array, "layers ..."]

    def beside(self, moved: Fluxes) -> Fluxes:
        """With the fluxes that velocities drive, those of the potential among them."""
        through, emptying = moved
        return Fluxes(through + self.through, emptying + self.emptying)


def forced(
    forces: CellForces,
    masses: Float[Array, "layers ..."],
    *,
    edges: tuple[Float[Array, "..."], ...],
    axes: Float[Array, "d d"],
    box: AbstractBox,
) -> tuple[Forced, ...]:
    """What forces do across each axis; outside, a cell further on, there is nothing.

    Args:
        forces: of the cells.
        masses: of the cells.
        edges: of the cells along each axis.
        axes: of the box, at right angles to each other.
        box: lets through its walls what it will.
    """
    scales = 1 / jnp.sum(axes**2, axis=0)
    return tuple(
        _across(forces, masses, axis + 1, row, scales[axis] * _conducts(row, box))
        for axis, row in enumerate(edges)
    )


def _across(
    forces: CellForces,
    masses: Float[Array, "layers ..."],
    axis: int,
    edges: Float[Array, " faces"],
    conducts: Float[Array, " faces"],
) -> Forced:
    """What forces do across one axis, by what each of its faces conducts."""
    n = masses.ndim
    conducts, h = along(conducts, axis, n), along(widths(edges), axis, n)
    pressure, ends = forces.pressed / h, [(0, 0)] * n
    ends[axis] = (1, 1)
    falls = -jnp.diff(jnp.pad(pressure, ends), axis=axis)
    through = conducts * falls
    low, high = neighbours(jnp.broadcast_to(conducts, falls.shape), axis)
    emptying = forces.stiffness * (low + high) / h
    inner = -jnp.diff(forces.potential, axis=axis)
    slopes = jnp.pad(inner, ends, mode="edge") * conducts
    driven = h * sum(neighbours(through, axis)) / 2
    carried = driven / jnp.where(masses > 0, masses, 1)
    carried = carried + sum(neighbours(slopes, axis)) / 2
    return Forced(through, emptying, slopes, jnp.where(masses > 0, carried, 0))


def _conducts(
    edges: Float[Array, " faces"], box: AbstractBox
) -> Float[Array, " faces"]:
    """One over the distances of middles on either side of each face."""
    inner, h = jnp.diff(centres(edges)), widths(edges)
    return box.let_through(1 / jnp.concatenate([h[:1], inner, h[-1:]]), 0)
