"""Detection of finite-time blow-ups from the growth of the size in adaptive steps."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield.dynamics import AbstractDynamics
from meanfield.measures import AbstractMeasure

from ._detector import AbstractDetector, Attempt
from ._extrapolation import extrapolate_state, is_law_confirmed, log_rate
from ._growth import (
    LAW_E_FOLDS,
    BlowUpTime,
    Record,
    blow_up_time,
    empty_record,
    error_amplification,
    is_accelerating,
    is_blow_up,
    is_certain,
    is_exhausted,
    push,
    time_error,
    time_to_grow,
)

T = TypeVar("T")

# The error of an embedded pair is below its estimate, except where the estimate changes
# sign and is small by chance. A bound then follows from the curvature of the growth and
# the order of the method. The factors were chosen on a thousand blow-ups of known time,
# with tsit5, dopri8 and kvaerno5, at tolerances from 1e-3 to 1e-11.
ESTIMATE_FACTOR = 2.0
CURVATURE_FACTOR = 2e-3
# Smallest error of a step, relative to `rtol`: implicit stages are not exact either.
TOLERANCE_FACTOR = 1e-3
# In tests, errors of earlier steps were at most this multiple of the tolerance.
PRIOR_FACTOR = 8.0
OVERFLOW_MARGIN = 2 * LAW_E_FOLDS  # e-folds below overflow that extrapolation needs


class Growth(NamedTuple):
    """The memory of the growth detector."""

    run_start: Float[Array, ""]
    begin: Float[Array, ""]  # the time at which this flow begins
    log_size: Float[Array, ""]  # log-size at the beginning of the flow
    record: Record
    rtol: Float[Array, ""]
    log_speed: Float[Array, ""]  # log of speed over size in the last step
    time_shift: Float[Array, ""]  # largest shift of the blow-up time by errors of steps
    error: Float[Array, ""]  # sum of the errors of all steps, relative to the size
    increment: PyTree[Array]  # change of the state in the last step
    is_law_continued: Bool[Array, ""]  # the last answer of `_is_law_continued`
    is_unsure: Bool[Array, ""]  # whether a jump fell within the error bar of t_star


class _Jump(NamedTuple):
    """A jump of the parameters, compared with the time of a possible blow-up."""

    speed_before: Float[Array, ""]  # speed of the state just before the jump
    speed_after: Float[Array, ""]
    is_continuous: Bool[Array, ""]  # whether velocities are continuous at the jump
    is_after: Bool[Array, ""]  # whether the jump is later than t_star plus its error
    is_within: Bool[Array, ""]  # whether the jump is within the error bar of t_star


class GrowthDetector(AbstractDetector[Growth]):
    """Detects a finite-time blow-up by the growth of the size, step by step.

    Attributes:
        dynamics: the dynamics, which never blows up if it is linearly bounded.
        mu0: the initial measure.
        run_start: the time at which the run began.
    """

    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    run_start: Float[Array, ""]

    @override
    def start(self, t0: Array, y0: PyTree[Array], rtol: Array) -> Growth:
        """The initial memory, with an allowance for errors of the run before `t0`."""
        log_size = jnp.log(self.mu0.replace_coordinates(y0).size)
        record = empty_record(t0, log_size)
        time_shift = PRIOR_FACTOR * rtol * (t0 - self.run_start)
        log_speed = jnp.full_like(time_shift, jnp.nan)
        increment = jax.tree.map(jnp.zeros_like, jax.lax.stop_gradient(y0))
        shifts = time_shift, jnp.zeros_like(time_shift)
        false = jnp.zeros((), bool)
        law = record, rtol, log_speed, *shifts, increment, false, false
        return Growth(self.run_start, t0, log_size, *law)

    @override
    def update(self, memory: Growth, step: Attempt) -> tuple[Growth, Bool[Array, ""]]:
        growth = _where(step.keep, self._record_step(memory, step), memory)
        record, run_start = growth.record, growth.run_start
        is_near = is_blow_up(record, run_start)
        error = time_error(growth.time_shift, step.t)
        is_near |= is_exhausted(record, run_start, error)
        is_near = (step.keep & is_near) | _is_break(record, step)
        # Large states are checked early: the next extrapolated state might overflow.
        is_large = self._headroom(step.y) <= 2 * OVERFLOW_MARGIN
        asks = is_near | (step.keep & is_certain(record) & is_large)
        is_continued = jnp.where(
            asks, self._is_law_continued(growth, step, asks), growth.is_law_continued
        )
        growth = growth._replace(is_law_continued=is_continued)
        if not self.dynamics.jumps.shape[0]:
            return growth, is_near & is_continued
        jump = self._next_jump(growth, step, is_near & is_continued)
        # A flow may stay finite if its parameters jump before it would have blown up.
        precedes = jump.is_after | (step.is_too_short & jump.is_continuous)
        restarts = step.keep & step.jump & ~jump.is_continuous
        crosses = restarts & is_near & is_continued & jump.is_within
        growth = growth._replace(is_unsure=growth.is_unsure | crosses)
        growth = _where(restarts, self._restart(growth, step, jump), growth)
        return growth, is_near & is_continued & precedes

    def _restart(self, growth: Growth, step: Attempt, jump: _Jump) -> Growth:
        """The memory after a jump, where a new growth law begins.

        The error of the state is the time shift times the speed before the jump, plus
        the errors of all steps. Divided by the speed after the jump, this is the new
        shift.
        """
        fresh = self.start(step.t, step.y, growth.rtol)
        size = jnp.exp(fresh.log_size)
        state_error = growth.time_shift * jump.speed_before + growth.error * size
        return fresh._replace(
            time_shift=state_error / jump.speed_after,
            error=growth.error,
            is_unsure=growth.is_unsure,
        )

    def _next_jump(self, growth: Growth, step: Attempt, claims: Array) -> _Jump:
        """The next jump of parameters, and the speeds of the state on both sides.

        Until a step reaches the jump, the speeds of the initial state are used.
        """
        arrives = step.keep & step.jump
        t = jnp.where(step.keep, step.t, step.t - step.dt)
        t = self._end_of_layer(t)
        mu = self.mu0.replace_coordinates(_where(arrives, step.y, self.mu0.coordinates))
        velocity = lambda t: mu.transport(self.dynamics.field(t, mu))

        def look() -> _Jump:
            times = jnp.stack([jnp.nextafter(t, -jnp.inf), t, growth.begin])
            v, limits = jax.lax.map(velocity, times), jnp.finfo(t.dtype)
            parts = [jax.tree.map(lambda leaf, k=k: leaf[k], v) for k in range(3)]
            change = mu.norm(jax.tree.map(jnp.subtract, parts[1], parts[0]))
            # Speeds are divisors, so they are kept positive even at rest.
            speed_before, speed_after, start_speed = (
                jnp.maximum(mu.norm(part), limits.tiny**0.5) for part in parts
            )
            fastest = jnp.maximum(speed_before, start_speed)
            is_continuous = change <= limits.eps**0.5 * fastest
            t_star, error = self.estimate_blow_up(growth)
            is_after, is_before = t_star + error < t, t < t_star - error
            is_within = ~(is_after | is_before)
            return _Jump(speed_before, speed_after, is_continuous, is_after, is_within)

        false, zero = jnp.zeros((), bool), jnp.zeros_like(t)
        return _evaluate_if(
            arrives | claims, look, _Jump(zero, zero, false, false, false)
        )

    def _end_of_layer(self, t: Array) -> Array:
        """The first jump of parameters after `t`; infinite if there is none."""
        jumps = self.dynamics.jumps.astype(t.dtype)
        return jnp.min(jumps, where=jumps > t, initial=jnp.inf)

    def _headroom(self, y: PyTree[Array]) -> Array:
        """E-folds by which the size can grow before second moments overflow."""
        size = self.mu0.replace_coordinates(y).size
        return jnp.log(jnp.finfo(size.dtype).max) / 2 - jnp.log(size)

    def _record_step(self, growth: Growth, step: Attempt) -> Growth:
        """The memory after an accepted step."""
        log_size = jnp.log(self.mu0.replace_coordinates(step.y).size)
        log_speed, error, shift = self._shift(growth, step)
        return growth._replace(
            record=push(growth.record, step.t, log_size, step.dt),
            log_speed=log_speed,
            time_shift=growth.time_shift + shift,
            error=growth.error + error,
            increment=step.increment,
        )

    def _is_law_continued(self, growth: Growth, step: Attempt, asks: Array) -> Array:
        """Whether the field follows the law at larger states and has no linear bound.

        Near overflow no larger state can be represented, and the last answer is kept.
        """
        y = _where(step.keep, step.y, step.y0)
        t = jnp.where(step.keep, step.t, step.t - step.dt)
        record, size = growth.record, self.mu0.replace_coordinates(y).size
        layer = jnp.nextafter(self._end_of_layer(t), -jnp.inf)

        def extrapolate(share: Array) -> tuple[Array, Array]:
            """E-folds of size to an extrapolated state, and its log growth rate."""
            mu = self.mu0.replace_coordinates(
                extrapolate_state(self.mu0, y, growth.increment, share)
            )
            e_folds = jnp.log(mu.size) - jnp.log(size)
            arrival_time = jnp.minimum(t + time_to_grow(record, e_folds), layer)
            return e_folds, log_rate(
                mu, mu.transport(self.dynamics.field(arrival_time, mu))
            )

        confirm = lambda: is_law_confirmed(record, extrapolate)
        is_bounded = self.dynamics.is_linearly_bounded(t, self.mu0)
        is_continued = _evaluate_if(asks & ~is_bounded, confirm, jnp.zeros((), bool))
        return jnp.where(
            self._headroom(y) > OVERFLOW_MARGIN,
            is_continued,
            ~is_bounded & growth.is_law_continued,
        )

    def _shift(self, growth: Growth, step: Attempt) -> tuple[Array, Array, Array]:
        r"""Log of speed over size, relative error and time shift of an accepted step.

        If the time left falls by $\rho$ e-folds and the size grows by $\gamma\rho$, the
        error of a method of order $p$ is a multiple of $(\gamma\rho)(\gamma\rho + \rho)
        \cdots(\gamma\rho + p\rho)/(p+1)!$ of the size. Divided by the growth rate
        $\gamma\rho/h$, it shifts the time by about $h(\rho + \gamma\rho/2)^p$.
        """
        size = self.mu0.replace_coordinates(step.y).size
        log_speed = jnp.log(self.mu0.norm(step.increment) / step.dt) - jnp.log(size)
        if step.error is None:
            zero = jnp.zeros_like(step.dt)
            return log_speed, zero, zero
        relative = self.mu0.norm(step.error) / jnp.where(size > 0, size, 1)
        gain = jnp.abs(log_speed - growth.log_speed)
        e_folds = step.dt * jnp.exp(log_speed)
        curvature = jnp.where(jnp.isfinite(gain), gain, 0) + e_folds / 2
        error = ESTIMATE_FACTOR * relative + TOLERANCE_FACTOR * growth.rtol
        shift = step.dt * (error + CURVATURE_FACTOR * curvature**step.order)
        return log_speed, error, shift

    @override
    def is_past_blow_up(self, t: Float[Array, ""]) -> Bool[Array, ""]:
        """Always false, because adaptive steps shrink before a blow-up."""
        return jnp.zeros((), bool)

    @override
    def is_unsure(self, memory: Growth) -> Bool[Array, ""]:
        """Whether a jump was so close to a blow-up that either may have come first."""
        return memory.is_unsure

    @override
    def estimate_blow_up(self, memory: Growth) -> BlowUpTime:
        record = memory.record
        time_shift = memory.time_shift * error_amplification(
            record, memory.begin, memory.log_size
        )
        return blow_up_time(record, time_error(time_shift, record.ts[-1]))


def _is_break(record: Record, step: Attempt) -> Bool[Array, ""]:
    """Whether a blow-up can explain that steps vanish or overflow.

    Steps that vanish while growth accelerates cannot resolve the time any better, and a
    certain growth law continues beyond overflow. In both cases the field must confirm
    the blow-up.
    """
    has_failed = step.is_too_short | step.is_not_finite
    return (step.is_too_short & is_accelerating(record)) | (
        has_failed & is_certain(record)
    )


def _where(condition: Array, yes: T, no: T) -> T:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _evaluate_if(condition: Array, answer: Callable[[], T], otherwise: T) -> T:
    """The result of `answer` if the condition holds, and `otherwise` if not.

    A loop of at most one pass takes the place of `lax.cond`, which under `vmap` would
    compute the answer at every step. The loop computes it only if the condition holds
    for some member.
    """

    def evaluate(_: tuple[Array, T]) -> tuple[Array, T]:
        return jnp.zeros((), bool), answer()

    needs_answer = lambda state: state[0]
    return jax.lax.while_loop(needs_answer, evaluate, (condition, otherwise))[1]
