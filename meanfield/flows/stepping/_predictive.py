"""Predictive step sizes, which extrapolate how steps have shrunk.

Before a blow-up each step must be shorter than the last. A controller that looks only
at the last error reacts too late: it rejects one step for each that it accepts.
"""

from typing import NamedTuple, cast

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from ._control import AbstractWrapper, Decision, Start, Trial, step_length

SAFETY = 0.9
SHRINKAGE = 0.2  # smallest ratio of a step to the accepted step before it
# GAIN is the exponent γ of `PredictiveSteps`. It is below 1, because errors fall faster
# than the order of the method predicts if a step is as long as half of the time left to
# a blow-up. It was measured with tsit5 at tolerances of 1e-6 and 4e-10.
GAIN = 0.7


class PredictiveState(NamedTuple):
    """The length of the last accepted step, and a power of its error."""

    inner: PyTree[Array]
    dt: Float[Array, ""]
    stretch: Float[Array, ""]  # $e_n^{-\gamma/k}$; 0 if there is no error $e_n$


class PredictiveSteps(AbstractWrapper[PredictiveState]):
    r"""Steps of a PID controller, shortened if the trend of the errors requires it.

    After an accepted step $h_n$, with the error $e_n$ in units of the tolerance, the
    next one is at most $0.9\,h_n\,(h_n/h_{n-1})\,(e_{n-1}/e_n^2)^{\gamma/k}$, where
    $k$ is the order of the error (Gustafsson 1994 with $\gamma = 1$; Hairer and Wanner
    II, IV.8, eq. (8.25)).
    """

    controller: diffrax.AbstractAdaptiveStepSizeController  # a PID controller

    @override
    def begin(self, start: Start) -> tuple[Array, PredictiveState]:
        end, inner = self.begin_inner(start)
        dt = end - start.t0
        return end, PredictiveState(inner, dt, jnp.zeros_like(dt))

    @override
    def decide(self, trial: Trial, state: PredictiveState) -> Decision:
        keep, start, end, jump, inner, result = self.decide_inner(trial, state.inner)
        dt = step_length(trial)
        # For a step without any error, diffrax stores an inverse error of one.
        inverse = cast(Array, inner[0]).astype(dt.dtype)
        stretch = jnp.where(inverse == 1, 0, inverse ** (GAIN / trial.order))
        next_state = PredictiveState(inner, dt, stretch)
        shorter = jnp.minimum(end, start + _longest(state, next_state))
        rejected_state = state._replace(inner=inner)
        memory = jax.tree.map(
            lambda a, b: jnp.where(keep, a, b), next_state, rejected_state
        )
        end = jnp.where(keep, shorter, end)
        return Decision(keep, start, end, jump, memory, result)


def _longest(
    previous_state: PredictiveState, state: PredictiveState
) -> Float[Array, ""]:
    """The longest step that the trend of errors allows; infinite without a trend."""
    has_trend = (previous_state.stretch > 0) & (state.stretch > 0)
    trend = state.dt / previous_state.dt * state.stretch**2
    factor = SAFETY * trend / jnp.where(has_trend, previous_state.stretch, 1)
    longest = state.dt * jnp.maximum(factor, SHRINKAGE)
    return jax.lax.stop_gradient(jnp.where(has_trend, longest, jnp.inf))
