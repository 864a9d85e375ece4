"""Motions: the parts of a flow that depend on the kind of measure.

A measure defines its coordinates and how a field moves them. Everything else that
depends on the representation is a method of its motion, found by the measure's type.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from meanfield._typing import PRNGKey, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField, Convergence
from meanfield.flows.stepping import (
    AbstractOnHost,
    AbstractStepping,
    Courant,
    Layer,
    adaptive,
)
from meanfield.measures import AbstractMeasure

from ._isotropic import Noise

M = TypeVar("M", bound=AbstractMeasure)
Terms = tuple[diffrax.AbstractTerm, diffrax.AbstractSolver]


class Motion(Generic[M]):
    """The default motion of a measure: adaptive steps, no noise, no plan.

    A subclass overrides what is different for its measure, and is registered by
    `motions[Mixture] = MixtureMotion()`.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.flows import Motion, motion_of
        >>> isinstance(motion_of(Points.uniform([[0.0]])), Motion)
        True
    """

    def check_single(self, mu0: M) -> None:
        """Checks that `mu0` is one measure, not a stack.

        Raises:
            InvalidInputError: if `mu0` is a stack.
        """
        del mu0

    def stepping(
        self, noise: Noise, dynamics: AbstractDynamics, ts: Float[Array, " times"]
    ) -> AbstractStepping:
        """The default stepping of a flow."""
        del noise, dynamics, ts
        return adaptive()

    def check(
        self,
        mu0: M,
        stepping: AbstractStepping,
        noise: Noise,
        *,
        dynamics: AbstractDynamics,
        key: PRNGKey | None,
        needs_rest: bool,
    ) -> None:
        """Checks that the options of a flow are compatible.

        Args:
            mu0: the initial measure.
            stepping: the steps of the flow.
            noise: the noise of the flow.
            dynamics: the dynamics.
            key: the PRNG key of the noise.
            needs_rest: whether a stopping criterion waits for the flow to come to rest.

        Raises:
            InvalidInputError: if steps or stops do not fit the measure or its noise.
            UnsupportedError: if the measure does not support noise.
        """
        del dynamics, key, needs_rest
        check_solver(mu0, stepping)
        if noise is not None:
            raise UnsupportedError(
                f"A {type(mu0).__name__} does not support noise. Leave `noise` out."
            )

    def prepare(self, mu0: M, noise: Noise, ts: Float[Array, " times"]) -> M:
        """The measure in coordinates in which the noise can be added."""
        del noise, ts
        return mu0

    def plan(self, dynamics: AbstractDynamics, mu0: M, t: Time) -> M:
        """The measure with a plan for its sums, made before the flow."""
        del dynamics, t
        return mu0

    def discard_plan(self, mu: M) -> M:
        """The measure without its plan, so that it can be planned again."""
        return mu

    def enlarge_plan(self, dynamics: AbstractDynamics, mu: M, t: Time) -> M | None:
        """The measure with a larger plan after an unconverged flow, or `None`."""
        del dynamics, mu, t
        return None

    def is_checked(self, mu: M) -> bool:
        """Whether velocities become NaN where a plan is too small."""
        del mu
        return False

    def sum_convergence(
        self, freeze: Callable[[M], AbstractField], mu: M, field: AbstractField
    ) -> Convergence | None:
        """Error of the field due to the planned sums; `None` if sums are exact.

        Args:
            freeze: gives the field of a measure.
            mu: the planned measure.
            field: its field.
        """
        del freeze, mu, field
        return None

    def schedule_steps(
        self,
        stepping: AbstractStepping,
        noise: Noise,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> AbstractStepping:
        """The stepping, prepared for given times outside `jit`."""
        del noise
        return stepping.prepare(ts, jumps)

    def is_random(self, noise: Noise) -> bool:
        """Whether the path of the coordinates is random, as for tokens under noise."""
        del noise
        return False

    def has_jumps(self, dynamics: AbstractDynamics) -> bool:
        """Whether the measure's velocities jump, which invalidates error estimates."""
        del dynamics
        return False

    def is_split(self, noise: Noise) -> bool:
        """Whether steps use operator splitting, so that substeps move even at rest."""
        del noise
        return False

    def drift(self, mu: M, field: AbstractField, noise: Noise) -> PyTree[Array]:
        """The part of `d(coordinates)/dt` that the solver integrates."""
        del noise
        return mu.transport(field)

    def add_noise(
        self,
        mu0: M,
        terms: diffrax.AbstractTerm,
        solver: diffrax.AbstractSolver,
        noise: Noise,
        key: PRNGKey | None,
    ) -> Terms:
        """The terms and the solver of the equation with noise."""
        del mu0, noise, key
        return terms, solver

    def project(self, mu0: M, coordinates: PyTree[Array]) -> PyTree[Array]:
        """Coordinates between steps, as interpolated, moved to the measure's space."""
        del mu0
        return coordinates

    def reference(self, mu0: M) -> PyTree[Array]:
        """Values of the initial measure that `ending` needs later."""
        del mu0

    def ending(
        self,
        dynamics: AbstractDynamics,
        t: Float[Array, ""],
        mu: M,
        reference: PyTree[Array],
        count: Int[Array, ""],
    ) -> Int[Array, ""]:
        """The code of an ending specific to the measure; `finished` if there is none.

        Args:
            dynamics: the dynamics.
            t: the time.
            mu: the measure after an accepted step.
            reference: values from the method `reference`.
            count: the number of accepted steps before this one.
        """
        del dynamics, t, mu, reference, count
        return jnp.asarray(int(Status.FINISHED))

    def count_clusters(self, mu0: M, mu: M, limit: int) -> Int[Array, ""]:
        """The number of clusters of tokens, counted up to `limit` and one more.

        Raises:
            UnsupportedError: if the measure has no tokens.
        """
        del mu0, mu, limit
        raise UnsupportedError(
            "Clusters are those of tokens: leave the stop `clusters` out, or use "
            "`measure = points`."
        )

    def vanishing_status(
        self, mu: M, next_mu: M, reference: PyTree[Array]
    ) -> Int[Array, ""]:
        """The code of the ending if steps become too short to change the time.

        Args:
            mu: the measure after the last accepted step.
            next_mu: the measure after the step that is too short.
            reference: values from the method `reference`.
        """
        del mu, next_mu, reference
        return jnp.asarray(int(Status.MAX_STEPS))

    def extrapolate(
        self, y: PyTree[Array], increment: PyTree[Array], stretch: Float[Array, ""]
    ) -> PyTree[Array]:
        """Coordinates extrapolated by `stretch` times the `increment`."""
        return jax.tree.map(
            lambda start, change: start + stretch * change, y, increment
        )

    def diagnose_failure(self, dynamics: AbstractDynamics, mu: M, t: Time) -> None:
        """Evaluates the field after a failure, outside `jit`, to find its cause.

        Raises:
            NotClosedError: if the closed form of the field does not hold at `mu`.
        """
        del dynamics, mu, t

    def batch_size(self, mu0: M) -> int:
        """Default number of measures like `mu0` in a block of an ensemble."""
        del mu0
        return 1

    def share_plan(self, mu0s: M, first: M) -> M:
        """The stack of measures with the plan of its first member."""
        del first
        return mu0s


