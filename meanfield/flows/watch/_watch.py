"""A step-size controller that monitors the flow and ends it with a status.

It wraps another controller, so everything runs inside the solver's own loop, without
host callbacks or a second pass. It never changes an accepted step.
"""

import functools
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree
from typing_extensions import override

from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.fields import Convergence
from meanfield.flows.motions import Motion, Noise, field_at, motion_of
from meanfield.flows.stepping import (
    AbstractWrapper,
    Decision,
    Start,
    Trial,
    step_length,
)
from meanfield.measures import AbstractMeasure

from ._detector import AbstractDetector, Attempt, where
from ._stop import AbstractStop, Observation


class WatchState(NamedTuple):
    """The memory of a watch."""

    inner: PyTree[Array]  # memory of the wrapped controller
    growth: PyTree[Array]  # memory of the blow-up detector
    memories: tuple[PyTree[Array], ...]  # what each stop keeps from step to step
    residual: Float[Array, ""]
    sum_error: Float[Array, ""]
    convergence_failure: (
        Convergence  # the first residual above its tolerance; zeros if there is none
    )
    reference: PyTree[Array]  # initial values; see `Motion.reference`
    code: Int[Array, ""]
    is_detected: Bool[Array, ""]  # whether the detector ended the flow
    n_accepted: Int[Array, ""]
    n_rejected: Int[Array, ""]


class _Inspection(NamedTuple):
    """Quantities of a state, and of its field if the field is evaluated."""

    observation: Observation
    residual: Float[Array, ""]
    sum_error: Float[Array, ""]
    convergence_failure: Convergence
    is_converged: Bool[Array, ""]


