"""Prediction of blow-ups for fixed steps, by an adaptive pilot integration.

A fixed step longer than the time left passes a blow-up unnoticed and lands on a finite
state beyond it; and a path of coarse steps may approach a blow-up that the exact flow
does not have. So fixed steps detect no blow-ups themselves: an adaptive pilot
integration first predicts the blow-up time. If velocities jump, the pilot has a large
tolerance, so its blow-up time has a large error bar. With a small tolerance, a pilot
would take too many steps: they shrink at every jump, and a cloud has many jumps.
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

from ._detector import AbstractDetector, Attempt
from ._growth import BlowUpTime

PILOT_STEPS = 10_000  # maximum number of steps; a blow-up needs a few hundred
# At a tolerance of 1e-3, pilots of 40 to 400 tokens under `esp` plus linear attention
# took a few hundred steps. At 1e-9, ten thousand steps only reached t = 0.0034. Blow-up
# times were off by up to seven error bars, since these do not include the jumps.
RTOL_OVER_JUMPS, BARS_OVER_JUMPS = 1e-3, 16


class PredictedBlowUp(AbstractDetector[BlowUpTime]):
    """Ends a flow at the last step before a predicted blow-up.

    Attributes:
        blow_up: the predicted time; infinite if there is no blow-up.
    """

    blow_up: BlowUpTime

    @override
    def start(self, t0: Array, y0: PyTree[Array], rtol: Array) -> BlowUpTime:
        return self.blow_up

    @override
    def update(
        self, memory: BlowUpTime, step: Attempt
    ) -> tuple[BlowUpTime, Bool[Array, ""]]:
        return memory, jnp.zeros((), bool)

    @override
    def is_past_blow_up(self, t: Float[Array, ""]) -> Bool[Array, ""]:
        return t >= self.blow_up.t_star - self.blow_up.error

    @override
    def is_unsure(self, memory: BlowUpTime) -> Bool[Array, ""]:
        """Always false, because the flow ends before a predicted blow-up."""
        return jnp.zeros((), bool)

    @override
    def estimate_blow_up(self, memory: BlowUpTime) -> BlowUpTime:
        return memory


def no_blow_up(dtype: jnp.dtype) -> BlowUpTime:
    """An infinite time, meaning no blow-up; NaN would raise under `jax_debug_nans`."""
    return BlowUpTime(jnp.full((), jnp.inf, dtype), jnp.zeros((), dtype))


def needs_pilot(
    stepping: AbstractStepping | None, mu0: AbstractMeasure, noise: Noise
) -> bool:
    """Whether a flow needs a pilot: its steps are fixed, and its path is not random.

    A flow in a compact space cannot blow up.
    """
    is_fixed = isinstance(stepping, Fixed) and not mu0.is_confined
    return is_fixed and not motion_of(mu0).is_random(noise)


def pilot_span(ts: Float[Array, " times"], run_end: float | None) -> Float[Array, "2"]:
    """The first and the last time of a pilot integration, up to the end of the run."""
    last = ts[-1] if run_end is None else jnp.asarray(run_end, ts.dtype)
    return jnp.stack([ts[0], last])


def pilot_stepping(dynamics: AbstractDynamics, mu0: AbstractMeasure) -> Adaptive:
    """The adaptive steps of a pilot integration."""
    rtol = RTOL_OVER_JUMPS if motion_of(mu0).has_jumps(dynamics) else None
    return adaptive(rtol=rtol, max_steps=PILOT_STEPS)


def pilot_blow_up(
    dynamics: AbstractDynamics, mu0: AbstractMeasure, blow_up: BlowUpTime
) -> BlowUpTime:
    """The blow-up found by a pilot, with a larger error if velocities jump."""
    bars = BARS_OVER_JUMPS if motion_of(mu0).has_jumps(dynamics) else 1
    return BlowUpTime(blow_up.t_star, bars * blow_up.error)


def is_bounded(
    dynamics: AbstractDynamics, mu0: AbstractMeasure, ts: Float[Array, " times"]
) -> Bool[Array, ""]:
    """Whether a linear bound rules out a blow-up on every interval between jumps."""
    begins = jnp.concatenate([ts[:1], dynamics.jumps.astype(ts.dtype), ts[-1:]])
    return jnp.all(jax.vmap(lambda t: dynamics.is_linearly_bounded(t, mu0))(begins))


def is_bounded_by_kind(
    dynamics: AbstractDynamics, mu0: AbstractMeasure, ts: Float[Array, " times"]
) -> bool:
    """Whether `is_bounded` is known to hold for a traced flow, whatever its values.

    It is known for tokens under softmax attention, for example, but not where the bound
    requires an injective $K$; and in a compact space.
    """
    if mu0.is_confined:
        return True
    if not isinstance(ts, Tracer):
        return False  # a bound at one concrete time may not hold at another
    with jax.ensure_compile_time_eval():
        claim = dynamics.is_linearly_bounded(ts[0], mu0)
    return not isinstance(claim, Tracer) and bool(claim)
