"""Plans of Chebyshev nodes for the sums of a flow, and their errors.

The error of a plan is estimated in two ways, and the larger estimate counts. One is how
much velocities change with an eighth fewer nodes. The other uses exact sums at one
token per cell, where this change is largest. Chebyshev coefficients are not used. A
plan depends only on the initial state, so a run that continues from a stored frame has
the same plan as an uninterrupted one.
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
from meanfield.flows._compilation import compile_function
from meanfield.measures import (
    Chebyshev,
    InterpolationDetector,
    InterpolationSignal,
    Points,
    coarsen,
    subsample,
    use_exact_sums,
    worst_tokens,
)
from meanfield.measures.reductions.cells import PAIRS

from ._planner import SAFETY_FACTOR, Planner, relative_convergence

DIMENSIONS = 3  # largest dimension; in higher ones there would be too many nodes
RUNGS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384)  # numbers of nodes along an axis
SAMPLE = 20_000  # number of tokens sampled in the first search for the number of nodes
FLOPS = 4e10  # floating-point operations per second on two cores
WORTH = 0.8  # interpolated sums may take at most this fraction of the exact sums' time
MARGIN = 0.5  # largest ratio of initial error to tolerance; errors grow as tokens move


class NodePlanner(Planner[Chebyshev]):
    """Plans nodes in one box around all tokens, first for a sample and then for all."""

    @override
    def is_applicable(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> bool:
        """Whether interpolation can save time; never for links or sums along slices."""
        n, d = mu.tokens.x.shape
        counts = (RUNGS[0],) * d
        if d > DIMENSIONS or not is_affordable(n, counts):
            return False
        field = lambda tokens, logs: dynamics.field(
            jnp.asarray(t), Points(tokens, logs, InterpolationDetector(counts=counts))
        )(tokens)
        try:
            eqx.filter_eval_shape(field, mu.tokens, mu.log_weights)
        except InterpolationSignal:
            return True
        return False

    @override
    def plan(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> Chebyshev | None:
        n, d = mu.tokens.x.shape
        sample_search = _Search(
            _coarsening_error, dynamics, t, subsample(mu, SAMPLE, far=2), n
        )
        counts = sample_search.find_counts((RUNGS[0],) * d)
        if counts is not None:
            counts = _Search(_field_error, dynamics, t, mu, n).find_counts(
                sample_search.reduce_counts(counts)
            )
        return None if counts is None else _chebyshev_plan(mu, counts)

    @override
    def enlarge(
        self, dynamics: AbstractDynamics, mu: Points, t: Time
    ) -> Chebyshev | None:
        assert isinstance(mu.reduction, Chebyshev)
        assert mu.reduction.counts is not None
        counts = _next_counts(mu.reduction.counts, 1.0)
        is_worthwhile = counts is not None and is_affordable(mu.tokens.n, counts)
        return (
            _chebyshev_plan(mu, counts)
            if counts is not None and is_worthwhile
            else None
        )

    @override
    def sum_convergence(
        self,
        reduction: Chebyshev,
        freeze: Callable[[Points], AbstractField],
        mu: Points,
        field: AbstractField,
    ) -> Convergence:
        """The error, estimated with fewer nodes and by exact sums at the worst tokens.

        The worst token of a cell is the one whose velocity changes most with fewer
        nodes.
        """
        velocities = field(mu.tokens)
        gaps = _gaps(freeze, mu, velocities)
        probes = worst_tokens(mu.tokens.x, gaps)
        exact = use_exact_sums(field)(
            jax.tree.map(lambda leaf: leaf[probes], mu.tokens)
        )
        error = jnp.max(jnp.abs(velocities[probes] - exact))
        error = jnp.maximum(jnp.max(gaps), error)
        return relative_convergence(
            SAFETY_FACTOR * error, velocities, reduction.tolerance
        )


def _gaps(
    freeze: Callable[[Points], AbstractField], mu: Points, velocities: Array
) -> Float[Array, " n"]:
    """Change of each token's velocity when sums have fewer nodes."""
    changes = velocities - freeze(coarsen(mu))(mu.tokens)
    return jnp.max(jnp.abs(changes), axis=1)


