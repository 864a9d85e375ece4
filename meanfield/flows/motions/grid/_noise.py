r"""Noise on a grid: half a step of the heat flow before and after each step.

This is Strang splitting, of second order; Strang 1968, section 3.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield.cells import centres, widths
from meanfield.flows.motions._heat import Stencil
from meanfield.flows.stepping import AbstractGridSolver, Step
from meanfield.linalg import eigh
from meanfield.measures import MAX_TURN, AbstractBox, Grid, GridState

Edges = tuple[Float[Array, "..."], ...]


class Strang(AbstractGridSolver[GridState]):
    """Strang splitting: a step of transport between two half steps of heat flow.

    Attributes:
        inner: the solver of the transport, which moves the masses and the box.
        kappa: the diffusivity.
        edges: the edges of the cells along each axis.
        box: the box, whose walls absorb mass or reflect it.
    """

    inner: AbstractGridSolver[GridState]
    kappa: Float[Array, ""]
    edges: Edges
    box: AbstractBox

    @override
    def order(self, terms: PyTree) -> int:
        return 2

    @override
    def advance(self, terms: Any, step: Step, y0: GridState) -> tuple[GridState, Any]:
        half = self.kappa * jnp.asarray(step.t1 - step.t0) / 2
        warm = apply_heat_flow(y0, self.edges, half, self.box)
        state, rate = self.inner.advance(terms, step, warm)
        return apply_heat_flow(state, self.edges, half, self.box), rate


class SpreadingBox(AbstractBox):
    r"""A box that also follows the density as noise spreads it.

    For the moments that a box follows, noise acts like the velocity
    $\kappa\,\mathrm{Var}(\xi_k)^{-1}(\xi_k - \bar\xi_k)$ along each axis.

    Attributes:
        inner: the box without noise.
        rates: $\kappa/|D_k|^2$, the diffusivity along each axis of $\xi$.
    """

    inner: AbstractBox
    rates: Float[Array, " d"]

    @property
    @override
    def is_open(self) -> bool:
        return self.inner.is_open

    @override
    def apply_walls(
        self, faces: Float[Array, "*faces"], axis: int
    ) -> Float[Array, "*faces"]:
        return self.inner.apply_walls(faces, axis)

    @override
    def extend_density(
        self, density: Float[Array, "*cells"], count: int
    ) -> Float[Array, "*wider"]:
        return self.inner.extend_density(density, count)

    @override
    def motion(
        self,
        places: Float[Array, "n d"],
        velocities: Float[Array, "n d"],
        weights: Float[Array, " n"],
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        z = places - (weights @ places)[None, :]
        spread = (self.rates / (weights @ z**2))[None, :] * z
        return self.inner.motion(places, velocities + spread, weights)


def add_box_spreading(mu: Grid, kappa: Float[Array, ""]) -> Grid:
    """Lets a box that moves with a density also follow the spreading due to noise."""
    box = SpreadingBox(mu.box, kappa / _lengths(mu.state.axes) ** 2)
    return Grid(mu.state, mu.edges, mu.position, box, mu.probe)


def noise_step_rate(mu: Grid, kappa: Float[Array, ""]) -> Float[Array, ""]:
    """The inverse of the longest step in which noise hardly widens the density.

    The field is frozen during the heat flow, so the density may widen by at most a
    fraction `MAX_TURN` in a step.
    """
    return kappa / eigh(mu.covariance)[0][0] / MAX_TURN


def apply_heat_flow(
    y: GridState, edges: Edges, area: Float[Array, ""], box: AbstractBox
) -> GridState:
    r"""The heat flow of $\Delta$ in a fixed box, up to the time `area` $= \kappa t$."""
    masses, outflow = y.masses, y.outflow
    for axis, axis_edges in enumerate(edges):
        stencil = _stencil(axis_edges, box)
        ends = [(0, 0)] * (masses.ndim - 1) + [(1, 1)]
        u = jnp.pad(jnp.moveaxis(masses, axis + 1, -1), ends)
        spread = stencil.spread(u, area / _lengths(y.axes)[axis] ** 2)
        outflow = outflow + jnp.sum(spread[..., 0]) + jnp.sum(spread[..., -1])
        masses = jnp.moveaxis(spread[..., 1:-1], -1, axis + 1)
    return y._replace(masses=masses, outflow=outflow)


def _stencil(edges: Float[Array, " faces"], box: AbstractBox) -> Stencil:
    """The stencil along an axis, with an empty cell that absorbs mass at each end."""
    h, middles = widths(edges), centres(edges)
    nodes = jnp.concatenate([edges[:1], middles, edges[-1:]])
    conductances = box.apply_walls(1 / jnp.diff(nodes), 0)
    return Stencil.from_conductances(conductances, h).absorb()


def _lengths(axes: Float[Array, "d d"]) -> Float[Array, " d"]:
    """The lengths of the axes of a box."""
    return jnp.sqrt(jnp.sum(axes**2, axis=0))
