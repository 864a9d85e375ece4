"""The motion of densities on circles and spheres."""

import itertools
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from typing_extensions import override

from meanfield._array import is_concrete
from meanfield._typing import PRNGKey, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField
from meanfield.flows.motions import Motion, Noise, Stencil, motions
from meanfield.flows.stepping import (
    AbstractGridSolver,
    AbstractStepping,
    Courant,
    Step,
    cfl,
)
from meanfield.measures import (
    MAX_ROUGHNESS,
    MAX_TURN,
    Points,
)
from meanfield.scores import Dot

from .circle import CircleDensity
from .density import AbstractSphericalDensity, SphericalState
from .zonal import ZonalDensity

LADDER = (16, 32, 64, 128, 256)  # numbers of nodes on a circle of latitude
TAIL = 1e-11  # largest relative change of velocities if the nodes are doubled
TILT = 1e-9  # largest relative deviation of velocities from rotated ones
SAMPLE = 16  # number of tokens by which the symmetry of a flow is checked


class HeatSteps(AbstractGridSolver[SphericalState]):
    """Strang splitting: a step of transport between two half steps of heat flow.

    Attributes:
        inner: the solver of the transport.
        kappa: the diffusivity.
        stencil: the heat fluxes between the cells.
    """

    inner: AbstractGridSolver[SphericalState]
    kappa: Float[Array, ""]
    stencil: Stencil

    @override
    def order(self, terms: PyTree) -> int:
        return 2

    @override
    def advance(
        self, terms: Any, step: Step, y0: SphericalState
    ) -> tuple[SphericalState, Any]:
        half = self.kappa * jnp.asarray(step.t1 - step.t0) / 2
        state, rate = self.inner.advance(terms, step, self._spread(y0, half))
        return self._spread(state, half), rate

    def _spread(self, y: SphericalState, area: Float[Array, ""]) -> SphericalState:
        layers = self.stencil.spread(y.masses[None], area)
        return y._replace(masses=layers[0])


class SphericalMotion(Motion[AbstractSphericalDensity]):
    """Moves densities on spheres by steps that keep masses positive.

    Examples:
        >>> from meanfield import CircleDensity
        >>> from meanfield.flows import motion_of
        >>> type(motion_of(CircleDensity.from_function(8, np.ones_like))).__name__
        'SphericalMotion'
    """

    @override
    def stepping(
        self, noise: Noise, dynamics: AbstractDynamics, ts: Float[Array, " times"]
    ) -> AbstractStepping:
        return cfl()

    @override
    def check(
        self,
        mu0: AbstractSphericalDensity,
        stepping: AbstractStepping,
        noise: Noise,
        *,
        dynamics: AbstractDynamics,
        key: PRNGKey | None,
        needs_rest: bool,
    ) -> None:
        if not isinstance(stepping, Courant):
            raise InvalidInputError(
                "A density on a sphere must be stepped by `cfl()`, which keeps its "
                f"masses positive; got `{type(stepping).__name__}` steps."
            )
        if isinstance(mu0, ZonalDensity):
            check_symmetry(dynamics, mu0)

    @override
    def plan(
        self, dynamics: AbstractDynamics, mu0: AbstractSphericalDensity, t: Time
    ) -> AbstractSphericalDensity:
        if not _is_known(dynamics, mu0):
            return mu0
        if isinstance(mu0, ZonalDensity):
            mu0 = choose_nodes(dynamics, mu0, t)
        leaves = jax.tree.leaves(dynamics, is_leaf=_is_dot)
        scores = [leaf for leaf in leaves if isinstance(leaf, Dot)]
        is_single = len(scores) == 1 and scores[0].Q.ndim == 2  # heads are stacked
        return mu0.fix_rows(scores[0]) if is_single else mu0

    @override
    def is_split(self, noise: Noise) -> bool:
        return noise is not None

    @override
    def drift(
        self, mu: AbstractSphericalDensity, field: AbstractField, noise: Noise
    ) -> SphericalState:
        rate = mu.transport(field)
        if noise is None:
            return rate
        # The field is frozen during the heat flow, which may change the lowest
        # spherical harmonic by a fraction MAX_TURN of itself in a step.
        heat = noise.kappa * (mu.dimension - 1) / MAX_TURN
        return rate._replace(courant=jnp.maximum(rate.courant, heat))

    @override
    def add_noise(
        self,
        mu0: AbstractSphericalDensity,
        terms: diffrax.AbstractTerm,
        solver: diffrax.AbstractSolver,
        noise: Noise,
        key: PRNGKey | None,
    ) -> tuple[diffrax.AbstractTerm, diffrax.AbstractSolver]:
        if noise is None:
            return terms, solver
        assert isinstance(solver, AbstractGridSolver)
        conductances = jnp.asarray(mu0.areas / np.diff(mu0.edges)[0])
        stencil = Stencil.from_conductances(conductances, jnp.asarray(mu0.volumes))
        return terms, HeatSteps(solver, noise.kappa, stencil)

    @override
    def ending(
        self,
        dynamics: AbstractDynamics,
        t: Float[Array, ""],
        mu: AbstractSphericalDensity,
        reference: PyTree[Array],
        count: Int[Array, ""],
    ) -> Int[Array, ""]:
        """Collapse, once a peak is about as narrow as a cell."""
        wider = mu.box.extend_density(mu.state.masses, 1)
        roughness = jnp.sum(jnp.abs(jnp.diff(wider))) / 2
        is_narrow = roughness > MAX_ROUGHNESS
        return jnp.where(is_narrow, int(Status.COLLAPSE), int(Status.FINISHED))