def is_affordable(n: int, counts: tuple[int, ...]) -> bool:
    """Whether interpolation with these nodes saves time for `n` tokens."""
    products = 2 * (2 * len(counts) + 1) * math.prod(counts) / FLOPS
    return products + 8 * sum(counts) / PAIRS < WORTH * n / PAIRS


class _Search(NamedTuple):
    """A search on the measure `mu` for the nodes that a flow of `n` tokens needs.

    `trial` gives the error of a plan, relative to its tolerance.
    """

    trial: Callable[[AbstractDynamics, Points, Time], Float[Array, ""]]
    dynamics: AbstractDynamics
    t: Time
    mu: Points
    n: int

    def error(self, counts: tuple[int, ...]) -> float:
        """The error with these nodes, relative to the largest allowed error."""
        mu = self.mu.replace_reduction(_chebyshev_plan(self.mu, counts))
        return float(self.trial(self.dynamics, mu, self.t)) / MARGIN

    def find_counts(self, counts: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Increases `counts` until they are accurate; `None` if that saves no time."""
        while counts is not None and is_affordable(self.n, counts):
            error = self.error(counts)
            if error <= 1:
                return counts
            counts = _next_counts(counts, _factor(error, self.mu))
        return None

    def reduce_counts(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """The counts, reduced along each axis as far as the error allows."""
        for axis in range(len(counts)):
            for rung in reversed([r for r in RUNGS if r < counts[axis]]):
                fewer = (*counts[:axis], rung, *counts[axis + 1 :])
                if self.error(fewer) > 1:
                    break
                counts = fewer
        return counts


@compile_function
def _coarsening_error(
    dynamics: AbstractDynamics, mu: Points, t: Time
) -> Float[Array, ""]:
    """Change of a field when it has fewer nodes, relative to its tolerance."""
    assert isinstance(mu.reduction, Chebyshev)
    freeze = functools.partial(dynamics.field, jnp.asarray(t))
    velocities = freeze(mu)(mu.tokens)
    change = jnp.max(_gaps(freeze, mu, velocities))
    return _error_ratio(
        relative_convergence(SAFETY_FACTOR * change, velocities, mu.reduction.tolerance)
    )


@compile_function
def _field_error(dynamics: AbstractDynamics, mu: Points, t: Time) -> Float[Array, ""]:
    """Error of a field relative to its tolerance; infinite if it is unconverged."""
    freeze = functools.partial(dynamics.field, jnp.asarray(t))
    field = freeze(mu)
    assert isinstance(mu.reduction, Chebyshev)
    worst = _error_ratio(NodePlanner().sum_convergence(mu.reduction, freeze, mu, field))
    if field.convergence is not None:
        is_unconverged = ~field.convergence.is_met
        worst = jnp.where(is_unconverged, jnp.inf, worst)
    return worst


def _error_ratio(error: Convergence) -> Float[Array, ""]:
    """The error relative to its tolerance; infinite if the error is NaN."""
    return jnp.nan_to_num(error.residual / error.tolerance, nan=jnp.inf)


def _factor(error: float, mu: Points) -> float:
    """Factor by which the number of nodes must grow, if errors fall geometrically."""
    assert isinstance(mu.reduction, Chebyshev)
    log_tolerance = math.log(mu.reduction.tolerance * MARGIN)
    log_error = log_tolerance + math.log(error) if math.isfinite(error) else 0.0
    return min(log_tolerance / min(log_error, math.log(0.5)), 2.0)


def _next_counts(counts: tuple[int, ...], factor: float) -> tuple[int, ...] | None:
    """The next entries of `RUNGS`, larger by about `factor` on each axis.

    The result is `None` if there is no such entry for some axis.
    """
    next_rungs = [
        next((r for r in RUNGS if r > count and r >= 0.9 * factor * count), None)
        for count in counts
    ]
    larger_counts = tuple(rung for rung in next_rungs if rung is not None)
    return larger_counts if len(larger_counts) == len(counts) else None


def _chebyshev_plan(mu: Points, counts: tuple[int, ...]) -> Chebyshev:
    assert isinstance(mu.reduction, Chebyshev)
    return Chebyshev(mu.reduction.tolerance, mu.reduction.fallback, counts)
