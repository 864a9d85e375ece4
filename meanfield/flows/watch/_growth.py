r"""Growth laws, which distinguish a finite-time blow-up from unbounded growth.

Near a blow-up the size grows like $u \sim c\,(t_* - t)^{-\gamma}$, so the time to grow
by a given factor shrinks in proportion to the time left, like $u^{-\kappa}$ with
$\kappa = 1/\gamma$. This time is constant under exponential growth, and increases under
algebraic growth; neither is a blow-up. The time $t_*$ of a blow-up follows from three
points of the record.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from meanfield._array import is_concrete

LENGTH = 16  # number of points in a record
MIN_POINTS = 12  # distinct points needed for a decision, the initial one included
SPACING = 0.25  # growth of the size, in e-folds, after which a point is added
SHRINKAGE = 0.7  # a point is also added when the step size has shrunk by this factor
BISECTIONS = 60  # halvings after which the exponent is exact up to rounding
EXPONENT_TOLERANCE = 0.2  # largest relative change of the exponent within a growth law
LAW_E_FOLDS = 4 * math.log(10)  # e-folds of size during which a law must hold
FALL = 3.0  # e-folds by which the time per e-fold must fall while a law holds
RESOLUTION = 128  # shortest time left that steps resolve, in rounding errors of `t`
ROUNDINGS = 32  # error of $t_*$ due to rounded fields, in rounding errors of the time


class Record(NamedTuple):
    """Times and sizes at spaced points, the newest last, and their growth law."""

    ts: Float[Array, " points"]
    log_sizes: Float[Array, " points"]
    dt: Float[Array, ""]  # length of the step that led to the newest point
    n_points: Int[Array, ""]
    kappa: Float[Array, ""]  # exponent $1/\gamma$ of the growth law
    law_log_size: Float[Array, ""]  # log-size from which the law has held


class BlowUpTime(NamedTuple):
    """Time of a finite-time blow-up and its error estimate.

    Examples:
        >>> from meanfield import Gaussian, attentions, flow
        >>> one = jnp.eye(1)
        >>> softmax, start = (
        ...     attentions["softmax"](one, one, one),
        ...     Gaussian(jnp.zeros(1), one),
        ... )
        >>> run = flow(softmax, start, [0.0, 1.0])
        >>> bool(abs(run.t_star - 1 / 2) <= run.t_star_error)
        True
    """

    t_star: Float[Array, ""]
    error: Float[Array, ""]

    @property
    def nan_form(self) -> "BlowUpTime":
        """The form for users: NaN in place of infinity if there is no blow-up.

        Concrete values are converted by NumPy, because a NaN computed on a device would
        raise under `jax_debug_nans`.
        """
        if is_concrete(self.t_star):
            host = [np.asarray(part) for part in self]
            is_finite = np.isfinite(host[0])
            parts = (
                np.where(is_finite, part, part.dtype.type(np.nan)) for part in host
            )
            return BlowUpTime(*map(jax.device_put, parts))
        is_finite = jnp.isfinite(self.t_star)
        return BlowUpTime(*(jnp.where(is_finite, part, jnp.nan) for part in self))

    @property
    def inf_form(self) -> "BlowUpTime":
        """The form used inside `jit`: infinity and a zero error instead of NaN."""
        missing = jnp.isnan(jnp.asarray(self.t_star))
        time = jnp.where(missing, jnp.inf, self.t_star)
        return BlowUpTime(time, jnp.where(missing, 0.0, self.error))


def empty_record(t0: Float[Array, ""], log_size: Float[Array, ""]) -> Record:
    """A record that holds only the start."""
    ts, logs = jnp.full(LENGTH, t0), jnp.full(LENGTH, log_size)
    zero = jnp.zeros_like(log_size)
    return Record(
        ts, logs, jnp.full_like(t0, jnp.inf), jnp.asarray(1), zero, zero + log_size
    )


def push(
    record: Record,
    t: Float[Array, ""],
    log_size: Float[Array, ""],
    dt: Float[Array, ""],
) -> Record:
    """The record after a step, with a new point if it is far enough from the last."""
    has_changed = jnp.abs(log_size - record.log_sizes[-1]) >= SPACING
    enters = has_changed | (dt <= SHRINKAGE * record.dt)
    longer = record._replace(
        ts=jnp.append(record.ts[1:], t),
        log_sizes=jnp.append(record.log_sizes[1:], log_size),
        dt=dt,
        n_points=jnp.minimum(record.n_points + 1, LENGTH),
    )
    longer = _update_law(longer)
    return jax.tree.map(lambda a, b: jnp.where(enters, a, b), longer, record)


def _update_law(record: Record) -> Record:
    """The record with a new growth law if the exponent has changed."""
    kappa = _halves(record).kappa
    is_same_law = jnp.abs(kappa - record.kappa) <= EXPONENT_TOLERANCE * record.kappa
    return record._replace(
        kappa=jnp.where(is_same_law, record.kappa, kappa),
        law_log_size=jnp.where(is_same_law, record.law_log_size, record.log_sizes[0]),
    )


class _Halves(NamedTuple):
    """Growth and duration of both halves of a record, and the exponent of its law."""

    log_growths: tuple[Array, Array]  # growth of the log-size in each half
    durations: tuple[Array, Array]  # duration of each half
    kappa: Array  # exponent of the growth law; zero if either half does not grow


def _halves(record: Record) -> _Halves:
    r"""Halves of a record; $\kappa$ is the fall of $\log(dt/d\log u)$ per e-fold."""
    ts, logs = record.ts, record.log_sizes
    middle = LENGTH // 2
    log_growths = logs[middle] - logs[0], logs[-1] - logs[middle]
    durations = ts[middle] - ts[0], ts[-1] - ts[middle]
    grows = (
        (log_growths[0] > 0)
        & (log_growths[1] > 0)
        & (durations[0] > 0)
        & (durations[1] > 0)
    )
    older, newer = (
        jnp.where(grows, time / jnp.where(grows, size, 1), 1)
        for time, size in zip(durations, log_growths, strict=True)
    )
    distance = jnp.where(grows, (log_growths[0] + log_growths[1]) / 2, 1)
    return _Halves(log_growths, durations, jnp.log(older / newer) / distance)


def _time_left(halves: _Halves) -> Float[Array, ""]:
    """Time from the newest point to the blow-up; infinite without acceleration."""
    faster = halves.kappa > 0
    stretch = jnp.expm1(jnp.where(faster, halves.kappa * halves.log_growths[1], 1))
    return jnp.where(faster, halves.durations[1] / stretch, jnp.inf)


def is_accelerating(record: Record) -> Bool[Array, ""]:
    r"""Whether growth accelerates as it does before a blow-up.

    The time per e-fold must be lower in the newer half than three quarters of its value
    in the older half. This detects exponents $\gamma$ up to 7.
    """
    halves = _halves(record)
    (older, newer), (time_older, time_newer) = halves.log_growths, halves.durations
    faster = time_newer * older < 0.75 * time_older * newer
    return (record.n_points >= MIN_POINTS) & (older > 0) & (newer > 0) & faster


def is_certain(record: Record) -> Bool[Array, ""]:
    r"""Whether one power law has held for long enough to be certain.

    Under the law, the size must have grown by four decades, and the time per e-fold
    must have fallen by three e-folds. Under doubly exponential growth this time falls
    like the inverse of the log-size, so its exponent changes by a fifth as soon as the
    time has fallen by a fifth of an e-fold.
    """
    log_growth = record.log_sizes[-1] - record.law_log_size
    fall = record.kappa * log_growth
    return (record.n_points == LENGTH) & (log_growth >= LAW_E_FOLDS) & (fall >= FALL)


def is_blow_up(record: Record, t0: Float[Array, ""]) -> Bool[Array, ""]:
    r"""Whether the record alone shows an imminent finite-time blow-up.

    The growth law must be certain, and the time left by this law negligible: at most
    $\epsilon^{0.4}$ of the time since `t0`.
    """
    return is_certain(record) & _is_imminent(record, t0)


def is_exhausted(
    record: Record, t0: Float[Array, ""], error: Float[Array, ""]
) -> Bool[Array, ""]:
    """Whether growth accelerates, and more steps would not improve the estimated time.

    The time left must be negligible and below the `error` of the time, or too short for
    steps to resolve.
    """
    time_left, t = _time_left(_halves(record)), record.ts[-1]
    is_rounding = time_left <= RESOLUTION * jnp.finfo(t.dtype).eps * jnp.abs(t)
    is_within_error = (time_left <= error) & _is_imminent(record, t0)
    return is_accelerating(record) & (is_within_error | is_rounding)


def _is_imminent(record: Record, t0: Float[Array, ""]) -> Bool[Array, ""]:
    time_left, t = _time_left(_halves(record)), record.ts[-1]
    return time_left <= jnp.finfo(t.dtype).eps ** 0.4 * (t - t0)


def time_to_grow(record: Record, log_growth: Float[Array, ""]) -> Float[Array, ""]:
    """Time in which the log-size will grow by `log_growth` under the growth law."""
    halves = _halves(record)
    return -_time_left(halves) * jnp.expm1(-halves.kappa * log_growth)


def is_law_continued(
    record: Record, log_growth: Float[Array, ""], rate_gain: Float[Array, ""]
) -> Bool[Array, ""]:
    """Whether the growth law of the record still holds at an extrapolated state.

    Args:
        record: the growth so far.
        log_growth: e-folds of size from the newest point to that state.
        rate_gain: e-folds by which the growth rate is higher at that state; NaN, from
            an overflow, counts as high enough.
    """
    required_gain = (1 - EXPONENT_TOLERANCE) * _halves(record).kappa * log_growth
    return (log_growth > 0) & ~(rate_gain < required_gain)


def error_amplification(
    record: Record, t0: Float[Array, ""], log_size0: Float[Array, ""]
) -> Float[Array, ""]:
    """Ratio of the size at `t0` to the part of it that blows up; at least 1.

    The growth law, extrapolated back to `t0`, gives that part. Errors of steps are
    relative to the whole size, so the error of the blow-up time is larger by this
    factor.
    """
    halves = _halves(record)
    time_left, duration = _time_left(halves), record.ts[-1] - t0
    faster = (halves.kappa > 0) & jnp.isfinite(time_left) & (time_left > 0)
    kappa, time_left = (
        jnp.where(faster, part, 1) for part in (halves.kappa, time_left)
    )
    log_growth = jnp.log1p(duration / time_left) / kappa
    excess = log_size0 - (record.log_sizes[-1] - log_growth)
    return jnp.where(faster, jnp.exp(jnp.maximum(excess, 0)), 1)


def time_error(time_shift: Float[Array, ""], t: Float[Array, ""]) -> Float[Array, ""]:
    """Error of a blow-up time near `t`, from errors of steps and rounding of the time.

    `time_shift` is the largest shift of the time that errors of all steps can cause.
    """
    return time_shift + ROUNDINGS * jnp.finfo(t.dtype).eps * jnp.abs(t)


def blow_up_time(record: Record, drift: Float[Array, ""]) -> BlowUpTime:
    r"""Blow-up time $t_*$ from the growth law of the record, with an error estimate.

    $t_*$ follows from three points of the newer half. Its error estimate is
    the difference from a second value, which follows from three points of the whole
    record, plus `drift`, the possible shift of $t_*$ due to integration errors.
    """
    middle, newest = LENGTH // 2, LENGTH - 1
    indices = jnp.array([[0, middle, newest], [middle, (3 * LENGTH) // 4, newest]])
    whole, newer = jax.vmap(_three_points)(
        record.ts[indices], record.log_sizes[indices]
    )
    return BlowUpTime(newer, jnp.abs(newer - whole) + drift)


def _three_points(t: Float[Array, "3"], logs: Float[Array, "3"]) -> Float[Array, ""]:
    r"""The $t_*$ for which the law $t_* - t = c\,u^{-1/\gamma}$ fits three points.

    With log-size increments `a`, `b` and $\kappa = 1/\gamma$ the ratio of the two time
    increments is $e^{-\kappa a} (1 - e^{-\kappa b})/(1 - e^{-\kappa a})$, which
    decreases in $\kappa$.
    """
    a, b = logs[1] - logs[0], logs[2] - logs[1]
    target = jnp.log((t[2] - t[1]) / (t[1] - t[0]))

    def excess(log_kappa: Array) -> Array:
        k = jnp.exp(log_kappa)
        ratio = jnp.log(-jnp.expm1(-k * b)) - jnp.log(-jnp.expm1(-k * a)) - k * a
        return ratio - target

    def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = (low + high) / 2
        is_above = excess(middle) > 0
        return jnp.where(is_above, middle, low), jnp.where(is_above, high, middle)

    wide = jnp.asarray(12.0, t.dtype)  # the exponent lies between 1e-5 and 1e5
    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (-wide, wide))
    return t[2] + (t[2] - t[1]) / jnp.expm1(jnp.exp((low + high) / 2) * b)
