"""The motion of densities on grids: stable steps, with noise by operator splitting."""

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
from meanfield.measures import EveryFace, Grid, GridState, check_no_shear

from ._endings import ending, has_rim_influence
from ._noise import Strang, add_box_spreading, noise_step_rate
from ._probing import choose_probe
from ._rim import rim_masses


class GridMotion(Motion[Grid]):
    """Moves densities by steps that keep masses positive; adds endings for grids."""

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
        needs_rest: bool,
    ) -> None:
        if not isinstance(stepping, Courant):
            raise InvalidInputError(
                "A grid must be stepped by `cfl()`, which keeps its masses positive; "
                f"got `{type(stepping).__name__}` steps."
            )
        if mu0.dimension > 1 and not dynamics.is_continuous:
            raise UnsupportedError(
                "Attention by ranks supports densities on a line only. In the plane, "
                "all cells of a row share one rank, and the mean over a row of tiny "
                "mass is lost in rounding. Use points or a Gaussian."
            )
        if noise is not None:
            check_no_shear(mu0)

    @override
    def plan(self, dynamics: AbstractDynamics, mu0: Grid, t: Time) -> Grid:
        return choose_probe(dynamics, mu0, t)

    @override
    def is_split(self, noise: Noise) -> bool:
        return noise is not None

    @override
    def drift(self, mu: Grid, field: AbstractField, noise: Noise) -> GridState:
        if noise is None:
            return mu.transport(field)
        k = add_box_spreading(mu, noise.kappa).transport(field)
        return k._replace(
            courant=jnp.maximum(k.courant, noise_step_rate(mu, noise.kappa))
        )

    @override
    def add_noise(
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
    def reference(self, mu0: Grid) -> Float[Array, " d"]:
        """The initial mass in the rim of the box, for each axis."""
        return rim_masses(mu0)

    @override
    def ending(
        self,
        dynamics: AbstractDynamics,
        t: Float[Array, ""],
        mu: Grid,
        reference: Float[Array, " d"],
        count: Int[Array, ""],
    ) -> Int[Array, ""]:
        return ending(mu, has_rim_influence(dynamics, t, mu, reference, count))

    @override
    def extrapolate(
        self, y: GridState, increment: GridState, stretch: Float[Array, ""]
    ) -> PyTree[Array]:
        """Extrapolates only the box, as extrapolated masses could be negative."""
        far = jax.tree.map(lambda start, change: start + stretch * change, y, increment)
        return y._replace(origin=far.origin, axes=far.axes)

    @override
    def share_plan(self, mu0s: Grid, first: Grid) -> Grid:
        return mu0s.replace_probe(first.probe or EveryFace())


motions[Grid] = GridMotion()
