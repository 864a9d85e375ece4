"""What a flow knows of its own growth, and when that is a finite-time blow-up."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield.dynamics import AbstractDynamics
from meanfield.measures import AbstractMeasure

from ._ahead import ahead, log_rate
from ._growth import (
    SAME,
    SIZES,
    BlowUpTime,
    Record,
    accelerates,
    blow_up_time,
    blows_up,
    certain,
    disguise,
    empty_record,
    exhausted,
    goes_on,
    push,
    time_to_grow,
)
from ._judge import AbstractJudge, Attempt

T = TypeVar("T")

# A step of an embedded pair errs by less than its estimate, but where estimates change
# their sign they are small by chance: there the geometry of growth says what a method
# of that order may miss. These were chosen on a thousand blow-ups of known times, with
# tsit5, dopri8 and kvaerno5, at tolerances from 1e-3 to 1e-11.
ESTIMATED = 2.0
CURVED = 2e-3
ASKED = 1e-3  # of the tolerance, at least: implicit stages are solved to one, too
BEFORE = 8.0  # tolerances for each step of a run before this flow: no more was seen
BLIND = 2 * SIZES  # e-folds before the largest number
ROUNDINGS = 32  # of the time, at least: fields are not computed to the last digit


class Growth(NamedTuple):
    """What is remembered of growth from step to step."""

    since: Float[Array, ""]
    begin: Float[Array, ""]
    log_size: Float[Array, ""]  # at the beginning
    record: Record
    rtol: Float[Array, ""]
    log_speed: Float[Array, ""]  # of the speed over the size, in the last step
    blur: Float[Array, ""]  # by how much the steps may have shifted the time
    error: Float[Array, ""]  # of all steps, relative to the size
    way: PyTree[Array]  # of the last step
    goes_on: Bool[Array, ""]  # whether the field ahead did, at the last look
    is_unsure: Bool[Array, ""]  # whether a jump came within the bar of a blow-up


class _Jump(NamedTuple):
    """A time at which parameters jump."""

    before: Float[Array, ""]  # the speed of the state
    after: Float[Array, ""]
    is_none: Bool[Array, ""]  # whether velocities are the same, as at a kink
    is_after: Bool[Array, ""]  # whether it is later than a blow-up by more than the bar
    is_within: Bool[Array, ""]  # whether it is not, nor earlier by more


class Escape(AbstractJudge[Growth]):
    """Judges growth after each step of a flow.

    Attributes:
        dynamics: what moves the measure; one that is bounded linearly never blows up.
        mu0: the measure at the start.
        since: when the run began.
    """

    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    since: Float[Array, ""]

    @override
    def start(self, t0: Array, y0: PyTree[Array], rtol: Array) -> Growth:
        """Before the first step; the steps of a run before `t0` erred up to `rtol`."""
        log_size = jnp.log(self.mu0.at(y0).size)
        record = empty_record(t0, log_size)
        blur = BEFORE * rtol * (t0 - self.since)
        unknown = jnp.full_like(blur, jnp.nan)
        way = jax.tree.map(jnp.zeros_like, jax.lax.stop_gradient(y0))
        shifts = blur, jnp.zeros_like(blur)
        no = jnp.zeros((), bool)
        law = record, rtol, unknown, *shifts, way, no, no
        return Growth(self.since, t0, log_size, *law)

    @override
    def after(self, memory: Growth, step: Attempt) -> tuple[Growth, Bool[Array, ""]]:
        growth = _where(step.keep, self._longer(memory, step), memory)
        record, since = growth.record, growth.since
        near = blows_up(record, since)
        near |= exhausted(record, since, _time_error(growth.blur, step.t))
        near = (step.keep & near) | _breaks(record, step)
        # The next look may be too near to the largest number.
        is_large = self._room(step.y) <= 2 * BLIND
        asks = near | (step.keep & certain(record) & is_large)
        far = jnp.where(asks, self._goes_on(growth, step, asks), growth.goes_on)
        growth = growth._replace(goes_on=far)
        if not self.dynamics.jumps.shape[0]:
            return growth, near & far
        jump = self._next_jump(growth, step, near & far)
        # Beyond the jump the flow may be finite, if it comes so far.
        precedes = jump.is_after | (step.vanished & jump.is_none)
        restarts = step.keep & step.jump & ~jump.is_none
        crosses = restarts & near & far & jump.is_within
        growth = growth._replace(is_unsure=growth.is_unsure | crosses)
        growth = _where(restarts, self._restart(growth, step, jump), growth)
        return growth, near & far & precedes

    def _restart(self, growth: Growth, step: Attempt, jump: _Jump) -> Growth:
        """The memory at a jump, whose two sides follow two laws.

        The state is off by the blur times the velocity before, and by the errors of
        all steps. The velocity after makes another time of it.
        """
        fresh = self.start(step.t, step.y, growth.rtol)
        size = jnp.exp(fresh.log_size)
        off = growth.blur * jump.before + growth.error * size
        return fresh._replace(
            blur=off / jump.after, error=growth.error, is_unsure=growth.is_unsure
        )

    def _next_jump(self, growth: Growth, step: Attempt, claims: Array) -> _Jump:
        """The next jump of parameters, seen by a state that arrives there.

        By the start, where a state on its way is claimed to blow up before.
        """
        arrives = step.keep & step.jump
        t = jnp.where(step.keep, step.t, step.t - step.dt)
        t = self._end_of_layer(t)
        mu = self.mu0.at(_where(arrives, step.y, self.mu0.coordinates))
        velocity = lambda t: mu.transport(self.dynamics.field(t, mu))

        def look() -> _Jump:
            times = jnp.stack([jnp.nextafter(t, -jnp.inf), t, growth.begin])
            v, limits = jax.lax.map(velocity, times), jnp.finfo(t.dtype)
            parts = [jax.tree.map(lambda leaf, k=k: leaf[k], v) for k in range(3)]
            change = mu.norm(jax.tree.map(jnp.subtract, parts[1], parts[0]))
            # At rest there is a speed too, so that it can be divided by.
            before, after, begun = (
                jnp.maximum(mu.norm(part), limits.tiny**0.5) for part in parts
            )
            is_none = change <= limits.eps**0.5 * jnp.maximum(before, begun)
            t_star, error = self.when(growth)
            is_after, is_before = t_star + error < t, t < t_star - error
            return _Jump(before, after, is_none, is_after, ~(is_after | is_before))

        no, none = jnp.zeros((), bool), jnp.zeros_like(t)
        return _if(arrives | claims, look, _Jump(none, none, no, no, no))

    def _end_of_layer(self, t: Array) -> Array:
        """The first time after `t` at which parameters jump."""
        jumps = self.dynamics.jumps.astype(t.dtype)
        return jnp.min(jumps, where=jumps > t, initial=jnp.inf)

    def _room(self, y: PyTree[Array]) -> Array:
        """E-folds from its size to where moments are beyond all numbers."""
        size = self.mu0.at(y).size
        return jnp.log(jnp.finfo(size.dtype).max) / 2 - jnp.log(size)

    def _longer(self, growth: Growth, step: Attempt) -> Growth:
        """What is remembered after a step that was accepted."""
        log_size = jnp.log(self.mu0.at(step.y).size)
        log_speed, error, shift = self._shift(growth, step)
        return growth._replace(
            record=push(growth.record, step.t, log_size, step.dt),
            log_speed=log_speed,
            blur=growth.blur + shift,
            error=growth.error + error,
            way=step.way,
        )

    def _goes_on(self, growth: Growth, step: Attempt, asks: Array) -> Array:
        """Whether growth follows a law that the field ahead follows, and no bound.

        Near the largest number nothing is ahead: there the last look stands.
        """
        y = _where(step.keep, step.y, step.y0)
        t = jnp.where(step.keep, step.t, step.t - step.dt)
        record, size = growth.record, self.mu0.at(y).size
        layer = jnp.nextafter(self._end_of_layer(t), -jnp.inf)

        def look(share: Array) -> tuple[Array, Array]:
            """E-folds of size to a state ahead, and the log of its rate of growth."""
            mu = self.mu0.at(ahead(self.mu0, y, growth.way, share))
            grown = jnp.log(mu.size) - jnp.log(size)
            then = jnp.minimum(t + time_to_grow(record, grown), layer)
            return grown, log_rate(mu, mu.transport(self.dynamics.field(then, mu)))

        def follows() -> Array:
            # A loop, so that the field is compiled once.
            shares = jnp.array([0.0, 0.5, 1.0], t.dtype)
            (_, half, whole), (rate, middle, there) = jax.lax.map(look, shares)
            # Where times are rounded the record may tell too low an exponent.
            first, second = (middle - rate) / half, (there - middle) / (whole - half)
            steady = ~(second < (1 - SAME) * first)
            return jnp.isfinite(rate) & steady & goes_on(record, whole, there - rate)

        bounded = self.dynamics.linearly_bounded(t, self.mu0)
        seen = _if(asks & ~bounded, follows, jnp.zeros((), bool))
        return jnp.where(self._room(y) > BLIND, seen, ~bounded & growth.goes_on)

    def _shift(self, growth: Growth, step: Attempt) -> tuple[Array, Array, Array]:
        r"""The log of speed over size; what a step errs by, and may shift the time by.

        With the fall $\rho$ of the time left, in e-folds, and the growth $\gamma\rho$,
        a method of order $p$ misses a multiple of $(\gamma\rho)(\gamma\rho + \rho)
        \cdots(\gamma\rho + p\rho)/(p+1)!$ of the size; over the rate $\gamma\rho/h$
        that is about $h(\rho + \gamma\rho/2)^p$ of time.
        """
        size = self.mu0.at(step.y).size
        log_speed = jnp.log(self.mu0.norm(step.way) / step.dt) - jnp.log(size)
        if step.error is None:
            none = jnp.zeros_like(step.dt)
            return log_speed, none, none
        relative = self.mu0.norm(step.error) / jnp.where(size > 0, size, 1)
        gain = jnp.abs(log_speed - growth.log_speed)
        grown = step.dt * jnp.exp(log_speed)
        curved = jnp.where(jnp.isfinite(gain), gain, 0) + grown / 2
        error = ESTIMATED * relative + ASKED * growth.rtol
        return log_speed, error, step.dt * (error + CURVED * curved**step.order)

    @override
    def overrun(self, t: Float[Array, ""]) -> Bool[Array, ""]:
        """No: steps whose errors are seen shrink before it."""
        return jnp.zeros((), bool)

    @override
    def is_unsure(self, memory: Growth) -> Bool[Array, ""]:
        """Whether a jump came so near to a blow-up that this may have been first."""
        return memory.is_unsure

    @override
    def when(self, memory: Growth) -> BlowUpTime:
        record = memory.record
        blur = memory.blur * disguise(record, memory.begin, memory.log_size)
        return blow_up_time(record, _time_error(blur, record.ts[-1]))


def _breaks(record: Record, step: Attempt) -> Bool[Array, ""]:
    """Whether growth may be why steps vanish, or are lost to overflow.

    Steps that vanish while growth accelerates resolve its time no further, and a law
    that is certain goes on where numbers end: if the field ahead says so, too.
    """
    stuck = step.vanished | step.lost
    return (step.vanished & accelerates(record)) | (stuck & certain(record))


def _where(condition: Array, yes: T, no: T) -> T:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _if(condition: Array, answer: Callable[[], T], otherwise: T) -> T:
    """The answer where the condition holds.

    A loop of one pass or none: side by side, `lax.cond` computes the answer of every
    member at every step, and this only while one of them asks.
    """

    def once(_: tuple[Array, T]) -> tuple[Array, T]:
        return jnp.zeros((), bool), answer()

    return jax.lax.while_loop(lambda state: state[0], once, (condition, otherwise))[1]


def _time_error(blur: Float[Array, ""], t: Float[Array, ""]) -> Float[Array, ""]:
    """How far steps shift a blow-up at about `t`.

    A relative error of one step shifts it by at most that share of the time that
    growth takes there, and the shifts add up.
    """
    return blur + ROUNDINGS * jnp.finfo(t.dtype).eps * jnp.abs(t)
