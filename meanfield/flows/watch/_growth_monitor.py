"""The growth of the size in adaptive steps, and where it shows a blow-up."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield.dynamics import AbstractDynamics
from meanfield.measures import AbstractMeasure

from ._detector import UNJUDGED, AbstractDetector, Attempt, where
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
)

# The error of an embedded pair is below its estimate, except where the estimate changes
# sign and is small by chance. A bound then follows from the curvature of the growth and
# the order of the method. The factors were chosen on a thousand blow-ups of known time,
# with tsit5, dopri8 and kvaerno5, at tolerances from 1e-3 to 1e-11.
ESTIMATE_FACTOR = 2.0
CURVATURE_FACTOR = 2e-3
# Smallest error that is assumed for a step, relative to `rtol`. Implicit stages are
# solved only approximately.
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
    time_shift: Float[Array, ""]  # largest shift of t_star due to errors of steps
    error: Float[Array, ""]  # sum of the errors of all steps, relative to the size
    increment: PyTree[Array]  # change of the state in the last step
    is_near: Bool[Array, ""]  # whether growth alone shows a blow-up after the last step
    is_law_continued: Bool[Array, ""]  # the last answer of a `GrowthDetector`
    is_unsure: Bool[Array, ""]  # whether a jump fell within the error bar of t_star


class AbstractGrowthDetector(AbstractDetector[Growth]):
    """A detector that keeps a record of the growth of the size, step by step.

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
        law = record, rtol, log_speed, *shifts, increment, false, false, false
        return Growth(self.run_start, t0, log_size, *law)

    def observe(self, memory: Growth, step: Attempt) -> tuple[Growth, Bool[Array, ""]]:
        """The memory after a step, and whether the field must be evaluated far ahead.

        It must if growth alone shows a blow-up, and before a certain growth law reaches
        sizes at which the next extrapolated state might overflow.
        """
        growth = where(step.keep, self._record_step(memory, step), memory)
        record, run_start = growth.record, growth.run_start
        is_near = is_blow_up(record, run_start)
        error = time_error(growth.time_shift, step.t)
        is_near |= is_exhausted(record, run_start, error)
        is_near = (step.keep & is_near) | _is_break(record, step)
        is_large = self.headroom(step.y) <= 2 * OVERFLOW_MARGIN
        asks = is_near | (step.keep & is_certain(record) & is_large)
        return growth._replace(is_near=is_near), asks

    def headroom(self, y: PyTree[Array]) -> Array:
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


class GrowthMonitor(AbstractGrowthDetector):
    """Ends a flow where a `GrowthDetector` would evaluate the field far ahead.

    Most flows never get there, and without that field their program is much shorter.
    The memory says whether growth alone showed a blow-up.
    """

    @property
    @override
    def ending(self) -> int:
        return UNJUDGED

    @override
    def update(self, memory: Growth, step: Attempt) -> tuple[Growth, Bool[Array, ""]]:
        return self.observe(memory, step)


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
