"""A stop for flows that are known to slow down at least like the exponential of -t."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield.endings import Status
from meanfield.flows import AbstractStop, Seen, stops


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
    def watches_speed(self) -> bool:
        return True

    @override
    def start(self, seen: Seen, span: Float[Array, ""]) -> PyTree[Array]:
        return seen.size

    @override
    def update(
        self, memory: PyTree[Array], seen: Seen
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        return memory, seen.speed <= self.tolerance * memory


stops.register("calm")(Calm)
