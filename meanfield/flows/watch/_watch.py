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
from meanfield.flows._compilation import field_at
from meanfield.flows.motions import Motion, Noise, motion_of
from meanfield.flows.stepping import AbstractWrapper, Decision, Start, Trial
from meanfield.measures import AbstractMeasure

from ._detector import AbstractDetector, Attempt, attempt_of, where
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


class Inspection(NamedTuple):
    """What stops read of a state, and the convergence of its field and its sums.

    A convergence is all zeros without an iteration, and if the field was not evaluated.
    """

    observation: Observation
    field_convergence: Convergence
    sum_convergence: Convergence

    @property
    def is_converged(self) -> Bool[Array, ""]:
        """Whether both residuals are within their tolerances, which NaN is not."""
        return self.field_convergence.is_met & self.sum_convergence.is_met

    @property
    def failure(self) -> Convergence:
        """The first `Convergence` whose residual is NaN or too large, or else zeros."""
        first, second = self.field_convergence, self.sum_convergence
        zero = Convergence.zero(second.residual)
        return where(first.is_met, where(second.is_met, zero, second), first)


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
        sizes = self._inspect_size(t0, jax.lax.stop_gradient(start.y0))
        count, zero = jnp.asarray(0), sizes.field_convergence.residual
        return end, WatchState(
            inner,
            self.detector.start(t0, start.y0, jnp.asarray(self.rtol)),
            self._start_stops(sizes.observation),
            zero,
            zero,
            sizes.failure,
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
        step = attempt_of(trial, y1, keep=is_accepted, jump=jump, ends=ends)
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
        self, step: Attempt, inspection: Inspection, state: WatchState
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
            residual=jnp.maximum(state.residual, inspection.field_convergence.residual),
            sum_error=jnp.maximum(state.sum_error, inspection.sum_convergence.residual),
            convergence_failure=inspection.failure,
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
    ) -> tuple[WatchState, Inspection]:
        """Inspects the end of a trial, and before the first one also its start.

        A loop inspects both, so that the field stands only once in the program.
        """
        t0, y0, t1, y1 = jax.lax.stop_gradient(
            (jnp.asarray(trial.t0), trial.y0, jnp.asarray(trial.t1), trial.y1)
        )
        sizes = self._inspect_size(t1, y1)
        if not (self.is_iterative or self._needs_speed):
            return state, sizes
        is_first = state.n_accepted + state.n_rejected == 0

        def inspect_next(i: Array, ends: tuple) -> tuple:
            return ends[1], self._inspect(*where(i == 0, (t0, y0), (t1, y1)))

        count = jnp.where(is_first, 0, 1)
        start, end = jax.lax.fori_loop(count, 2, inspect_next, (sizes, sizes))
        return where(is_first, self._apply_start(state, start), state), end

    def _apply_start(self, state: WatchState, start: Inspection) -> WatchState:
        """The state before the first step, after the start has been inspected."""
        running_code, failure_code = int(Status.FINISHED), int(Status.UNCONVERGED)
        return state._replace(
            memories=self._start_stops(start.observation),
            residual=start.field_convergence.residual,
            sum_error=start.sum_convergence.residual,
            convergence_failure=start.failure,
            code=jnp.where(start.is_converged, running_code, failure_code),
        )

    def _start_stops(self, observation: Observation) -> tuple[PyTree[Array], ...]:
        return tuple(stop.start(observation, self.span) for stop in self.stops)

    def _inspect_size(self, t: Array, y: PyTree[Array]) -> Inspection:
        """The size and clusters of a state, whose field is not evaluated."""
        mu = self.mu0.replace_coordinates(y)
        size, is_changing = mu.size, jnp.any(self.dynamics.jumps > t)
        limit = max((stop.most_clusters for stop in self.stops), default=0)
        count = self._motion.count_clusters(self.mu0, mu, limit) if limit else 0
        parts = is_changing, size, jnp.zeros_like(size), jnp.asarray(count)
        observation = Observation(t, *parts)
        zero = Convergence.zero(size)
        return Inspection(observation, zero, zero)

    def _inspect(self, t: Array, y: PyTree[Array]) -> Inspection:
        """The size of a state, and the convergence and the speed of its field."""
        observation, zero, _ = self._inspect_size(t, y)
        mu = self.mu0.replace_coordinates(y)
        freeze = functools.partial(field_at, self.dynamics, t)
        field = freeze(mu)
        if self._needs_speed:
            speed = self.mu0.norm(self._motion.drift(mu, field, self.noise))
            observation = observation._replace(speed=speed)
        parts = field.convergence, self._motion.sum_convergence(freeze, mu, field)
        parts = [part or zero for part in parts]
        # A loop keeps the dtypes of its variables.
        cast = functools.partial(jax.tree.map, lambda a, b: jnp.asarray(a, b.dtype))
        return Inspection(observation, *(cast(part, zero) for part in parts))

    @property
    def _motion(self) -> Motion:
        return motion_of(self.mu0)

    @property
    def _needs_speed(self) -> bool:
        return any(stop.needs_speed for stop in self.stops)


def _shortest(t: Float[Array, ""]) -> Float[Array, ""]:
    """The length below which a step is too short to change the time."""
    return 4 * jnp.finfo(t.dtype).eps * jnp.abs(t)


def _all_finite(tree: PyTree[Array]) -> Bool[Array, ""]:
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack([jnp.ones((), bool), *leaves]))
