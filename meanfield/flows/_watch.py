"""A step-size controller that watches the flow and ends it for a named reason.

It wraps another controller, so that all of it runs inside the solver's own loop: no
host callback, no second pass. It never changes an accepted step.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree
from typing_extensions import override

from meanfield._typing import SolverTime
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.fields import Convergence
from meanfield.measures import AbstractMeasure

from ._grid_endings import feels_rim, grid_ending, rim_of
from ._judge import AbstractJudge, Attempt
from ._noise import Noise, drift, splits
from ._planning import interpolation_error
from ._stop import AbstractStop, Seen
from ._wrapping import AbstractWrapping


class WatchState(NamedTuple):
    """What is remembered from step to step."""

    inner: PyTree[Array]
    growth: PyTree[Array]  # what its judge remembers
    memories: tuple[PyTree[Array], ...]
    residual: Float[Array, ""]
    rim: Float[Array, " d"] | None  # of a grid, the mass at its edges at the start
    code: Int[Array, ""]
    by_growth: Bool[Array, ""]  # whether growth ended it
    n_accepted: Int[Array, ""]
    n_rejected: Int[Array, ""]


class Watch(AbstractWrapping[WatchState]):
    """Ends a flow at a blow-up, at a stop, unconverged, or not finite."""

    controller: diffrax.AbstractAdaptiveStepSizeController
    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    noise: Noise
    judge: AbstractJudge
    stops: tuple[AbstractStop, ...]
    iterates: bool = eqx.field(static=True)

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
    ) -> tuple[Array, WatchState]:
        start = jnp.asarray(t0)
        span = jnp.asarray(t1) - start
        t1, inner = self.controller.init(
            terms, t0, t1, y0, dt0, args, func, error_order
        )
        seen, residual, converged = self._look(start, jax.lax.stop_gradient(y0))
        zero = jnp.asarray(0)
        fine, missed = int(Status.FINISHED), int(Status.UNCONVERGED)
        state = WatchState(
            inner,
            self.judge.start(start, y0, jnp.asarray(self.rtol)),
            tuple(stop.start(seen, span) for stop in self.stops),
            residual,
            rim_of(self.mu0),
            jnp.where(converged, fine, missed),
            jnp.zeros((), bool),
            zero,
            zero,
        )
        return jnp.asarray(t1), state

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
        controller_state: WatchState,
    ) -> tuple[Array, Array, Array, Array, WatchState, diffrax.RESULTS]:
        state = controller_state
        *proposal, inner, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, state.inner
        )
        keep, next_t0, next_t1, jump = (jnp.asarray(part) for part in proposal)
        y1 = jax.lax.stop_gradient(y1_candidate)
        # Moments must be finite too, or fields that divide by them vanish in silence.
        finite = _all_finite(y1) & jnp.isfinite(self.mu0.at(y1).size ** 2)
        # A fixed step accepts anything: the last good state must survive it.
        late = keep & self.judge.overrun(jnp.asarray(t1))
        taken = keep & finite & ~late & (state.code == int(Status.FINISHED))
        vanished = ~keep & ~(next_t1 - next_t0 > _shortest(next_t0))
        end = jnp.asarray(t1)
        way = jax.tree.map(jnp.subtract, y1, jax.lax.stop_gradient(y0))
        error = jax.lax.stop_gradient(_like(y1, y_error))
        attempt = Attempt(end, end - t0, y1, way, error, error_order, taken, jump)
        seen = self._after(attempt, state)
        lost = keep & ~finite
        breaks = self.judge.breaks(seen.growth, vanished=vanished, lost=lost)
        breaks |= late
        stuck = jnp.where(finite, int(Status.MAX_STEPS), int(Status.NOT_FINITE))
        code = jnp.where(vanished | lost, stuck, seen.code)
        code = jnp.where(breaks, int(Status.BLOW_UP), code)
        by_growth = seen.by_growth | breaks
        state = seen._replace(inner=inner, code=code, by_growth=by_growth)
        ends = code != int(Status.FINISHED)
        result = diffrax.RESULTS.where(ends, diffrax.RESULTS.event_occurred, result)
        next_t0 = jnp.where(taken, next_t0, t0)
        return taken, next_t0, next_t1, jump, state, result

    def _after(self, step: Attempt, state: WatchState) -> WatchState:
        """The state after an attempted step; a rejected one only counts."""
        seen, residual, converged = self._look(step.t, step.y)
        if self._watches_speed and splits(self.noise, self.mu0):
            # No part of such a step is zero at rest, only the whole.
            seen = seen._replace(speed=self.mu0.norm(step.way) / step.dt)
        memories, code = self._stopped(state, seen)
        finished = code == int(Status.FINISHED)
        mu = self.mu0.at(step.y)
        felt = feels_rim(self.dynamics, step.t, mu, state.rim, state.n_accepted)
        ended = grid_ending(mu, felt)
        code = jnp.where(finished, ended, code)
        growth, by_growth = self.judge.after(state.growth, step)
        code = jnp.where(by_growth, int(Status.BLOW_UP), code)
        code = jnp.where(converged, code, int(Status.UNCONVERGED))
        accepted = state._replace(
            growth=growth,
            memories=memories,
            residual=jnp.maximum(state.residual, residual),
            code=code,
            by_growth=by_growth,
            n_accepted=state.n_accepted + 1,
        )
        rejected = state._replace(n_rejected=state.n_rejected + 1)
        return jax.tree.map(lambda a, b: jnp.where(step.keep, a, b), accepted, rejected)

    def _stopped(
        self, state: WatchState, seen: Seen
    ) -> tuple[tuple[PyTree[Array], ...], Int[Array, ""]]:
        """What stops remember now, and the status of one that ends the flow."""
        code, memories = jnp.asarray(int(Status.FINISHED)), []
        for stop, memory in zip(self.stops, state.memories, strict=True):
            memory, ends = stop.update(memory, seen)
            memories.append(memory)
            code = jnp.where(ends, int(stop.status), code)
        return tuple(memories), code

    def _look(
        self, t: Array, y: PyTree[Array]
    ) -> tuple[Seen, Float[Array, ""], Bool[Array, ""]]:
        """Size, and what a field evaluation shows if anyone asks for one."""
        size = self.mu0.at(y).size
        nothing = jnp.zeros_like(size)
        seen = Seen(t, jnp.any(self.dynamics.jumps > t), size, nothing)
        if not (self.iterates or self._watches_speed):
            return seen, nothing, jnp.ones((), bool)
        mu = self.mu0.at(y)
        freeze = functools.partial(self.dynamics.field, t)
        field, speed = freeze(mu), nothing
        if self._watches_speed:
            speed = self.mu0.norm(drift(self.noise, mu, field))
        convergence = field.convergence or Convergence(nothing, nothing)
        converged = convergence.residual <= convergence.tolerance
        missed = interpolation_error(freeze, mu, field) or Convergence(nothing, nothing)
        converged &= missed.residual <= missed.tolerance
        return seen._replace(speed=speed), convergence.residual, converged

    @property
    def _watches_speed(self) -> bool:
        return any(stop.watches_speed for stop in self.stops)


def _like(y: PyTree[Array], error: PyTree | None) -> PyTree | None:
    """An error that is one of the state; grids report the rate of their fluxes."""
    return error if jax.tree.structure(error) == jax.tree.structure(y) else None


def _shortest(t: Float[Array, ""]) -> Float[Array, ""]:
    """A step that rounding of the time would eat."""
    return 4 * jnp.finfo(t.dtype).eps * jnp.abs(t)


def _all_finite(tree: PyTree[Array]) -> Bool[Array, ""]:
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack(leaves))
