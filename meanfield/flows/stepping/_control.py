"""Base classes of step-size controllers, with structured arguments and results.

diffrax passes eight arguments to a controller and takes back six values. The base
classes pack them once, so that a controller only implements `begin` and `decide`.
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
    """Arguments of a controller before the first step.

    Attributes:
        terms: the terms of the equation.
        t0: the time at which the flow begins.
        t1: the time at which it should end.
        y0: the initial state.
        dt0: the length of the first step, if it was given.
        args: the arguments of the equation.
        func: gives the derivative of `terms` at a time and a state.
        order: the order of the error estimate; `None` if there is no estimate.
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
        t0: the time at its beginning.
        t1: the time at its end.
        y0: the state at its beginning.
        y1: the state at its end.
        args: the arguments of the equation.
        error: the error estimate of the solver.
        order: the order of the error estimate.
    """

    t0: SolverTime
    t1: SolverTime
    y0: PyTree
    y1: PyTree
    args: PyTree
    error: PyTree | None
    order: SolverTime


class Decision(NamedTuple):
    """Whether a trial is accepted, and the next step.

    Attributes:
        keep: whether the trial is accepted.
        t0: the time at which the next step begins.
        t1: the time at which it should end.
        jump: whether the field jumps at the beginning of the next step.
        state: the memory of the controller.
        result: the code of diffrax, which says whether the flow continues.
    """

    keep: Bool[Array, ""] | bool
    t0: Array
    t1: Array
    jump: Bool[Array, ""]
    state: PyTree
    result: diffrax.RESULTS = diffrax.RESULTS.successful


class AbstractControl(diffrax.AbstractAdaptiveStepSizeController[StateT, None]):
    """A step-size controller that implements only `begin` and `decide`."""

    @abc.abstractmethod
    def begin(self, start: Start) -> tuple[Array, StateT]:
        """The end of the first step, and the memory of the controller."""

    @abc.abstractmethod
    def decide(self, trial: Trial, state: StateT) -> Decision:
        """Decides whether a trial is accepted, and chooses the next step."""

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
        decision = self.decide(trial, controller_state)
        keep, t0, t1, jump, state, result = decision
        return keep, t0, t1, jump, state, result


class AbstractRuledControl(AbstractControl[StateT]):
    """A controller that steps by a rule, without an error estimate or a tolerance."""

    @property
    @override
    def rtol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Zero: there is no relative tolerance."""
        return 0.0

    @property
    @override
    def atol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Zero: there is no absolute tolerance."""
        return 0.0

    @property
    @override
    def norm(self) -> Callable:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The Euclidean norm, which diffrax requires but does not use here."""
        return length

    @override
    def wrap(
        self, direction: int | Array | np.ndarray
    ) -> "AbstractRuledControl[StateT]":
        return self


class AbstractWrapper(AbstractControl[StateT]):
    """A controller that wraps another one and uses the tolerances of that one.

    Implicit solvers read these tolerances, too.
    """

    controller: eqx.AbstractVar[diffrax.AbstractAdaptiveStepSizeController]

    # Tolerances are fields in diffrax. A wrapper reads them from its controller.
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
    def wrap(self, direction: int | Array | np.ndarray) -> "AbstractWrapper[StateT]":
        controller = self.controller.wrap(direction)
        return eqx.tree_at(lambda wrapper: wrapper.controller, self, controller)

    def begin_inner(self, start: Start) -> tuple[Array, PyTree]:
        """The end of the first step and the memory of the wrapped controller."""
        end, inner = self.controller.init(*start)
        return jnp.asarray(end), inner

    def decide_inner(self, trial: Trial, inner: PyTree) -> Decision:
        """The decision of the wrapped controller."""
        *proposal, inner, result = self.controller.adapt_step_size(*trial, inner)
        keep, t0, t1, jump = (jnp.asarray(part) for part in proposal)
        return Decision(keep, t0, t1, jump, inner, result)


def step_length(trial: Trial) -> Float[Array, ""]:
    """The length of a trial step."""
    return jnp.asarray(trial.t1) - trial.t0
