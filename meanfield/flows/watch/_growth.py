r"""Finite-time blow-up, told from unbounded growth by its growth law.

Near a blow-up a size grows like $u \sim c\,(t_* - t)^{-\gamma}$, so the time to grow by
a factor shrinks to zero in proportion to what is left of the time, like $u^{-\kappa}$
with $\kappa = 1/\gamma$; under exponential growth it stays constant, under algebraic
growth it rises. Only the first is a blow-up, and only the first has a $t_*$, which
follows from three points of the record.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from meanfield._array import is_concrete

LENGTH = 16  # points on record,
ENOUGH = 12  # so many distinct ones for a verdict: the oldest may be the start
SPACING = 0.25  # e-folds of size between them,
SHRINKAGE = 0.7  # or this factor of the step size, whichever comes first
BISECTIONS = 60  # halves the bracket of the exponent to below rounding
SAME = 0.2  # relative change up to which two exponents are of one law
SIZES = 4 * math.log(10)  # e-folds of size through which a law must have held
FALL = 3.0  # e-folds by which the time per e-fold must have fallen meanwhile
RESOLUTION = 128  # roundings of the time: what is left then takes steps of a few


class Record(NamedTuple):
    """Spaced points of the past, newest last, and since when they follow one law."""

    ts: Float[Array, " points"]
    log_sizes: Float[Array, " points"]
    dt: Float[Array, ""]  # the step that led to the newest
    held: Int[Array, ""]
    kappa: Float[Array, ""]  # $1/\gamma$ of the law,
    since: Float[Array, ""]  # and the log-size from which it has held


class BlowUpTime(NamedTuple):
    """When the size is infinite, and how sure that is; NaN without evidence.

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
    def or_missing(self) -> "BlowUpTime":
        """The time as people read it: NaN in place of infinity.

        Outside of programs NumPy puts it there, so that none is computed on a device,
        where `jax_debug_nans` would stop it.
        """
        if is_concrete(self.t_star):
            host = [np.asarray(part) for part in self]
            there = np.isfinite(host[0])
            parts = (np.where(there, part, part.dtype.type(np.nan)) for part in host)
            return BlowUpTime(*map(jax.device_put, parts))
        there = jnp.isfinite(self.t_star)
        return BlowUpTime(*(jnp.where(there, part, jnp.nan) for part in self))

    @property
    def or_never(self) -> "BlowUpTime":
        """The reverse of `or_missing`: infinity, and no error, in place of NaN."""
        missing = jnp.isnan(jnp.asarray(self.t_star))
        time = jnp.where(missing, jnp.inf, self.t_star)
        return BlowUpTime(time, jnp.where(missing, 0.0, self.error))


def empty_record(t0: Float[Array, ""], log_size: Float[Array, ""]) -> Record:
    """A record that holds the start."""
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
    """The record after a step, which enters if it is far enough from the newest."""
    changed = jnp.abs(log_size - record.log_sizes[-1]) >= SPACING
    enters = changed | (dt <= SHRINKAGE * record.dt)
    longer = record._replace(
        ts=jnp.append(record.ts[1:], t),
        log_sizes=jnp.append(record.log_sizes[1:], log_size),
        dt=dt,
        held=jnp.minimum(record.held + 1, LENGTH),
    )
    longer = _under_its_law(longer)
    return jax.tree.map(lambda a, b: jnp.where(enters, a, b), longer, record)


def _under_its_law(record: Record) -> Record:
    """The record with its law, which is a new one if the exponent has changed."""
    kappa = _halves(record).kappa
    same = jnp.abs(kappa - record.kappa) <= SAME * record.kappa
    return record._replace(
        kappa=jnp.where(same, record.kappa, kappa),
        since=jnp.where(same, record.since, record.log_sizes[0]),
    )


class _Halves(NamedTuple):
    """The older and the newer half of a record, and the power law through both."""

    grown: tuple[Array, Array]  # log-size
    spent: tuple[Array, Array]  # time
    kappa: Array  # zero where either half does not grow


def _halves(record: Record) -> _Halves:
    r"""Under a power law $\kappa$ is the fall of $\log(dt/d\log u)$ per e-fold."""
    ts, logs = record.ts, record.log_sizes
    middle = LENGTH // 2
    grown = logs[middle] - logs[0], logs[-1] - logs[middle]
    spent = ts[middle] - ts[0], ts[-1] - ts[middle]
    grows = (grown[0] > 0) & (grown[1] > 0) & (spent[0] > 0) & (spent[1] > 0)
    older, newer = (
        jnp.where(grows, time / jnp.where(grows, size, 1), 1)
        for time, size in zip(spent, grown, strict=True)
    )
    between = jnp.where(grows, (grown[0] + grown[1]) / 2, 1)
    return _Halves(grown, spent, jnp.log(older / newer) / between)


def _time_left(halves: _Halves) -> Float[Array, ""]:
    """The time from the newest point to the blow-up; infinite without acceleration."""
    faster = halves.kappa > 0
    stretch = jnp.expm1(jnp.where(faster, halves.kappa * halves.grown[1], 1))
    return jnp.where(faster, halves.spent[1] / stretch, jnp.inf)


