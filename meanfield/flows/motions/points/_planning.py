"""How many Chebyshev nodes the sums of a flow need, chosen before it and watched.

A plan is accepted on what an eighth fewer nodes change at all tokens, and on what it
misses where that is most, cell by cell, where sums are taken exactly; never on
coefficients. It is a function of the state at the start alone: a run that goes on from
a stored frame plans as it would have.
"""

import functools
import math
from collections.abc import Callable
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
from meanfield.flows._compiled import compiled
from meanfield.measures import (
    Chebyshev,
    Interpolated,
    Points,
    Revealing,
    coarsely,
    exactly,
    suspects,
)

DIMENSIONS = 3  # beyond, nodes are too many
RUNGS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
SAMPLE = 20_000  # tokens that nodes are tried on before all
FLOPS, PAIRS = 4e10, 3e9  # per second, on two cores: products, and pairs of tokens
WORTH = 0.8  # of the time of exact sums that interpolation may take
SEEN = 2  # An error may be twice what is seen of it: the worst of 6 000 was 1.6 times.
MARGIN = 0.5  # of the tolerance that a plan may miss: tokens will move


def planned(dynamics: AbstractDynamics, mu: Points, t: Time) -> Points:
    """The tokens with as many Chebyshev nodes as hold its field to the tolerance.

    Exact sums take their place where they cost less, and where numbers are not known:
    inside a `jit` or under a derivative. Tokens without such a reduction, or with a
    plan, come back as they are.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.flows import planned
        >>> from meanfield.measures import Chebyshev
        >>> x = jax.random.normal(jax.random.key(0), (20_000, 1))
        >>> mu = Points.uniform(x, reduction=Chebyshev(1e-6))
        >>> softmax = attentions["softmax"]([[1.0]], [[1.0]], [[1.0]])
        >>> plan = planned(softmax, mu, 0.0).reduction
        >>> mu.reduction.counts is None, 8 < plan.counts[0] < 64
        (True, True)
    """
    if not isinstance(mu.reduction, Chebyshev) or mu.reduction.counts is not None:
        return mu
    known = all(is_concrete(leaf) for leaf in jax.tree.leaves((dynamics, mu)))
    if not (known and interpolates(dynamics, mu, t)):
        return exactly(mu)
    n, d = mu.tokens.x.shape
    few = _Search(_changed, dynamics, t, _sampled(mu), n)
    counts = few.enough((RUNGS[0],) * d)
    if counts is not None:
        counts = _Search(_missed, dynamics, t, mu, n).enough(few.narrowed(counts))
    return exactly(mu) if counts is None else _with(mu, counts)


def interpolates(dynamics: AbstractDynamics, mu: Points, t: Time) -> bool:
    """Whether nodes may be worth it for a field, by its shapes alone.

    They do nothing for sums of links, and for those along slices.

    Args:
        dynamics: gives the field.
        mu: tokens that ask for nodes.
        t: the time.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.flows import interpolates
        >>> from meanfield.measures.reductions import Chebyshev
        >>> one, many = jnp.eye(1), jnp.zeros((100_000, 1))
        >>> nodes = Points.uniform(many, reduction=Chebyshev())
        >>> softmax, sliced = (attentions[k](one, one, one) for k in ("softmax", "esp"))
        >>> interpolates(softmax, nodes, 0.0), interpolates(sliced, nodes, 0.0)
        (True, False)
    """
    assert isinstance(mu.reduction, Chebyshev)
    n, d = mu.tokens.x.shape
    counts = (RUNGS[0],) * d
    if d > DIMENSIONS or not affordable(n, counts):
        return False
    sums = Revealing(mu.reduction.tolerance, counts, mu.reduction.otherwise)
    field = lambda tokens, logs: dynamics.field(
        jnp.asarray(t), Points(tokens, logs, sums)
    )(tokens)
    try:
        eqx.filter_eval_shape(field, mu.tokens, mu.log_weights)
    except Interpolated:
        return True
    return False


def unplanned(mu: Points) -> Points:
    """Tokens before they were planned: what moves is to be looked at anew."""
    return _with(mu, None) if isinstance(mu.reduction, Chebyshev) else mu


def roomier(mu: Points) -> Points | None:
    """Planned tokens with more nodes, or exact sums instead of too many.

    `None` if nothing is interpolated.
    """
    if not isinstance(mu.reduction, Chebyshev) or mu.reduction.counts is None:
        return None
    more = _grown(mu.reduction.counts, 1.0)
    fits = more is not None and affordable(mu.tokens.n, more)
    return _with(mu, more) if more is not None and fits else exactly(mu)


