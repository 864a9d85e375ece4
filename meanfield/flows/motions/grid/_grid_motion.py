"""How a density on a grid is moved: by stable steps, heat on either side of each."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree
from typing_extensions import override

from meanfield._typing import PRNGKey, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField
from meanfield.flows.motions._isotropic import Noise
from meanfield.flows.motions._motion import Motion, Terms, motions
from meanfield.flows.stepping import AbstractGridSolver, AbstractStepping, Courant, cfl
from meanfield.measures import EveryFace, Grid, GridState, check_upright

from ._endings import ending, feels_rim
from ._noise import Strang, resolving, spread_with
from ._probing import probed
from ._rim import rim_masses


class GridMotion(Motion[Grid]):
    """Steps of SSP Runge–Kutta that keep masses positive; ends where cells fail."""

    @override
    def stepping(
        self, noise: Noise, dynamics: AbstractDynamics, ts: Float[Array, " times"]
    ) -> AbstractStepping:
        return cfl()

    @override
    def check(
        self,
        mu0: Grid,
        stepping: AbstractStepping,
        noise: Noise,
        *,
        dynamics: AbstractDynamics,
        key: PRNGKey | None,
        rests: bool,
    ) -> None:
        if not isinstance(stepping, Courant):
            raise InvalidInputError(
                "A grid is stepped by `cfl()`, which keeps its masses positive; "
                f"`{type(stepping).__name__}` steps do not."
            )
        if mu0.dimension > 1 and not dynamics.is_continuous:
            raise UnsupportedError(
                "Densities are matched by ranks on a line only: in the plane rows of "
                "cells share one, and means over rows of tiny mass are lost in "
                "rounding. Use points or a Gaussian."
            )
        if noise is not None:
            check_upright(mu0)

    @override
    def planned(self, dynamics: AbstractDynamics, mu0: Grid, t: Time) -> Grid:
        return probed(dynamics, mu0, t)

    @override
    def splits(self, noise: Noise) -> bool:
        return noise is not None

    @override
    def drift(self, mu: Grid, field: AbstractField, noise: Noise) -> GridState:
        if noise is None:
            return mu.transport(field)
        k = spread_with(mu, noise.kappa).transport(field)
        return k._replace(courant=jnp.maximum(k.courant, resolving(mu, noise.kappa)))

    @override
    def driven(
        self,
        mu0: Grid,
        terms: diffrax.AbstractTerm,
        solver: diffrax.AbstractSolver,
        noise: Noise,
        key: PRNGKey | None,
    ) -> Terms:
        if noise is None:
            return terms, solver
        assert isinstance(solver, AbstractGridSolver)
        return terms, Strang(solver, noise.kappa, mu0.edges, mu0.box)

    @override
    def at_start(self, mu0: Grid) -> Float[Array, " d"]:
        """The mass in the rim."""
        return rim_masses(mu0)

    @override
    def ending(
        self,
        dynamics: AbstractDynamics,
        t: Float[Array, ""],
        mu: Grid,
        begun: Float[Array, " d"],
        count: Int[Array, ""],
    ) -> Int[Array, ""]:
        return ending(mu, feels_rim(dynamics, t, mu, begun, count))

    @override
    def onward(
        self, y: GridState, way: GridState, stretch: Float[Array, ""]
    ) -> PyTree[Array]:
        """The box alone goes on: cells would lose more than they hold."""
        far = jax.tree.map(lambda start, change: start + stretch * change, y, way)
        return y._replace(origin=far.origin, axes=far.axes)

    @override
    def alike(self, mu0s: Grid, first: Grid) -> Grid:
        return mu0s.asking(first.probe or EveryFace())


motions[Grid] = GridMotion()