def accelerates(record: Record) -> Bool[Array, ""]:
    """Whether growth over the record gains speed like that towards a finite time.

    The time per e-fold over the newer half is at most three quarters of that over the
    older half: exponents up to 7.
    """
    halves = _halves(record)
    (older, newer), (time_older, time_newer) = halves.grown, halves.spent
    faster = time_newer * older < 0.75 * time_older * newer
    return (record.held >= ENOUGH) & (older > 0) & (newer > 0) & faster


def certain(record: Record) -> Bool[Array, ""]:
    r"""Whether one power law has held for long enough to be believed, at any exponent.

    The size grew by four decades under it, and the time per e-fold fell by three
    e-folds meanwhile. Doubly exponential growth, whose time per e-fold falls like one
    over the e-folds, keeps one exponent to a fifth for a fifth of an e-fold of that.
    """
    grown = record.log_sizes[-1] - record.since
    fallen = record.kappa * grown
    return (record.held == LENGTH) & (grown >= SIZES) & (fallen >= FALL)


def blows_up(record: Record, t0: Float[Array, ""]) -> Bool[Array, ""]:
    r"""Whether the record alone shows a finite-time blow-up, about to happen.

    Its law is certain, and leaves a time that is negligible beside the time elapsed
    since `t0`: $\epsilon^{0.4}$ of it.
    """
    return certain(record) & _soon(record, t0)


def exhausted(
    record: Record, t0: Float[Array, ""], error: Float[Array, ""]
) -> Bool[Array, ""]:
    """Whether growth accelerates, and later steps would not teach its time.

    What is left is negligible and within the `error` of the time, or a few roundings
    of it.
    """
    left, t = _time_left(_halves(record)), record.ts[-1]
    spent = left <= RESOLUTION * jnp.finfo(t.dtype).eps * jnp.abs(t)
    within = (left <= error) & _soon(record, t0)
    return accelerates(record) & (within | spent)


def _soon(record: Record, t0: Float[Array, ""]) -> Bool[Array, ""]:
    left, t = _time_left(_halves(record)), record.ts[-1]
    return left <= jnp.finfo(t.dtype).eps ** 0.4 * (t - t0)


def time_to_grow(record: Record, grown: Float[Array, ""]) -> Float[Array, ""]:
    """The time that so many e-folds of size will take by the law of the record."""
    halves = _halves(record)
    return -_time_left(halves) * jnp.expm1(-halves.kappa * grown)


def goes_on(
    record: Record, grown: Float[Array, ""], gained: Float[Array, ""]
) -> Bool[Array, ""]:
    """Whether the law of the record holds at a state ahead.

    Args:
        record: the growth so far.
        grown: e-folds of size from here to that state.
        gained: e-folds by which the rate of growth is higher there. Where it is beyond
            all numbers it is no number, and high enough.
    """
    needed = (1 - SAME) * _halves(record).kappa * grown
    return (grown > 0) & ~(gained < needed)


def disguise(
    record: Record, t0: Float[Array, ""], log_size0: Float[Array, ""]
) -> Float[Array, ""]:
    """The size at `t0` over the part of it that was to escape; at least 1.

    That part is what the growth law gives when it is followed back to `t0`. Errors of
    steps are relative to the whole size, so that of the time is so many times larger.
    """
    halves = _halves(record)
    left, elapsed = _time_left(halves), record.ts[-1] - t0
    faster = (halves.kappa > 0) & jnp.isfinite(left) & (left > 0)
    kappa, left = (jnp.where(faster, part, 1) for part in (halves.kappa, left))
    grown = jnp.log1p(elapsed / left) / kappa
    excess = log_size0 - (record.log_sizes[-1] - grown)
    return jnp.where(faster, jnp.exp(jnp.maximum(excess, 0)), 1)


def blow_up_time(record: Record, drift: Float[Array, ""]) -> BlowUpTime:
    r"""$t_*$ from the growth law through the record.

    Two estimates, from three points of the whole record and of its newer half; the
    error is their difference plus `drift`, the shift that integration errors allow.
    """
    middle, newest = LENGTH // 2, LENGTH - 1
    at = jnp.array([[0, middle, newest], [middle, (3 * LENGTH) // 4, newest]])
    whole, newer = jax.vmap(_three_points)(record.ts[at], record.log_sizes[at])
    return BlowUpTime(newer, jnp.abs(newer - whole) + drift)


def _three_points(t: Float[Array, "3"], logs: Float[Array, "3"]) -> Float[Array, ""]:
    r"""$t_*$ such that $t_* - t = c\,u^{-1/\gamma}$ through three points.

    With log-size increments `a`, `b` and $\kappa = 1/\gamma$ the ratio of the two time
    increments is $e^{-\kappa a} (1 - e^{-\kappa b})/(1 - e^{-\kappa a})$, decreasing.
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
        above = excess(middle) > 0
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    wide = jnp.asarray(12.0, t.dtype)  # exponents from 1e-5 to 1e5
    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (-wide, wide))
    return t[2] + (t[2] - t[1]) / jnp.expm1(jnp.exp((low + high) / 2) * b)
