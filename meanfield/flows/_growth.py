r"""Finite-time blow-up, told from unbounded growth by its growth law.

Near a blow-up a size grows like $u \sim c\,(t_* - t)^{-\gamma}$, so the time to grow by
a factor shrinks to zero in proportion to what is left of the time; under exponential
growth it stays constant, under algebraic growth it rises. Only the first is a blow-up,
and only the first has a $t_*$, which follows from three points of the record.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

LENGTH = 16  # points on record
SPACING = 0.25  # e-folds of size between them,
SHRINKAGE = 0.7  # or this factor of the step size, whichever comes first
BISECTIONS = 60  # halves the bracket of the exponent to below rounding


class Record(NamedTuple):
    """Spaced points of the past: times and log-sizes, newest last."""

    ts: Float[Array, " points"]
    log_sizes: Float[Array, " points"]
    dt: Float[Array, ""]  # the step that led to the newest
    held: Int[Array, ""]


class BlowUpTime(NamedTuple):
    """When the size is infinite, and how sure that is; NaN without evidence."""

    t_star: Float[Array, ""]
    error: Float[Array, ""]


def empty_record(t0: Float[Array, ""], log_size: Float[Array, ""]) -> Record:
    """A record that holds the start."""
    ts, logs = jnp.full(LENGTH, t0), jnp.full(LENGTH, log_size)
    return Record(ts, logs, jnp.full_like(t0, jnp.inf), jnp.asarray(1))


def push(
    record: Record,
    t: Float[Array, ""],
    log_size: Float[Array, ""],
    dt: Float[Array, ""],
) -> Record:
    """The record after a step, which enters if it is far enough from the newest."""
    changed = jnp.abs(log_size - record.log_sizes[-1]) >= SPACING
    enters = changed | (dt <= SHRINKAGE * record.dt)
    longer = Record(
        jnp.append(record.ts[1:], t),
        jnp.append(record.log_sizes[1:], log_size),
        dt,
        jnp.minimum(record.held + 1, LENGTH),
    )
    return jax.tree.map(lambda a, b: jnp.where(enters, a, b), longer, record)


def accelerates(record: Record) -> Bool[Array, ""]:
    """Whether growth over the record gains speed like that towards a finite time.

    The time per e-fold over the newer half is at most three quarters of that over the
    older half: exponents up to 7.
    """
    ts, logs = record.ts, record.log_sizes
    middle = LENGTH // 2
    older, newer = logs[middle] - logs[0], logs[-1] - logs[middle]
    time_older, time_newer = ts[middle] - ts[0], ts[-1] - ts[middle]
    faster = time_newer * older < 0.75 * time_older * newer
    return (record.held == LENGTH) & (older > 0) & (newer > 0) & faster


def blows_up(record: Record, t0: Float[Array, ""]) -> Bool[Array, ""]:
    r"""Whether the record shows a finite-time blow-up, about to happen.

    Growth accelerates, and the time per e-fold over the newer half is negligible beside
    the time elapsed since `t0`: $\epsilon^{0.4}$ of it. Exponential and even doubly
    exponential growth overflow long before.
    """
    ts, logs = record.ts, record.log_sizes
    middle = LENGTH // 2
    negligible = jnp.finfo(ts.dtype).eps ** 0.4 * (ts[-1] - t0)
    soon = ts[-1] - ts[middle] < (logs[-1] - logs[middle]) * negligible
    return accelerates(record) & soon


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
