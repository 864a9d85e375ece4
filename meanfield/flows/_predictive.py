"""Step sizes that go on shrinking as they shrank.

A controller that looks at the last error alone learns too late that steps must shorten
all the time, as before a blow-up: there it rejects one step for each that it keeps.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._typing import SolverTime

from ._wrapping import AbstractWrapping

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
    def init(
        self,
        terms: PyTree[diffrax.AbstractTerm],
        t0: SolverTime,
        t1: SolverTime,
        y0: PyTree,
        dt0: SolverTime | None,
        args: PyTree,
        func: Callable,
        error_order: SolverTime | None,
    ) -> tuple[Array, PredictiveState]:
        end, inner = self.controller.init(
            terms, t0, t1, y0, dt0, args, func, error_order
        )
        dt = jnp.asarray(end) - t0
        return jnp.asarray(end), PredictiveState(inner, dt, jnp.zeros_like(dt))

    @override
    def adapt_step_size(
        self,
        t0: SolverTime,
        t1: SolverTime,
        y0: PyTree,
        y1_candidate: PyTree,
        args: PyTree,
        y_error: PyTree | None,
        error_order: SolverTime,
        controller_state: PredictiveState,
    ) -> tuple[Array, Array, Array, Array, PredictiveState, diffrax.RESULTS]:
        before = controller_state
        *proposal, inner, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, before.inner
        )
        keep, start, end, jump = (jnp.asarray(part) for part in proposal)
        dt = jnp.asarray(t1) - t0
        # diffrax writes one where there was no error.
        inverse = cast(Array, inner[0]).astype(dt.dtype)
        stretch = jnp.where(inverse == 1, 0, inverse ** (GAIN / error_order))
        after = PredictiveState(inner, dt, stretch)
        shorter = jnp.minimum(end, start + _longest(before, after))
        rejected = before._replace(inner=inner)
        state = jax.tree.map(lambda a, b: jnp.where(keep, a, b), after, rejected)
        return keep, start, jnp.where(keep, shorter, end), jump, state, result


def _longest(before: PredictiveState, after: PredictiveState) -> Float[Array, ""]:
    """The longest next step that the trend allows, if there is one."""
    known = (before.stretch > 0) & (after.stretch > 0)
    trend = after.dt / before.dt * after.stretch**2
    factor = SAFETY * trend / jnp.where(known, before.stretch, 1)
    longest = after.dt * jnp.maximum(factor, SHRINKAGE)
    return jax.lax.stop_gradient(jnp.where(known, longest, jnp.inf))
