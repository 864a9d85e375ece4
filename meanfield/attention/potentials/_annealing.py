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
from meanfield.scores.balanced import Balanced
from meanfield.tokens import Tokens

from ._steps import averaged, full_step, half_step

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
    if isinstance(score, Balanced):
        return score.scaled(fraction)
    return Scaled(score, fraction)


class _Stage(NamedTuple):
    number: Int[Array, ""]
    g: Array  # for the present fraction
    whole: FixedPoint  # for the whole score; all evaluations so far


class Steps(NamedTuple):
    """What is alternated.

    Attributes:
        score: of queries and keys.
        mu: the keys.
        symmetric: whether the score is, and positive: steps are then averaged.
        queries: those of another measure, if they are.
    """

    score: AbstractScore
    mu: Points
    symmetric: Bool[Array, ""]
    queries: Points | None = None

    def step(self, fraction: Float[Array, ""]) -> Callable[[Array], Array]:
        """A step for a fraction of the score."""
        score, mu = scaled(self.score, fraction), self.mu
        if self.queries is not None:  # no plan between two measures is symmetric
            return lambda g: full_step(score, mu, g, self.queries)

        def step(g: Array) -> Array:
            half = half_step(score, mu, g)
            columns = lambda: half_step(transposed(score), mu, half)
            return jax.lax.cond(self.symmetric, lambda: averaged(mu, g, half), columns)

        return step


def alternated(
    steps: Steps, guess: Float[Array, " n"], *, tolerance: Float[Array, ""], limit: int
) -> FixedPoint:
    """Accelerated alternation to `tolerance`, or averaging if `symmetric` (positive).

    Where alternation stalls the point is what annealing has led to, `ROUGH` at best.
    Averaging contracts at any bandwidth and is not annealed.
    """
    none, far = jnp.asarray(0), jnp.full_like(tolerance, jnp.inf)
    begin = _Stage(none, guess, FixedPoint(guess, far, none))

    unfinished = lambda stage: _unfinished(stage, steps.symmetric, tolerance, limit)

    def solve(stage: _Stage) -> _Stage:
        i, spent = stage.number, stage.whole.evaluations
        fractions = jnp.asarray(FRACTIONS, guess.dtype)
        part, before = fractions[i], fractions[jnp.maximum(i - 1, 0)]
        enough = jnp.where(i == 0, tolerance, ROUGH)
        found = anderson(
            steps.step(part),
            stage.g * (part / before),
            # Under `vmap` a member that has ended runs on while others stall: an
            # infinite tolerance ends it at once.
            tolerance=jnp.where(unfinished(stage), enough, jnp.inf),
            max_evaluations=limit - spent,
            patience=PATIENCE,
        )
        newer = lambda new, old: jnp.where(part == 1, new, old)
        whole = jax.tree.map(newer, found, stage.whole)
        whole = whole._replace(evaluations=spent + found.evaluations)
        return _Stage(i + 1, found.point, whole)

    return jax.lax.while_loop(unfinished, solve, begin).whole


def _unfinished(
    stage: _Stage, symmetric: Bool[Array, ""], tolerance: Array, limit: int
) -> Array:
    """Whether alternation has not begun, or has stalled with a stage to come."""
    stalled = (stage.whole.residual > tolerance) & ~symmetric
    going = (stage.number < len(FRACTIONS)) & (stage.whole.evaluations < limit)
    return (stage.number == 0) | (stalled & going)