def interpolation_error(
    freeze: Callable[[Points], AbstractField], mu: Points, field: AbstractField
) -> Convergence | None:
    """What the field of planned tokens misses; `None` if sums are exact.

    At all tokens it is compared with that of fewer nodes, which misses more; where they
    differ most, cell by cell, with exact sums.

    Args:
        freeze: gives the field of tokens.
        mu: the tokens.
        field: their field.
    """
    if not isinstance(mu.reduction, Chebyshev) or mu.reduction.counts is None:
        return None
    velocities = field(mu.tokens)
    gaps = _gaps(freeze, mu, velocities)
    probes = suspects(mu.tokens.x, gaps)
    exact = exactly(field)(jax.tree.map(lambda leaf: leaf[probes], mu.tokens))
    missed = jnp.maximum(jnp.max(gaps), jnp.max(jnp.abs(velocities[probes] - exact)))
    return _over_largest(SEEN * missed, velocities, mu.reduction)


def _gaps(
    freeze: Callable[[Points], AbstractField], mu: Points, velocities: Array
) -> Float[Array, " n"]:
    """What fewer nodes change about each token's velocity."""
    changes = velocities - freeze(coarsely(mu))(mu.tokens)
    return jnp.max(jnp.abs(changes), axis=1)


def _over_largest(error: Array, velocities: Array, how: Chebyshev) -> Convergence:
    scale = jnp.max(jnp.abs(velocities))
    relative = jnp.where(scale > 0, error / scale, error)
    return Convergence(relative, jnp.asarray(how.tolerance, error.dtype))


def affordable(n: int, counts: tuple[int, ...]) -> bool:
    """Whether interpolating the field of `n` tokens is worth its nodes."""
    products = 2 * (2 * len(counts) + 1) * math.prod(counts) / FLOPS
    return products + 8 * sum(counts) / PAIRS < WORTH * n / PAIRS


class _Search(NamedTuple):
    """Trials on a measure, for a flow of `n` tokens; `trial` gives errors."""

    trial: Callable[[AbstractDynamics, Points, Time], Float[Array, ""]]
    dynamics: AbstractDynamics
    t: Time
    mu: Points
    n: int

    def error(self, counts: tuple[int, ...]) -> float:
        """What so many nodes miss, over what they may."""
        return float(self.trial(self.dynamics, _with(self.mu, counts), self.t)) / MARGIN

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
def _changed(dynamics: AbstractDynamics, mu: Points, t: Time) -> Float[Array, ""]:
    """What fewer nodes change about a field, over its tolerance."""
    assert isinstance(mu.reduction, Chebyshev)
    freeze = functools.partial(dynamics.field, jnp.asarray(t))
    velocities = freeze(mu)(mu.tokens)
    changed = jnp.max(_gaps(freeze, mu, velocities))
    return _over(_over_largest(SEEN * changed, velocities, mu.reduction))


@compiled
def _missed(dynamics: AbstractDynamics, mu: Points, t: Time) -> Float[Array, ""]:
    """The error of a field over its tolerance; infinite if it is unconverged."""
    freeze = functools.partial(dynamics.field, jnp.asarray(t))
    field = freeze(mu)
    found = interpolation_error(freeze, mu, field)
    assert found is not None
    worst = _over(found)
    if field.convergence is not None:
        missed = field.convergence.residual > field.convergence.tolerance
        worst = jnp.where(missed, jnp.inf, worst)
    return worst


def _over(error: Convergence) -> Float[Array, ""]:
    """An error over its tolerance; infinite if it is not a number."""
    return jnp.nan_to_num(error.residual / error.tolerance, nan=jnp.inf)


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
    reduction = Chebyshev(own.tolerance, counts, own.otherwise)
    return Points(mu.tokens, mu.log_weights, reduction)


def _sampled(mu: Points) -> Points:
    """At most `SAMPLE` tokens: the farthest out, and some that stand for the rest."""
    if mu.tokens.n <= SAMPLE:
        return mu
    far, even = _farthest_and_even(mu, SAMPLE)
    kept = np.concatenate([far, even])
    shares = np.ones(len(kept))
    shares[len(far) :] = (mu.tokens.n - len(far)) / len(even)
    tokens, logs = jax.tree.map(lambda leaf: leaf[kept], (mu.tokens, mu.log_weights))
    logs = logs + jnp.asarray(np.log(shares), logs.dtype)
    return Points(tokens, logs, mu.reduction)


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
