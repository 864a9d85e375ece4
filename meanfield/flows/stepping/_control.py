"""Step-size controllers: what they are told, and what they decide, in one piece each.

diffrax hands a controller eight arguments and takes back six values. The two bases here
pack them once, so that a controller is written as `begin` and `decide`.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield._typing import Scalar, SolverTime
from meanfield.linalg import length

StateT = TypeVar("StateT")


class Start(NamedTuple):
    """What a controller is told before the first step.

    Attributes:
        terms: of the equation.
        t0: where the flow begins.
        t1: where it is to end.
        y0: its first state.
        dt0: the first step, if it was given.
        args: of the equation.
        func: gives the derivative of `terms` at a time and a state.
        order: of the error of the method; `None` if it estimates none.
    """

    terms: PyTree[diffrax.AbstractTerm]
    t0: SolverTime
    t1: SolverTime
    y0: PyTree
    dt0: SolverTime | None
    args: PyTree
    func: Callable
    order: SolverTime | None


class Trial(NamedTuple):
    """One step that the solver tried.

    Attributes:
        t0: where it began.
        t1: where it ended.
        y0: the state at its beginning.
        y1: the state at its end.
        args: of the equation.
        error: what the solver says of its error.
        order: of that error.
    """

    t0: SolverTime
    t1: SolverTime
    y0: PyTree
    y1: PyTree
    args: PyTree
    error: PyTree | None
    order: SolverTime


class Decision(NamedTuple):
    """What becomes of a trial, and the step after it.

    Attributes:
        keep: whether the trial is accepted.
        t0: where the next step begins.
        t1: where it is to end.
        jump: whether the field jumps at its beginning.
        state: what the controller remembers.
        result: whether the flow goes on.
    """

    keep: Bool[Array, ""] | bool
    t0: Array
    t1: Array
    jump: Bool[Array, ""]
    state: PyTree
    result: diffrax.RESULTS = diffrax.RESULTS.successful


class AbstractControl(diffrax.AbstractAdaptiveStepSizeController[StateT, None]):
    """A step-size controller of two methods."""

    @abc.abstractmethod
    def begin(self, start: Start) -> tuple[Array, StateT]:
        """Where the first step is to end, and what is remembered."""

    @abc.abstractmethod
    def decide(self, trial: Trial, state: StateT) -> Decision:
        """Whether a trial is kept, and what comes next."""

    @override
    def init(
        self,
        terms: PyTree[diffrax.AbstractTerm],
        t0: SolverTime,
        t1: SolverTime,
        y0: PyTree,
        dt0: SolverTime | None,
        args: PyTree,
        func: Callable,
        error_order: SolverTime | None,
    ) -> tuple[Array, StateT]:
        return self.begin(Start(terms, t0, t1, y0, dt0, args, func, error_order))

    @override
    def adapt_step_size(
        self,
        t0: SolverTime,
        t1: SolverTime,
        y0: PyTree,
        y1_candidate: PyTree,
        args: PyTree,
        y_error: PyTree | None,
        error_order: SolverTime,
        controller_state: StateT,
    ) -> tuple[Any, Array, Array, Array, StateT, diffrax.RESULTS]:
        trial = Trial(t0, t1, y0, y1_candidate, args, y_error, error_order)
        chosen = self.decide(trial, controller_state)
        keep, t0, t1, jump, state, result = chosen
        return keep, t0, t1, jump, state, result


class AbstractRuledControl(AbstractControl[StateT]):
    """Steps by a rule: no error is estimated, and any tolerance would do."""

    @property
    @override
    def rtol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """No relative error is asked for."""
        return 0.0

    @property
    @override
    def atol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """No absolute error is asked for."""
        return 0.0

    @property
    @override
    def norm(self) -> Callable:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The Euclidean norm, which nobody reads."""
        return length

    @override
    def wrap(
        self, direction: int | Array | np.ndarray
    ) -> "AbstractRuledControl[StateT]":
        return self


class AbstractWrapping(AbstractControl[StateT]):
    """A controller around another one, whose tolerances it passes on.

    Implicit solvers read them, too.
    """

    controller: eqx.AbstractVar[diffrax.AbstractAdaptiveStepSizeController]

    # diffrax declares these as fields; like its own wrappers, we pass them on.
    @property
    @override
    def rtol(self) -> Scalar:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The relative tolerance of the wrapped controller."""
        return cast(Scalar, self.controller.rtol)

    @property
    @override
    def atol(self) -> Scalar:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The absolute tolerance of the wrapped controller."""
        return cast(Scalar, self.controller.atol)

    @property
    @override
    def norm(self) -> Callable:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The norm of the wrapped controller."""
        return self.controller.norm

    @override
    def wrap(self, direction: int | Array | np.ndarray) -> "AbstractWrapping[StateT]":
        wrapped = self.controller.wrap(direction)
        return eqx.tree_at(lambda own: own.controller, self, wrapped)

    def begun(self, start: Start) -> tuple[Array, PyTree]:
        """Where the wrapped controller lets the first step end, and its memory."""
        end, inner = self.controller.init(*start)
        return jnp.asarray(end), inner

    def decided(self, trial: Trial, inner: PyTree) -> Decision:
        """What the wrapped controller decides."""
        *proposal, inner, result = self.controller.adapt_step_size(*trial, inner)
        keep, t0, t1, jump = (jnp.asarray(part) for part in proposal)
        return Decision(keep, t0, t1, jump, inner, result)


def elapsed(trial: Trial) -> Float[Array, ""]:
    """The length of a trial."""
    return jnp.asarray(trial.t1) - trial.t0
