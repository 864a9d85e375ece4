"""How a flow moves measures of one kind: a class for each, found by the measure's type.

A measure says what moves and how a field moves it. All else that a flow does
differently from one representation to another is asked of its motion.
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
from meanfield.flows.stepping import AbstractStepping, Courant, adaptive
from meanfield.measures import AbstractMeasure

from ._isotropic import Noise

M = TypeVar("M", bound=AbstractMeasure)
Terms = tuple[diffrax.AbstractTerm, diffrax.AbstractSolver]


class Motion(Generic[M]):
    """Adaptive steps without noise: how a flow moves a measure, unless told otherwise.

    A subclass overrides what is different for its measure, and registers:
    `motions[Mixture] = MixtureMotion()`.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.flows import Motion, motion_of
        >>> isinstance(motion_of(Points.uniform([[0.0]])), Motion)
        True
    """

    def check_single(self, mu0: M) -> None:
        """Refuses a stack of measures in place of one.

        Raises:
            InvalidInputError: naming the shape that was given.
        """
        del mu0

    def stepping(
        self, noise: Noise, dynamics: AbstractDynamics, ts: Float[Array, " times"]
    ) -> AbstractStepping:
        """The steps that a flow takes unless told otherwise."""
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
        rests: bool,
    ) -> None:
        """Refuses what does not go together.

        Args:
            mu0: the measure at the start.
            stepping: the steps of the flow.
            noise: the noise of the flow.
            dynamics: what moves it.
            key: what noise is drawn from.
            rests: whether the flow is to end at rest.

        Raises:
            InvalidInputError: if steps or stops do not fit the measure or its noise.
            UnsupportedError: if there is no such noise.
        """
        del dynamics, key, rests
        check_solver(mu0, stepping)
        if noise is not None:
            raise UnsupportedError(
                f"There is no noise for a {type(mu0).__name__}; leave `noise` out."
            )

    def ready(self, mu0: M, noise: Noise, ts: Float[Array, " times"]) -> M:
        """The same measure, in coordinates that noise can move."""
        del noise, ts
        return mu0

    def planned(self, dynamics: AbstractDynamics, mu0: M, t: Time) -> M:
        """The measure with all that its sums need to know before the flow."""
        del dynamics, t
        return mu0

    def unplanned(self, mu: M) -> M:
        """The measure before it was planned: what moves is to be looked at anew."""
        return mu

    def roomier(self, dynamics: AbstractDynamics, mu: M, t: Time) -> M | None:
        """A measure planned with more room, after a flow was lost for want of it."""
        del dynamics, mu, t
        return None

    def is_fenced(self, mu: M) -> bool:
        """Whether velocities are no numbers where a plan has no room."""
        del mu
        return False

    def missed(
        self, freeze: Callable[[M], AbstractField], mu: M, field: AbstractField
    ) -> Convergence | None:
        """What the field of a planned measure misses; `None` if sums are exact.

        Args:
            freeze: gives the field of a measure.
            mu: the measure.
            field: its field.
        """
        del freeze, mu, field
        return None

    def laid_out(
        self,
        stepping: AbstractStepping,
        noise: Noise,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> AbstractStepping:
        """The steps for these times: all that must be known outside `jit`."""
        del noise
        return stepping.prepare(ts, jumps)

    def is_random(self, noise: Noise) -> bool:
        """Whether the path of the measure, and not its law alone, is random."""
        del noise
        return False

    def jumps(self, dynamics: AbstractDynamics) -> bool:
        """Whether velocities of the measure jump, where errors of steps say little."""
        del dynamics
        return False

    def splits(self, noise: Noise) -> bool:
        """Whether steps alternate between parts, which rest together and not apart."""
        del noise
        return False

    def drift(self, mu: M, field: AbstractField, noise: Noise) -> PyTree[Array]:
        """What of `d(coordinates)/dt` a step integrates."""
        del noise
        return mu.transport(field)

    def driven(
        self,
        mu0: M,
        terms: diffrax.AbstractTerm,
        solver: diffrax.AbstractSolver,
        noise: Noise,
        key: PRNGKey | None,
    ) -> Terms:
        """The terms of an equation and their solver, once noise is added."""
        del mu0, noise, key
        return terms, solver

    def at_start(self, mu0: M) -> PyTree[Array]:
        """What `ending` is to know of the start."""
        del mu0

    def ending(
        self,
        dynamics: AbstractDynamics,
        t: Float[Array, ""],
        mu: M,
        begun: PyTree[Array],
        count: Int[Array, ""],
    ) -> Int[Array, ""]:
        """The code of an ending of its own; that of `finished` if the flow goes on.

        Args:
            dynamics: what moves the measure.
            t: the time.
            mu: the measure after an accepted step.
            begun: what `at_start` gave.
            count: accepted steps before this one.
        """
        del dynamics, t, mu, begun, count
        return jnp.asarray(int(Status.FINISHED))

    def vanishing(self, mu: M, after: M, begun: PyTree[Array]) -> Int[Array, ""]:
        """The code of a flow whose steps shrink to rounding.

        Args:
            mu: the measure after the last accepted step.
            after: the measure after one that is as short as rounding.
            begun: what `at_start` gave.
        """
        del mu, after, begun
        return jnp.asarray(int(Status.MAX_STEPS))

    def onward(
        self, y: PyTree[Array], way: PyTree[Array], stretch: Float[Array, ""]
    ) -> PyTree[Array]:
        """Coordinates far along a `way`, where a field is asked how growth goes on."""
        return jax.tree.map(lambda start, change: start + stretch * change, y, way)

    def ask_again(self, dynamics: AbstractDynamics, mu: M, t: Time) -> None:
        """Asks for the field where a flow failed, outside `jit`, if it says more there.

        Raises:
            NotClosedError: as a closed form says it.
        """
        del dynamics, mu, t

    def abreast(self, mu0: M) -> int:
        """How many members like this one, or like those of a stack, step together."""
        del mu0
        return 1

    def alike(self, mu0s: M, first: M) -> M:
        """A stack of measures that asks fields where its first, planned member does."""
        del first
        return mu0s


motions: dict[type[AbstractMeasure], Motion[Any]] = {}


def motion_of(mu: AbstractMeasure) -> Motion[Any]:
    """How a flow moves a measure: as the nearest class of it that is registered.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.flows import motion_of
        >>> type(motion_of(Points.uniform([[0.0]]))).__name__
        'TokenMotion'
    """
    kind = next((kind for kind in type(mu).mro() if kind in motions), None)
    return Motion() if kind is None else motions[kind]


def check_solver(mu0: AbstractMeasure, stepping: AbstractStepping) -> None:
    """Refuses steps that only other measures can take.

    Raises:
        InvalidInputError: saying which steps fit.
    """
    kind = type(mu0).__name__
    if isinstance(stepping.solver, diffrax.AbstractSRK):
        raise InvalidInputError(
            "`shark` is a solver for tokens under noise; use `tsit5`, or add noise."
        )
    if isinstance(stepping, Courant):
        raise InvalidInputError(
            f"`cfl()` steps are for grids; a {kind} takes `adaptive()` or `fixed(dt)`."
        )


def check_matrix(states: Array) -> None:
    """Refuses states, or a factor, of a stack of measures.

    Raises:
        InvalidInputError: naming the shape that was given.
    """
    shape = getattr(states, "shape", ())  # a list has none
    if len(shape) != 2:
        raise InvalidInputError(
            f"The states of one measure are a matrix; got shape {shape} (an "
            "`ensemble` takes measures that are `stacked`)."
        )
