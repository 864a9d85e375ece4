"""A stop for flows that are known to slow down at least like the exponential of -t."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield.endings import Status
from meanfield.flows import AbstractStop, Observation, stops


class Calm(AbstractStop):
    r"""Ends as `steady` where the speed is below a share of the first size.

    If the speed falls at least like $e^{-t}$, the way that is left is no longer than
    the speed; for other flows this says nothing.
    """

    tolerance: float = eqx.field(static=True)

    @property
    @override
    def status(self) -> Status:
        return Status.STEADY

    @property
    @override
    def needs_speed(self) -> bool:
        return True

    @override
    def start(self, observation: Observation, span: Float[Array, ""]) -> PyTree[Array]:
        return observation.size

    @override
    def update(
        self, memory: PyTree[Array], observation: Observation
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        return memory, observation.speed <= self.tolerance * memory


stops.register("calm")(Calm)