class Watch(AbstractWrapper[WatchState]):
    """Ends a flow at a blow-up or a stop, or when it is unconverged or not finite."""

    controller: diffrax.AbstractAdaptiveStepSizeController
    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    noise: Noise
    detector: AbstractDetector
    stops: tuple[AbstractStop, ...]
    span: Float[Array, ""]
    is_iterative: bool = eqx.field(static=True)

    @override
    def begin(self, start: Start) -> tuple[Array, WatchState]:
        t0 = jnp.asarray(start.t0)
        end, inner = self.begin_inner(start)
        observation = self._observe(t0, jax.lax.stop_gradient(start.y0))
        count, zero = jnp.asarray(0), jnp.zeros_like(observation.size)
        return end, WatchState(
            inner,
            self.detector.start(t0, start.y0, jnp.asarray(self.rtol)),
            self._start_stops(observation),
            zero,
            zero,
            _zero_convergence(zero),
            self._motion.reference(self.mu0),
            jnp.asarray(int(Status.FINISHED)),
            jnp.zeros((), bool),
            count,
            count,
        )

    @override
    def decide(self, trial: Trial, state: WatchState) -> Decision:
        keep, t0, t1, jump, inner, result = self.decide_inner(trial, state.inner)
        state, inspection = self._inspect_trial(trial, state)
        y1 = jax.lax.stop_gradient(trial.y1)
        # Second moments must be finite, too: a field that is divided by an infinite
        # second moment is 0.
        is_finite = _all_finite(y1) & jnp.isfinite(
            self.mu0.replace_coordinates(y1).size ** 2
        )
        # Fixed steps accept any state, so states past a blow-up are rejected here, and
        # the last good state is kept.
        is_late = keep & self.detector.is_past_blow_up(jnp.asarray(trial.t1))
        is_outside = ~(is_finite & _all_finite(trial.error))
        is_outside &= self._motion.is_checked(self.mu0)
        is_accepted = keep & is_finite & ~is_late & (state.code == int(Status.FINISHED))
        is_too_short = ~keep & ~(t1 - t0 > _shortest(t0))
        ends = is_too_short, keep & ~is_finite
        step = _attempt(trial, y1, keep=is_accepted, jump=jump, ends=ends)
        state = self._update_state(step, inspection, state)._replace(inner=inner)
        state = self._apply_detector(step, state, is_finite)
        state = self._mark_blow_up(state, is_late)
        # If the plan of the sums is too small, the flow ends and gets a larger plan.
        code = jnp.where(is_outside, int(Status.UNCONVERGED), state.code)
        state = state._replace(code=code)
        is_over = state.code != int(Status.FINISHED)
        result = diffrax.RESULTS.where(is_over, diffrax.RESULTS.event_occurred, result)
        t0 = jnp.where(is_accepted, t0, trial.t0)
        return Decision(is_accepted, t0, t1, jump, state, result)

    def _apply_detector(
        self, step: Attempt, state: WatchState, is_finite: Array
    ) -> WatchState:
        """The state after an update of the detector, which may end the flow."""
        growth, is_detected = self.detector.update(state.growth, step)
        start_mu, end_mu = (
            self.mu0.replace_coordinates(step.y0),
            self.mu0.replace_coordinates(step.y),
        )
        vanishing_code = self._motion.vanishing_status(
            start_mu, end_mu, state.reference
        )
        failure_code = jnp.where(is_finite, vanishing_code, int(Status.NOT_FINITE))
        code = jnp.where(
            step.is_too_short | step.is_not_finite, failure_code, state.code
        )
        is_detected &= code != int(Status.UNCONVERGED)
        return self._mark_blow_up(state._replace(code=code, growth=growth), is_detected)

    def _mark_blow_up(self, state: WatchState, ends: Array) -> WatchState:
        """The state, with the detector's code where `ends` holds."""
        code = jnp.where(ends, self.detector.ending, state.code)
        return state._replace(code=code, is_detected=state.is_detected | ends)

    def _update_state(
        self, step: Attempt, inspection: _Inspection, state: WatchState
    ) -> WatchState:
        """The state after an attempted step; a rejected step is only counted."""
        observation = inspection.observation
        if self._needs_speed and self._motion.is_split(self.noise):
            # With operator splitting, half-steps move even a state at rest. So the
            # speed is computed from the full step.
            observation = observation._replace(
                speed=self.mu0.norm(step.increment) / step.dt
            )
        memories, code = self._apply_stops(state, observation)
        is_running = code == int(Status.FINISHED)
        mu = self.mu0.replace_coordinates(step.y)
        motion_code = self._motion.ending(
            self.dynamics, step.t, mu, state.reference, state.n_accepted
        )
        code = jnp.where(is_running, motion_code, code)
        code = jnp.where(inspection.is_converged, code, int(Status.UNCONVERGED))
        accepted_state = state._replace(
            memories=memories,
            residual=jnp.maximum(state.residual, inspection.residual),
            sum_error=jnp.maximum(state.sum_error, inspection.sum_error),
            convergence_failure=inspection.convergence_failure,
            code=code,
            n_accepted=state.n_accepted + 1,
        )
        rejected_state = state._replace(n_rejected=state.n_rejected + 1)
        return jax.tree.map(
            lambda a, b: jnp.where(step.keep, a, b), accepted_state, rejected_state
        )

    def _apply_stops(
        self, state: WatchState, observation: Observation
    ) -> tuple[tuple[PyTree[Array], ...], Int[Array, ""]]:
        """The updated memory of each stop, and the status if a stop ends the flow."""
        code, memories = jnp.asarray(int(Status.FINISHED)), []
        for stop, memory in zip(self.stops, state.memories, strict=True):
            memory, ends = stop.update(memory, observation)
            memories.append(memory)
            code = jnp.where(ends, int(stop.status), code)
        return tuple(memories), code

    def _inspect_trial(
        self, trial: Trial, state: WatchState
    ) -> tuple[WatchState, _Inspection]:
        """Inspects the end of a trial, and before the first one also its start.

        A loop inspects both, so that the field stands only once in the program.
        """
        t0, y0, t1, y1 = jax.lax.stop_gradient(
            (jnp.asarray(trial.t0), trial.y0, jnp.asarray(trial.t1), trial.y1)
        )
        unread = self._inspect_size(t1, y1)
        if not (self.is_iterative or self._needs_speed):
            return state, unread
        is_first = state.n_accepted + state.n_rejected == 0
        start, end = jax.lax.fori_loop(
            jnp.where(is_first, 0, 1),
            2,
            lambda i, ends: (
                ends[1],
                self._inspect(*where(i == 0, (t0, y0), (t1, y1))),
            ),
            (unread, unread),
        )
        return where(is_first, self._apply_start(state, start), state), end

    def _apply_start(self, state: WatchState, start: _Inspection) -> WatchState:
        """The state before the first step, after the start has been inspected."""
        running, failed = int(Status.FINISHED), int(Status.UNCONVERGED)
        return state._replace(
            memories=self._start_stops(start.observation),
            residual=start.residual,
            sum_error=start.sum_error,
            convergence_failure=start.convergence_failure,
            code=jnp.where(start.is_converged, running, failed),
        )

    def _start_stops(self, observation: Observation) -> tuple[PyTree[Array], ...]:
        return tuple(stop.start(observation, self.span) for stop in self.stops)

    def _observe(self, t: Array, y: PyTree[Array]) -> Observation:
        """What stops can read of a state without its field."""
        size = self.mu0.replace_coordinates(y).size
        is_changing = jnp.any(self.dynamics.jumps > t)
        return Observation(t, is_changing, size, jnp.zeros_like(size))

    def _inspect_size(self, t: Array, y: PyTree[Array]) -> _Inspection:
        """The size of a state, whose field is not evaluated."""
        observation = self._observe(t, y)
        zero = jnp.zeros_like(observation.size)
        is_converged = jnp.ones((), bool)
        return _Inspection(
            observation, zero, zero, _zero_convergence(zero), is_converged
        )

    def _inspect(self, t: Array, y: PyTree[Array]) -> _Inspection:
        """The size of a state, and the convergence and the speed of its field."""
        observation = self._observe(t, y)
        mu = self.mu0.replace_coordinates(y)
        freeze = functools.partial(field_at, self.dynamics, t)
        field, speed = freeze(mu), observation.speed
        if self._needs_speed:
            speed = self.mu0.norm(self._motion.drift(mu, field, self.noise))
        zero = _zero_convergence(speed)
        convergence = field.convergence or zero
        sum_convergence = self._motion.sum_convergence(freeze, mu, field) or zero
        failure = _first_failure(convergence, sum_convergence)
        is_converged = (convergence.residual <= convergence.tolerance) & (
            sum_convergence.residual <= sum_convergence.tolerance
        )
        observation = observation._replace(speed=speed)
        return _Inspection(
            observation,
            convergence.residual,
            sum_convergence.residual,
            failure,
            is_converged,
        )

    @property
    def _motion(self) -> Motion:
        return motion_of(self.mu0)

    @property
    def _needs_speed(self) -> bool:
        return any(stop.needs_speed for stop in self.stops)


