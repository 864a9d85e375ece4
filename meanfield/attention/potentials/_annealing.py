"""Bandwidths that shrink: a start for potentials that alternation finds too slowly."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from typing_extensions import override

from meanfield.fixed_point import FixedPoint, anderson
from meanfield.measures import Points
from meanfield.scores import AbstractScore, Dot, SquaredDistance, transposed
from meanfield.tokens import Tokens

from ._steps import averaged, half_step

# The score itself; where that stalls, parts of it that alternation solves, then all.
FRACTIONS = (1.0, 1 / 64, 1 / 16, 1 / 4, 1.0)
ROUGH = 1e-2  # on the way, in the sup of |log marginal|: within reach of Newton steps
PATIENCE = 20  # evaluations for a tenfold decrease, else alternation has stalled


class Scaled(AbstractScore):
    """A fraction of a score."""

    score: AbstractScore
    fraction: Float[Array, ""]

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return self.fraction * self.score(queries, keys)


def scaled(score: AbstractScore, fraction: Float[Array, ""]) -> AbstractScore:
    """`fraction` times `score`, of its own kind where that is known."""
    if isinstance(score, Dot | SquaredDistance):
        wider = score.epsilon / fraction
        return eqx.tree_at(lambda s: s.epsilon, score, wider)
    return Scaled(score, fraction)


class _Stage(NamedTuple):
    number: Int[Array, ""]
    g: Array  # for the present fraction
    whole: FixedPoint  # for the whole score; all evaluations so far


def alternated(
    score: AbstractScore,
    mu: Points,
    guess: Float[Array, " n"],
    *,
    symmetric: Bool[Array, ""],
    tolerance: Float[Array, ""],
    limit: int,
) -> FixedPoint:
    """Accelerated alternation to `tolerance`, or averaging if `symmetric` (positive).

    Where alternation stalls the point is what annealing has led to, `ROUGH` at best.
    Averaging contracts at any bandwidth and is not annealed.
    """
    none = jnp.asarray(0)
    far = jnp.full_like(tolerance, jnp.inf)
    begin = _Stage(none, guess, FixedPoint(guess, far, none))

    def unfinished(stage: _Stage) -> Array:
        stalled = (stage.whole.residual > tolerance) & ~symmetric
        going = (stage.number < len(FRACTIONS)) & (stage.whole.evaluations < limit)
        return (stage.number == 0) | (stalled & going)

    def solve(stage: _Stage) -> _Stage:
        i, (point, residual, spent) = stage.number, stage.whole
        fractions = jnp.asarray(FRACTIONS, guess.dtype)
        part, before = fractions[i], fractions[jnp.maximum(i - 1, 0)]
        found = anderson(
            _step(scaled(score, part), mu, symmetric),
            stage.g * (part / before),
            tolerance=jnp.where(i == 0, tolerance, ROUGH),
            max_evaluations=limit - spent,
            patience=PATIENCE,
        )
        whole = FixedPoint(
            jnp.where(part == 1, found.point, point),
            jnp.where(part == 1, found.residual, residual),
            spent + found.evaluations,
        )
        return _Stage(i + 1, found.point, whole)

    return jax.lax.while_loop(unfinished, solve, begin).whole


def _step(
    score: AbstractScore, mu: Points, symmetric: Bool[Array, ""]
) -> Callable[[Array], Array]:
    def step(g: Array) -> Array:
        half = half_step(score, mu, g)
        columns = lambda: half_step(transposed(score), mu, half)
        return jax.lax.cond(symmetric, lambda: averaged(mu, g, half), columns)

    return step
