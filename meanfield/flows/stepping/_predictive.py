"""Step sizes that go on shrinking as they shrank.

A controller that looks at the last error alone learns too late that steps must shorten
all the time, as before a blow-up: there it rejects one step for each that it keeps.
"""

from typing import NamedTuple, cast

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from ._control import AbstractWrapping, Decision, Start, Trial, elapsed

SAFETY = 0.9
SHRINKAGE = 0.2  # at most, after a step that was kept
# Of what the order of the method would ask for: errors of steps as long as half of what
# is left to a blow-up fall faster than that. Measured with tsit5 at 1e-6 and 4e-10.
GAIN = 0.7


class PredictiveState(NamedTuple):
    """The last step that was kept."""

    inner: PyTree[Array]
    dt: Float[Array, ""]
    stretch: Float[Array, ""]  # $e^{-\gamma/k}$; zero where there was no error


class Predictive(AbstractWrapping[PredictiveState]):
    r"""The steps of a PID controller, or shorter ones where the trend asks for them.

    After a step $h_n$ that was kept, with the error $e_n$ in units of the tolerance,
    the next is at most $0.9\,h_n\,(h_n/h_{n-1})\,(e_{n-1}/e_n^2)^{\gamma/k}$, where
    $k$ is the order of the error (Gustafsson 1994 with $\gamma = 1$; Hairer and Wanner
    II, IV.8, eq. (8.25)).
    """

    controller: diffrax.AbstractAdaptiveStepSizeController  # a PID one

    @override
    def begin(self, start: Start) -> tuple[Array, PredictiveState]:
        end, inner = self.begun(start)
        dt = end - start.t0
        return end, PredictiveState(inner, dt, jnp.zeros_like(dt))

    @override
    def decide(self, trial: Trial, state: PredictiveState) -> Decision:
        keep, start, end, jump, inner, result = self.decided(trial, state.inner)
        dt = elapsed(trial)
        # diffrax writes one where there was no error.
        inverse = cast(Array, inner[0]).astype(dt.dtype)
        stretch = jnp.where(inverse == 1, 0, inverse ** (GAIN / trial.order))
        after = PredictiveState(inner, dt, stretch)
        shorter = jnp.minimum(end, start + _longest(state, after))
        rejected = state._replace(inner=inner)
        memory = jax.tree.map(lambda a, b: jnp.where(keep, a, b), after, rejected)
        end = jnp.where(keep, shorter, end)
        return Decision(keep, start, end, jump, memory, result)


def _longest(before: PredictiveState, after: PredictiveState) -> Float[Array, ""]:
    """The longest next step that the trend allows, if there is one."""
    known = (before.stretch > 0) & (after.stretch > 0)
    trend = after.dt / before.dt * after.stretch**2
    factor = SAFETY * trend / jnp.where(known, before.stretch, 1)
    longest = after.dt * jnp.maximum(factor, SHRINKAGE)
    return jax.lax.stop_gradient(jnp.where(known, longest, jnp.inf))