motions: dict[type[AbstractMeasure], Motion[Any]] = {}


def motion_of(mu: AbstractMeasure) -> Motion[Any]:
    """The motion registered for the type of a measure, or for its nearest base class.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.flows import motion_of
        >>> type(motion_of(Points.uniform([[0.0]]))).__name__
        'TokenMotion'
    """
    kind = next((kind for kind in type(mu).mro() if kind in motions), None)
    return Motion() if kind is None else motions[kind]


def check_solver(mu0: AbstractMeasure, stepping: AbstractStepping) -> None:
    """Raises for steps only for noisy tokens, tokens on spheres, or grids.

    Raises:
        InvalidInputError: for `shark`, `layer` and `cfl()`.
    """
    kind = type(mu0).__name__
    if isinstance(stepping, AbstractOnHost) and kind != "Points":
        raise InvalidInputError(
            f"Steps that SciPy takes move tokens, not a {kind}: use `adaptive()`."
        )
    if isinstance(stepping.solver, diffrax.AbstractSRK):
        raise InvalidInputError(
            "`shark` is a solver for tokens with `noise` only. Use `tsit5` instead, or "
            "add `noise` to tokens."
        )
    if isinstance(stepping.solver, Layer) and not mu0.is_confined:
        raise InvalidInputError(
            f"`layer` is a solver for tokens on spheres, not for a {kind}: use `euler`."
        )
    if isinstance(stepping, Courant):
        raise InvalidInputError(
            f"`stepping` must be `adaptive()` or `fixed(dt)` for a {kind}; got `cfl()` "
            "steps, which are for grids only."
        )


def check_matrix(states: Array) -> None:
    """Checks that the tokens, or the factor, of one measure form a matrix.

    Raises:
        InvalidInputError: if they have another shape, for example that of a stack.
    """
    shape = getattr(states, "shape", ())  # a list has no shape
    if len(shape) != 2:
        raise InvalidInputError(
            "The tokens or the factor of a single measure must form a matrix; got an "
            f"array of shape {shape}. Use `ensemble` for a stack of measures."
        )
