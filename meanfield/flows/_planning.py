"""How many Chebyshev nodes the sums of a flow need, chosen before it and watched.

A plan is accepted on what it misses at tokens far out and at random, where sums are
taken exactly, and never on coefficients. It is a function of the state at the start
alone: a run that goes on from a stored frame plans as it would have.
"""

import math
import re
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from meanfield._array import is_concrete
from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import AbstractMeasure, Chebyshev, Points, exactly

from ._compiled import compiled

DIMENSIONS = 3  # beyond, nodes are too many
RUNGS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
PROBES = 96  # half of them farthest out
SAMPLE = 20_000  # tokens that nodes are tried on before all
FLOPS, PAIRS = 4e10, 3e9  # per second, on two cores: products, and pairs of tokens
WORTH = 0.8  # of the time of exact sums that interpolation may take
MARGIN = 0.25  # of the tolerance that probes may show: between them it may be more
ADDRESS = re.compile(r"0x[0-9a-f]+")  # of functions, in a program's text


def planned(
    dynamics: AbstractDynamics, mu: AbstractMeasure, t: Time
) -> AbstractMeasure:
    """The measure with as many Chebyshev nodes as hold its field to the tolerance.

    Exact sums take their place where they cost less, and where numbers are not known:
    inside a `jit` or under a derivative. Measures without such a reduction, or with a
    plan, come back as they are.
    """
    if not isinstance(mu, Points) or not isinstance(mu.reduction, Chebyshev):
        return mu
    if mu.reduction.counts is not None:
        return mu
    known = all(is_concrete(leaf) for leaf in jax.tree.leaves((dynamics, mu)))
    n, d = mu.tokens.x.shape
    if not known or d > DIMENSIONS or not affordable(n, (RUNGS[0],) * d):
        return exactly(mu)
    few = _Search(dynamics, t, _sampled(mu), n)
    if not few.interpolates:
        return exactly(mu)
    counts = few.enough((RUNGS[0],) * d)
    if counts is not None and n > SAMPLE:
        counts = _Search(dynamics, t, _probed(mu), n).enough(few.narrowed(counts))
    elif counts is not None:
        counts = few.narrowed(counts)
    return exactly(mu) if counts is None else _with(_probed(mu), counts)


def unplanned(mu: AbstractMeasure) -> AbstractMeasure:
    """The measure before it was planned: what moves is to be looked at anew."""
    if not isinstance(mu, Points) or not isinstance(mu.reduction, Chebyshev):
        return mu
    own = mu.reduction
    reduction = Chebyshev(own.tolerance, otherwise=own.otherwise)
    return Points(mu.tokens, mu.log_weights, reduction)


def roomier(mu: AbstractMeasure) -> AbstractMeasure | None:
    """A planned measure with more nodes, or exact sums instead of too many.

    `None` if nothing is interpolated.
    """
    if not isinstance(mu, Points) or not isinstance(mu.reduction, Chebyshev):
        return None
    if mu.reduction.counts is None:
        return None
    more = _grown(mu.reduction.counts, 1.0)
    fits = more is not None and affordable(mu.tokens.n, more)
    return _with(mu, more) if more is not None and fits else exactly(mu)


def interpolation_error(
    field: AbstractField, mu: AbstractMeasure
) -> Convergence | None:
    """What a planned measure's field misses at its probes; `None` if sums are exact."""
    if not isinstance(mu, Points) or not isinstance(mu.reduction, Chebyshev):
        return None
    probes = mu.reduction.probes
    if mu.reduction.counts is None or probes is None:
        return None
    exact = exactly(field)(jax.tree.map(lambda leaf: leaf[probes], mu.tokens))
    missed = jnp.max(jnp.abs(field(mu.tokens)[probes] - exact))
    scale = jnp.max(jnp.abs(exact))
    error = jnp.where(scale > 0, missed / scale, missed)
    return Convergence(error, jnp.asarray(mu.reduction.tolerance, error.dtype))


def affordable(n: int, counts: tuple[int, ...]) -> bool:
    """Whether interpolating the field of `n` tokens is worth its nodes."""
    products = 2 * (2 * len(counts) + 1) * math.prod(counts) / FLOPS
    return products + 8 * sum(counts) / PAIRS < WORTH * n / PAIRS


