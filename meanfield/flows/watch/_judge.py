"""Who says that a flow blows up, and when."""

import abc
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
from jaxtyping import Array, Bool, Float, PyTree

from meanfield._typing import SolverTime

from ._growth import BlowUpTime

MemoryT = TypeVar("MemoryT")


class Attempt(NamedTuple):
    """One step that the solver tried."""

    t: Float[Array, ""]  # where it ends
    dt: Float[Array, ""]
    y0: PyTree[Array]
    y: PyTree[Array]
    way: PyTree[Array]
    error: PyTree[Array] | None
    order: SolverTime  # of that error
    keep: Bool[Array, ""]
    jump: Bool[Array, ""]
    vanished: Bool[Array, ""]  # whether shorter ones would be rounding
    lost: Bool[Array, ""]  # whether the solver keeps it, but it is not finite


class AbstractJudge(eqx.Module, Generic[MemoryT]):
    """Asked after each step of a flow whether this is a finite-time blow-up."""

    @abc.abstractmethod
    def start(self, t0: Array, y0: PyTree[Array], rtol: Array) -> MemoryT:
        """What is remembered before the first step."""

    @abc.abstractmethod
    def after(self, memory: MemoryT, step: Attempt) -> tuple[MemoryT, Bool[Array, ""]]:
        """The memory after a step, and whether growth ends the flow here.

        Because it shows a blow-up, or is why steps vanish or are lost to overflow.
        """

    @abc.abstractmethod
    def overrun(self, t: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether a step that ends at `t` would walk past a blow-up."""

    @abc.abstractmethod
    def is_unsure(self, memory: MemoryT) -> Bool[Array, ""]:
        """Whether a flow that went on may have blown up before."""

    @abc.abstractmethod
    def when(self, memory: MemoryT) -> BlowUpTime:
        """When the size is infinite, of a flow that was found to blow up."""
