"""The interface of detectors, which decide whether and when a flow blows up."""

import abc
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
from jaxtyping import Array, Bool, Float, PyTree

from meanfield._typing import SolverTime

from ._growth import BlowUpTime

MemoryT = TypeVar("MemoryT")


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
        """Whether a flow that reached its end may have blown up before it."""

    @abc.abstractmethod
    def estimate_blow_up(self, memory: MemoryT) -> BlowUpTime:
        """The blow-up time of a flow that was found to blow up."""
