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
from jaxtyping import Array, Float
from typing_extensions import override

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
    some_of,
    suspects,
)
from meanfield.measures.reductions.cells import PAIRS

from ._planner import SEEN, Planner, over_largest

DIMENSIONS = 3  # beyond, nodes are too many
RUNGS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
SAMPLE = 20_000  # tokens that nodes are tried on before all
FLOPS = 4e10  # a second, on two cores
WORTH = 0.8  # of the time of exact sums that interpolation may take
MARGIN = 0.5  # of the tolerance that a plan may miss: tokens will move


class NodePlanner(Planner[Chebyshev]):
    """Nodes of one box around all tokens, tried on some of them and then on all."""

    @override
    def may(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> bool:
        """They do nothing for sums of links, and for those along slices."""
        n, d = mu.tokens.x.shape
        counts = (RUNGS[0],) * d
        if d > DIMENSIONS or not affordable(n, counts):
            return False
        field = lambda tokens, logs: dynamics.field(
            jnp.asarray(t), Points(tokens, logs, Revealing(counts=counts))
        )(tokens)
        try:
            eqx.filter_eval_shape(field, mu.tokens, mu.log_weights)
        except Interpolated:
            return True
        return False

    @override
    def plan(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> Chebyshev | None:
        n, d = mu.tokens.x.shape
        few = _Search(_changed, dynamics, t, some_of(mu, SAMPLE, far=2), n)
        counts = few.enough((RUNGS[0],) * d)
        if counts is not None:
            counts = _Search(_missed, dynamics, t, mu, n).enough(few.narrowed(counts))
        return None if counts is None else _with(mu, counts)

    @override
    def roomier(
        self, dynamics: AbstractDynamics, mu: Points, t: Time
    ) -> Chebyshev | None:
        assert isinstance(mu.reduction, Chebyshev)
        assert mu.reduction.counts is not None
        more = _grown(mu.reduction.counts, 1.0)
        fits = more is not None and affordable(mu.tokens.n, more)
        return _with(mu, more) if more is not None and fits else None

    @override
    def missed(
        self,
        how: Chebyshev,
        freeze: Callable[[Points], AbstractField],
        mu: Points,
        field: AbstractField,
    ) -> Convergence:
        """At all tokens compared with the field of fewer nodes, which misses more.

        Where they differ most, cell by cell, with exact sums.
        """
        velocities = field(mu.tokens)
        gaps = _gaps(freeze, mu, velocities)
        probes = suspects(mu.tokens.x, gaps)
        exact = exactly(field)(jax.tree.map(lambda leaf: leaf[probes], mu.tokens))
        missed = jnp.max(jnp.abs(velocities[probes] - exact))
        missed = jnp.maximum(jnp.max(gaps), missed)
        return over_largest(SEEN * missed, velocities, how.tolerance)


def _gaps(
    freeze: Callable[[Points], AbstractField], mu: Points, velocities: Array
) -> Float[Array, " n"]:
    """What fewer nodes change about each token's velocity."""
    changes = velocities - freeze(coarsely(mu))(mu.tokens)
    return jnp.max(jnp.abs(changes), axis=1)


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
        mu = self.mu.summed(_with(self.mu, counts))
        return float(self.trial(self.dynamics, mu, self.t)) / MARGIN

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
    return _over(over_largest(SEEN * changed, velocities, mu.reduction.tolerance))


@compiled
def _missed(dynamics: AbstractDynamics, mu: Points, t: Time) -> Float[Array, ""]:
    """The error of a field over its tolerance; infinite if it is unconverged."""
    freeze = functools.partial(dynamics.field, jnp.asarray(t))
    field = freeze(mu)
    assert isinstance(mu.reduction, Chebyshev)
    worst = _over(NodePlanner().missed(mu.reduction, freeze, mu, field))
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


def _with(mu: Points, counts: tuple[int, ...]) -> Chebyshev:
    assert isinstance(mu.reduction, Chebyshev)
    return Chebyshev(mu.reduction.tolerance, mu.reduction.otherwise, counts)
