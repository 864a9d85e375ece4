"""A step-size controller that watches the flow and ends it for a named reason.

It wraps another controller, so that all of it runs inside the solver's own loop: no
host callback, no second pass. It never changes an accepted step.
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
from meanfield.flows.motions import Motion, Noise, motion_of
from meanfield.flows.stepping import AbstractWrapping, Decision, Start, Trial, elapsed
from meanfield.measures import AbstractMeasure

from ._judge import AbstractJudge, Attempt
from ._stop import AbstractStop, Seen


class WatchState(NamedTuple):
    """What is remembered from step to step."""

    inner: PyTree[Array]
    growth: PyTree[Array]  # what its judge remembers
    memories: tuple[PyTree[Array], ...]
    residual: Float[Array, ""]
    missed: Float[Array, ""]
    lapse: Convergence  # what missed its tolerance; zeros where nothing did
    begun: PyTree[Array]  # what the motion of the measure remembers of the start
    code: Int[Array, ""]
    by_growth: Bool[Array, ""]  # whether growth ended it
    n_accepted: Int[Array, ""]
    n_rejected: Int[Array, ""]


class _Look(NamedTuple):
    """What is seen of a state: of its field too, if anyone asks for one."""

    seen: Seen
    residual: Float[Array, ""]
    missed: Float[Array, ""]
    lapse: Convergence
    converged: Bool[Array, ""]


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
    def begin(self, start: Start) -> tuple[Array, WatchState]:
        t0 = jnp.asarray(start.t0)
        span = jnp.asarray(start.t1) - t0
        end, inner = self.begun(start)
        look = self._look(t0, jax.lax.stop_gradient(start.y0))
        zero = jnp.asarray(0)
        fine, lost = int(Status.FINISHED), int(Status.UNCONVERGED)
        return end, WatchState(
            inner,
            self.judge.start(t0, start.y0, jnp.asarray(self.rtol)),
            tuple(stop.start(look.seen, span) for stop in self.stops),
            look.residual,
            look.missed,
            look.lapse,
            self._motion.at_start(self.mu0),
            jnp.where(look.converged, fine, lost),
            jnp.zeros((), bool),
            zero,
            zero,
        )

    @override
    def decide(self, trial: Trial, state: WatchState) -> Decision:
        keep, t0, t1, jump, inner, result = self.decided(trial, state.inner)
        y1 = jax.lax.stop_gradient(trial.y1)
        # Moments must be finite too, or fields that divide by them vanish in silence.
        finite = _all_finite(y1) & jnp.isfinite(self.mu0.at(y1).size ** 2)
        # A fixed step accepts anything: the last good state must survive it.
        late = keep & self.judge.overrun(jnp.asarray(trial.t1))
        outside = ~(finite & _all_finite(trial.error))
        outside &= self._motion.is_fenced(self.mu0)
        taken = keep & finite & ~late & (state.code == int(Status.FINISHED))
        vanished = ~keep & ~(t1 - t0 > _shortest(t0))
        ends = vanished, keep & ~finite
        step = _attempt(trial, y1, keep=taken, jump=jump, ends=ends)
        state = self._after(step, state)._replace(inner=inner)
        state = self._judged(step, state, finite)
        state = _blown_up(state, late)
        # What a plan has no room for is planned anew, and no more steps are tried.
        code = jnp.where(outside, int(Status.UNCONVERGED), state.code)
        state = state._replace(code=code)
        is_over = state.code != int(Status.FINISHED)
        result = diffrax.RESULTS.where(is_over, diffrax.RESULTS.event_occurred, result)
        t0 = jnp.where(taken, t0, trial.t0)
        return Decision(taken, t0, t1, jump, state, result)

    def _judged(self, step: Attempt, state: WatchState, finite: Array) -> WatchState:
        """The state where growth ends the flow, or steps vanish or are lost."""
        growth, by_growth = self.judge.after(state.growth, step)
        before, after = self.mu0.at(step.y0), self.mu0.at(step.y)
        vanishing = self._motion.vanishing(before, after, state.begun)
        why = jnp.where(finite, vanishing, int(Status.NOT_FINITE))
        code = jnp.where(step.vanished | step.lost, why, state.code)
        by_growth &= code != int(Status.UNCONVERGED)
        return _blown_up(state._replace(code=code, growth=growth), by_growth)

    def _after(self, step: Attempt, state: WatchState) -> WatchState:
        """The state after an attempted step; a rejected one only counts."""
        look = self._look(step.t, step.y)
        seen = look.seen
        if self._watches_speed and self._motion.splits(self.noise):
            # No part of such a step is zero at rest, only the whole.
            seen = seen._replace(speed=self.mu0.norm(step.way) / step.dt)
        memories, code = self._stopped(state, seen)
        finished = code == int(Status.FINISHED)
        mu = self.mu0.at(step.y)
        ended = self._motion.ending(
            self.dynamics, step.t, mu, state.begun, state.n_accepted
        )
        code = jnp.where(finished, ended, code)
        code = jnp.where(look.converged, code, int(Status.UNCONVERGED))
        accepted = state._replace(
            memories=memories,
            residual=jnp.maximum(state.residual, look.residual),
            missed=jnp.maximum(state.missed, look.missed),
            lapse=look.lapse,
            code=code,
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

    def _look(self, t: Array, y: PyTree[Array]) -> "_Look":
        """Size, and what a field evaluation shows if anyone asks for one."""
        size = self.mu0.at(y).size
        nothing = jnp.zeros_like(size)
        seen = Seen(t, jnp.any(self.dynamics.jumps > t), size, nothing)
        if not (self.iterates or self._watches_speed):
            return _Look(seen, nothing, nothing, _none(size), jnp.ones((), bool))
        mu = self.mu0.at(y)
        freeze = functools.partial(self.dynamics.field, t)
        field, speed = freeze(mu), nothing
        if self._watches_speed:
            speed = self.mu0.norm(self._motion.drift(mu, field, self.noise))
        solved = field.convergence or _none(size)
        missed = self._motion.missed(freeze, mu, field) or _none(size)
        lapse = _first_lapse(solved, missed)
        converged = (solved.residual <= solved.tolerance) & (
            missed.residual <= missed.tolerance
        )
        seen = seen._replace(speed=speed)
        return _Look(seen, solved.residual, missed.residual, lapse, converged)

    @property
    def _motion(self) -> Motion:
        return motion_of(self.mu0)

    @property
    def _watches_speed(self) -> bool:
        return any(stop.watches_speed for stop in self.stops)


def _none(like: Float[Array, ""]) -> Convergence:
    """What nothing is solved for, and nothing missed."""
    nothing = jnp.zeros_like(like)
    return Convergence(nothing, nothing, jnp.zeros((), jnp.int32))


def _first_lapse(*parts: Convergence) -> Convergence:
    """The first that missed its tolerance, or is not known; zeros if none did."""
    lapse = _none(parts[0].residual)
    for part in reversed(parts):
        typed = [
            jnp.asarray(b, jnp.result_type(a)) for a, b in zip(lapse, part, strict=True)
        ]
        fits = part.residual <= part.tolerance
        lapse = Convergence(*map(functools.partial(jnp.where, fits), lapse, typed))
    return lapse


def _attempt(
    trial: Trial,
    y: PyTree[Array],
    *,
    keep: Array,
    jump: Array,
    ends: tuple[Array, Array],
) -> Attempt:
    """A trial as judges see it; `ends` says whether it vanished, or is lost."""
    y0 = jax.lax.stop_gradient(trial.y0)
    return Attempt(
        jnp.asarray(trial.t1),
        elapsed(trial),
        y0,
        y,
        jax.tree.map(jnp.subtract, y, y0),
        jax.lax.stop_gradient(_like(y, trial.error)),
        trial.order,
        keep,
        jump,
        *ends,
    )


def _blown_up(state: WatchState, ends: Array) -> WatchState:
    """The state of a flow that its growth ends, where it does."""
    code = jnp.where(ends, int(Status.BLOW_UP), state.code)
    return state._replace(code=code, by_growth=state.by_growth | ends)


def _like(y: PyTree[Array], error: PyTree | None) -> PyTree | None:
    """An error that is one of the state; grids report the rate of their fluxes."""
    return error if jax.tree.structure(error) == jax.tree.structure(y) else None


def _shortest(t: Float[Array, ""]) -> Float[Array, ""]:
    """A step that rounding of the time would eat."""
    return 4 * jnp.finfo(t.dtype).eps * jnp.abs(t)


def _all_finite(tree: PyTree[Array]) -> Bool[Array, ""]:
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack([jnp.ones((), bool), *leaves]))