class _Search(NamedTuple):
    """Trials on a measure with probes, for a flow of `n` tokens."""

    dynamics: AbstractDynamics
    t: Time
    mu: Points
    n: int

    @property
    def interpolates(self) -> bool:
        """Whether nodes change anything about the field; sums of links have none."""
        counts = (RUNGS[0],) * self.mu.tokens.x.shape[1]
        both = _with(self.mu, counts), _with(self.mu, None)
        field = lambda mu: self.dynamics.field(jnp.asarray(self.t), mu)(mu.tokens)
        programs = (str(eqx.filter_make_jaxpr(field)(mu)[0]) for mu in both)
        return len({ADDRESS.sub("", program) for program in programs}) > 1

    def error(self, counts: tuple[int, ...]) -> float:
        """What so many nodes miss, over what they may."""
        return float(_trial(self.dynamics, _with(self.mu, counts), self.t)) / MARGIN

    def enough(self, counts: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """The first counts, from these on, that do; `None` if none is worth it."""
        while counts is not None and affordable(self.n, counts):
            error = self.error(counts)
            if error <= 1:
                return counts
            counts = _grown(counts, _factor(error, self.mu))
        return None

    def narrowed(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """The same with fewer nodes along each axis, where those do."""
        for axis in range(len(counts)):
            for rung in reversed([r for r in RUNGS if r < counts[axis]]):
                fewer = (*counts[:axis], rung, *counts[axis + 1 :])
                if self.error(fewer) > 1:
                    break
                counts = fewer
        return counts


@compiled
def _trial(dynamics: AbstractDynamics, mu: Points, t: Time) -> Float[Array, ""]:
    """The error of a field over its tolerance; infinite if it is not a number."""
    field = dynamics.field(jnp.asarray(t), mu)
    found = interpolation_error(field, mu)
    assert found is not None
    worst = found.residual / found.tolerance
    if field.convergence is not None:
        missed = field.convergence.residual > field.convergence.tolerance
        worst = jnp.where(missed, jnp.inf, worst)
    return jnp.nan_to_num(worst, nan=jnp.inf)


def _factor(error: float, mu: Points) -> float:
    """How many times more nodes are needed, if errors fall geometrically."""
    assert isinstance(mu.reduction, Chebyshev)
    asked = math.log(mu.reduction.tolerance * MARGIN)
    reached = asked + math.log(error) if math.isfinite(error) else 0.0
    return min(asked / min(reached, math.log(0.5)), 2.0)


def _grown(counts: tuple[int, ...], factor: float) -> tuple[int, ...] | None:
    """The next rung above, at least `factor` times as many; `None` at the top."""
    found = [
        next((r for r in RUNGS if r > count and r >= 0.9 * factor * count), None)
        for count in counts
    ]
    grown = tuple(rung for rung in found if rung is not None)
    return grown if len(grown) == len(counts) else None


def _with(mu: Points, counts: tuple[int, ...] | None) -> Points:
    assert isinstance(mu.reduction, Chebyshev)
    own = mu.reduction
    reduction = Chebyshev(own.tolerance, counts, own.probes, own.otherwise)
    return Points(mu.tokens, mu.log_weights, reduction)


def _probed(mu: Points) -> Points:
    """The measure with the tokens to look at: the farthest out, and some evenly."""
    assert isinstance(mu.reduction, Chebyshev)
    probes = jnp.asarray(np.concatenate(_farthest_and_even(mu, PROBES)))
    own = mu.reduction
    reduction = Chebyshev(own.tolerance, own.counts, probes, own.otherwise)
    return Points(mu.tokens, mu.log_weights, reduction)


def _sampled(mu: Points) -> Points:
    """At most `SAMPLE` tokens: the farthest out, and some that stand for the rest."""
    if mu.tokens.n <= SAMPLE:
        return _probed(mu)
    far, even = _farthest_and_even(mu, SAMPLE)
    kept = np.concatenate([far, even])
    shares = np.ones(len(kept))
    shares[len(far) :] = (mu.tokens.n - len(far)) / len(even)
    tokens, logs = jax.tree.map(lambda leaf: leaf[kept], (mu.tokens, mu.log_weights))
    logs = logs + jnp.asarray(np.log(shares), logs.dtype)
    return _probed(Points(tokens, logs, mu.reduction))


def _farthest_and_even(
    mu: Points, count: int
) -> tuple[Int[np.ndarray, " f"], Int[np.ndarray, " e"]]:
    """Half of them the farthest from the mean, in standard deviations along axes."""
    x = np.asarray(mu.tokens.x)
    centred = x - np.mean(x, axis=0)
    along = centred @ np.linalg.eigh(centred.T @ centred)[1]
    spread = np.std(along, axis=0)
    radius = np.sum((along / np.where(spread > 0, spread, 1)) ** 2, axis=1)
    half = min(count // 2, len(x))
    far = np.argpartition(-radius, half - 1)[:half] if half else np.zeros(0, int)
    even = np.linspace(0, len(x) - 1, count - half).astype(int)
    return np.sort(far), np.setdiff1d(even, far)