def _zero_convergence(scalar: Float[Array, ""]) -> Convergence:
    """The `Convergence` of a field without iteration: all zeros."""
    zero = jnp.zeros_like(scalar)
    return Convergence(zero, zero, jnp.zeros((), jnp.int32))


def _first_failure(*parts: Convergence) -> Convergence:
    """The first `Convergence` whose residual is NaN or too large, or else zeros."""
    failure = _zero_convergence(parts[0].residual)
    for part in reversed(parts):
        values = [
            jnp.asarray(b, jnp.result_type(a))
            for a, b in zip(failure, part, strict=True)
        ]
        fits = part.residual <= part.tolerance
        failure = Convergence(*map(functools.partial(jnp.where, fits), failure, values))
    return failure


def _attempt(
    trial: Trial,
    y: PyTree[Array],
    *,
    keep: Array,
    jump: Array,
    ends: tuple[Array, Array],
) -> Attempt:
    """The `Attempt` of a trial; `ends` holds `is_too_short` and `is_not_finite`."""
    y0 = jax.lax.stop_gradient(trial.y0)
    return Attempt(
        jnp.asarray(trial.t1),
        step_length(trial),
        y0,
        y,
        jax.tree.map(jnp.subtract, y, y0),
        jax.lax.stop_gradient(_state_error(y, trial.error)),
        trial.order,
        keep,
        jump,
        *ends,
    )


def _state_error(y: PyTree[Array], error: PyTree | None) -> PyTree | None:
    """The solver's error; `None` for solvers of grids, which report a rate instead."""
    return error if jax.tree.structure(error) == jax.tree.structure(y) else None


def _shortest(t: Float[Array, ""]) -> Float[Array, ""]:
    """The length below which a step is too short to change the time."""
    return 4 * jnp.finfo(t.dtype).eps * jnp.abs(t)


def _all_finite(tree: PyTree[Array]) -> Bool[Array, ""]:
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack([jnp.ones((), bool), *leaves]))
