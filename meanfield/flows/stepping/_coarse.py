"""Step lengths with few binary digits, so that rounding errors do not change them.

A Brownian path varies like the square root of time: if a time is off by one part in
1e16, the path is off by one part in 1e8. The next length follows from the error of a
step. Through rounding, this error depends on the order in which numbers are added, and
so on the number of devices.
"""

import diffrax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from ._control import AbstractWrapper, Decision, Start, Trial

# Number of binary digits that a step keeps, for each size of its dtype in bytes. Steps
# become at most 0.05 % shorter in double precision, and 6 % in single precision.
DIGITS = {8: 12, 4: 5}


class CoarseSteps(AbstractWrapper[PyTree]):
    """A wrapper that rounds the steps of a controller down to a few binary digits.

    Attributes:
        controller: the controller that chooses the steps.
    """

    controller: diffrax.AbstractAdaptiveStepSizeController

    @override
    def begin(self, start: Start) -> tuple[Array, PyTree]:
        t0, (end, inner) = jnp.asarray(start.t0), self.begin_inner(start)
        return t0 + _cut(end - t0), inner

    @override
    def decide(self, trial: Trial, state: PyTree) -> Decision:
        decision = self.decide_inner(trial, state)
        return decision._replace(t1=decision.t0 + _cut(decision.t1 - decision.t0))


def _cut(length: Float[Array, ""]) -> Float[Array, ""]:
    parts = 2.0 ** DIGITS[length.dtype.itemsize]
    mantissa, exponent = jnp.frexp(length)
    return jnp.ldexp(jnp.floor(mantissa * parts) / parts, exponent)
