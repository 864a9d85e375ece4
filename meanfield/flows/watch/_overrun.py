"""Blow-ups that steps of a fixed length would walk past.

A step that is as long as what is left of the time sees nothing of a blow-up: it lands
beyond it, on a finite state. And a path of coarse steps may turn towards a blow-up that
the exact flow never meets. So fixed steps judge nothing: adaptive ones go before them,
and tell them when the flow is infinite. Where velocities jump they are wide ones, with
a wide bar: at a jump an adaptive step shrinks with its tolerance, and clouds have many.
"""

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield.dynamics import AbstractDynamics
from meanfield.flows.motions import Noise, motion_of
from meanfield.flows.stepping import AbstractStepping, Adaptive, Fixed, adaptive
from meanfield.measures import AbstractMeasure

from ._growth import BlowUpTime
from ._judge import AbstractJudge, Attempt

FORERUNNERS = 10_000  # steps: a blow-up takes some hundred
# Under `esp` beside linear attention, 40 to 400 tokens took some hundred steps; to 1e-9
# ten thousand went no farther than t = 0.0034. Blow-ups were off by up to seven bars of
# those that count no jumps.
RTOL_OVER_JUMPS, BARS_OVER_JUMPS = 1e-3, 16


class Foretold(AbstractJudge[BlowUpTime]):
    """Ends a flow at the last step before a blow-up that is known beforehand.

    Attributes:
        due: when it is; infinite if there is none.
    """

    due: BlowUpTime

    @override
    def start(self, t0: Array, y0: PyTree[Array], rtol: Array) -> BlowUpTime:
        return self.due

    @override
    def after(
        self, memory: BlowUpTime, step: Attempt
    ) -> tuple[BlowUpTime, Bool[Array, ""]]:
        return memory, jnp.zeros((), bool)

    @override
    def overrun(self, t: Float[Array, ""]) -> Bool[Array, ""]:
        return t >= self.due.t_star - self.due.error

    @override
    def is_unsure(self, memory: BlowUpTime) -> Bool[Array, ""]:
        """No: it ends before."""
        return jnp.zeros((), bool)

    @override
    def when(self, memory: BlowUpTime) -> BlowUpTime:
        return memory


def never(dtype: jnp.dtype) -> BlowUpTime:
    """No blow-up: at infinity, for a NaN would stop programs that look for them."""
    return BlowUpTime(jnp.full((), jnp.inf, dtype), jnp.zeros((), dtype))


def foresees(
    stepping: AbstractStepping | None, mu0: AbstractMeasure, noise: Noise
) -> bool:
    """Whether steps are fixed, on a path that others can go before."""
    return isinstance(stepping, Fixed) and not motion_of(mu0).is_random(noise)


def forerunner(dynamics: AbstractDynamics, mu0: AbstractMeasure) -> Adaptive:
    """The steps that go before fixed ones."""
    rtol = RTOL_OVER_JUMPS if motion_of(mu0).jumps(dynamics) else None
    return adaptive(rtol=rtol, max_steps=FORERUNNERS)


def foretold(
    dynamics: AbstractDynamics, mu0: AbstractMeasure, seen: BlowUpTime
) -> BlowUpTime:
    """The blow-up that a forerunner has seen, as well as it knows the time."""
    bars = BARS_OVER_JUMPS if motion_of(mu0).jumps(dynamics) else 1
    return BlowUpTime(seen.t_star, bars * seen.error)


def is_bounded(
    dynamics: AbstractDynamics, mu0: AbstractMeasure, ts: Float[Array, " times"]
) -> Bool[Array, ""]:
    """Whether a proof is known, for every piece of time, that nothing blows up."""
    begins = jnp.concatenate([ts[:1], dynamics.jumps.astype(ts.dtype), ts[-1:]])
    return jnp.all(jax.vmap(lambda t: dynamics.linearly_bounded(t, mu0))(begins))


def is_bounded_by_kind(
    dynamics: AbstractDynamics, mu0: AbstractMeasure, ts: Float[Array, " times"]
) -> bool:
    """Whether that is known while a flow is traced, whatever its numbers are.

    It is of tokens under softmax attention, and is not where keys have to be injective.
    """
    if not isinstance(ts, Tracer):
        return False  # what is claimed might hold at that time alone
    with jax.ensure_compile_time_eval():
        claim = dynamics.linearly_bounded(ts[0], mu0)
    return not isinstance(claim, Tracer) and bool(claim)
