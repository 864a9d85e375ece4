"""The interface of detectors, which decide whether and when a flow blows up."""

import abc
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from meanfield._typing import SolverTime
from meanfield.endings import Status
from meanfield.flows.stepping import Trial, step_length

from ._growth import BlowUpTime

MemoryT = TypeVar("MemoryT")
T = TypeVar("T")
UNJUDGED = -1  # code of a flow whose possible blow-up is still to be confirmed


class Attempt(NamedTuple):
    """One step that the solver tried."""

    t: Float[Array, ""]  # the time at which the step ends
    dt: Float[Array, ""]
    y0: PyTree[Array]
    y: PyTree[Array]
    increment: PyTree[Array]
    error: PyTree[Array] | None
    order: SolverTime  # the order of the error estimate
    keep: Bool[Array, ""]
    jump: Bool[Array, ""]
    is_too_short: Bool[Array, ""]  # whether the next step is too short to change `t`
    is_not_finite: Bool[Array, ""]  # whether the new state is accepted but not finite


class AbstractDetector(eqx.Module, Generic[MemoryT]):
    """Decides after each step of a flow whether the flow blows up in finite time."""

    @property
    def ending(self) -> int:
        """The code of a flow that this detector ends."""
        return int(Status.BLOW_UP)

    @abc.abstractmethod
    def start(self, t0: Array, y0: PyTree[Array], rtol: Array) -> MemoryT:
        """The memory of the detector before the first step."""

    @abc.abstractmethod
    def update(self, memory: MemoryT, step: Attempt) -> tuple[MemoryT, Bool[Array, ""]]:
        """The memory after a step, and whether the flow ends there as a blow-up.

        The flow ends if growth shows a blow-up, or explains why steps vanish or
        overflow.
        """

    @abc.abstractmethod
    def is_past_blow_up(self, t: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether a step that ends at `t` would pass a blow-up."""

    @abc.abstractmethod
    def is_unsure(self, memory: MemoryT) -> Bool[Array, ""]:
        """Whether a flow that reached its end time may have blown up earlier."""

    @abc.abstractmethod
    def estimate_blow_up(self, memory: MemoryT) -> BlowUpTime:
        """The blow-up time of a flow that was found to blow up."""


def where(condition: Array, yes: T, no: T) -> T:
    """`yes` where the condition holds, else `no`, for trees of one structure."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def attempt_of(
    trial: Trial,
    y: PyTree[Array],
    *,
    keep: Array,
    jump: Array,
    ends: tuple[Array, Array],
) -> Attempt:
    """The `Attempt` of a trial; `ends` holds `is_too_short` and `is_not_finite`."""
    y0 = jax.lax.stop_gradient(trial.y0)
    return Attempt(
        jnp.asarray(trial.t1),
        step_length(trial),
        y0,
        y,
        jax.tree.map(jnp.subtract, y, y0),
        jax.lax.stop_gradient(_state_error(y, trial.error)),
        trial.order,
        keep,
        jump,
        *ends,
    )


def _state_error(y: PyTree[Array], error: PyTree | None) -> PyTree | None:
    """The solver's error; `None` for solvers of grids, which report a rate instead."""
    return error if jax.tree.structure(error) == jax.tree.structure(y) else None