def check_symmetry(dynamics: AbstractDynamics, mu: ZonalDensity) -> None:
    """Checks that a flow commutes with rotations around the axis of a density.

    Velocities of a few tokens are compared with those of rotated tokens, at time zero
    and at each time at which parameters jump. Dynamics that `jit` traces are not
    checked.

    Raises:
        UnsupportedError: if they differ; the message names the matrices that do not
            commute with the rotations.
    """
    if not _is_known(dynamics):
        return
    d, rng = mu.dimension, np.random.default_rng(0)
    across = np.delete(np.arange(d), mu.axis)
    R = np.eye(d)
    R[np.ix_(across, across)] = np.linalg.qr(rng.normal(size=(d - 1, d - 1)))[0]
    x = jnp.asarray(rng.normal(size=(SAMPLE, d)) / d**0.5)
    for t in (0.0, *np.asarray(dynamics.jumps)):
        v, image = (_velocities(dynamics, t, y) for y in (x, x @ R.T))
        if np.abs(image - v @ R.T).max() > TILT * np.abs(v).max():
            names = ", ".join(_tilted_leaves(dynamics, R)) or "the dynamics"
            raise UnsupportedError(
                "A zonal density needs a flow that commutes with rotations around "
                f"axis {mu.axis}; {names} must be diagonal there, with equal entries "
                "off the axis. Use points, or another `axis`."
            )


def _velocities(
    dynamics: AbstractDynamics, t: Time, x: Float[Array, "n d"]
) -> np.ndarray:
    tokens = Points.uniform(x)
    return np.asarray(dynamics.field(jnp.asarray(t), tokens)(tokens.tokens))


def _tilted_leaves(dynamics: AbstractDynamics, R: np.ndarray) -> list[str]:
    """Names of the matrices of a dynamics that do not commute with a rotation."""
    names = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(dynamics):
        M = np.asarray(leaf)
        if M.shape == R.shape and not np.allclose(R @ M, M @ R):
            names.append(f"`{jax.tree_util.keystr(path[-1:]).strip('.')}`")
    return names


def choose_nodes(dynamics: AbstractDynamics, mu: ZonalDensity, t: Time) -> ZonalDensity:
    """The density with enough nodes on each circle of latitude for its velocities."""
    last = _face_speeds(dynamics, mu.replace_nodes(LADDER[0]), t)
    for count, finer in itertools.pairwise(LADDER):
        speeds = _face_speeds(dynamics, mu.replace_nodes(finer), t)
        if jnp.abs(speeds - last).max() <= TAIL * max(jnp.abs(speeds).max(), TAIL):
            return mu.replace_nodes(count)
        last = speeds
    raise UnsupportedError(
        f"The weights of attention vary too fast over a circle of latitude for "
        f"{LADDER[-1]} nodes: raise `epsilon`, or use points."
    )


@eqx.filter_jit
def _face_speeds(
    dynamics: AbstractDynamics, mu: ZonalDensity, t: Time
) -> Float[Array, " faces"]:
    return mu.face_speeds(dynamics.field(jnp.asarray(t), mu).parts[0])


def _is_dot(part: object) -> bool:
    return isinstance(part, Dot)


def _is_known(*trees: object) -> bool:
    return all(map(is_concrete, jax.tree.leaves(trees)))


for kind in (CircleDensity, ZonalDensity):
    motions[kind] = SphericalMotion()
