"""Annealing of the bandwidth, for Sinkhorn potentials where alternation is slow."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from typing_extensions import override

from meanfield.fixed_point import FixedPoint, anderson
from meanfield.measures import Points
from meanfield.scores import AbstractScore, Dot, SquaredDistance, transpose
from meanfield.scores.balanced_score import BalancedScore
from meanfield.tokens import Tokens

from ._newton import newton
from ._steps import average_step, full_step, half_step

# The score is multiplied by each of these factors in turn, and the equation for the
# potential is solved each time. When a potential is scaled from one factor to the next,
# its error is a few units, which Newton's method can remove.
FRACTIONS = (1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4, 1.0)
# A potential is nearly solved if its |log marginals| are at most ROUGH. ROUGH is also
# the tolerance of the solves with every factor except the last, which is one.
ROUGH = 1e-2
PATIENCE = 20  # evaluations in which alternation must reduce the residual tenfold


class ScaledScore(AbstractScore):
    """A score multiplied by `fraction`."""

    score: AbstractScore
    fraction: Float[Array, ""]

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return self.fraction * self.score(queries, keys)


def scale_score(score: AbstractScore, fraction: Float[Array, ""]) -> AbstractScore:
    """`fraction` times `score`, of the same class where that is possible."""
    if isinstance(score, Dot | SquaredDistance):
        wider = score.epsilon / fraction
        return eqx.tree_at(lambda s: s.epsilon, score, wider)
    if isinstance(score, BalancedScore):
        return score.scale_by(fraction)
    return ScaledScore(score, fraction)


class _Stage(NamedTuple):
    number: Int[Array, ""]  # index of the current factor in `FRACTIONS`
    # Initial point of Newton's method for the score multiplied by the current factor.
    part: FixedPoint
    # Best point for the score itself, with the number of all evaluations so far.
    whole: FixedPoint


class Steps(NamedTuple):
    """The plan whose potentials are computed by alternating or averaged steps.

    Attributes:
        score: the score of queries and keys.
        mu: the keys.
        symmetric: whether the score is symmetric and positive semidefinite, so that
            averaged steps converge.
        queries: the queries, if they are a different measure from `mu`.
    """

    score: AbstractScore
    mu: Points
    symmetric: Bool[Array, ""]
    queries: Points | None = None

    def step(self, fraction: Float[Array, ""]) -> Callable[[Array], Array]:
        """The map that takes one step, for `fraction` times the score."""
        score, mu = scale_score(self.score, fraction), self.mu
        if self.queries is not None:  # a plan between two measures is not symmetric
            return lambda g: full_step(score, mu, g, self.queries)

        def step(g: Array) -> Array:
            half = half_step(score, mu, g)
            columns = lambda: half_step(transpose(score), mu, half)
            return jax.lax.cond(
                self.symmetric, lambda: average_step(mu, g, half), columns
            )

        return step


def solve_in_stages(
    steps: Steps, guess: Float[Array, " n"], *, tolerance: Float[Array, ""], limit: int
) -> FixedPoint:
    """The potential whose log marginals are within `tolerance`, or the best one found.

    The first method is accelerated alternation. If `steps.symmetric`, it is accelerated
    averaging instead, which contracts at any bandwidth. If the first method stalls,
    Newton's method follows: for the full score if the residual is small or steps were
    averaged, otherwise for the score times each of the factors `FRACTIONS`.
    """
    first = anderson(
        steps.step(jnp.ones_like(tolerance)),
        guess,
        # An averaged step is about half of the log marginal; another factor of 2 is a
        # safety margin.
        tolerance=tolerance / 4,
        max_evaluations=limit,
        patience=PATIENCE,
    )
    # The residual of averaging is not that of the marginals, which is still unknown.
    residual = jnp.where(steps.symmetric, jnp.inf, first.residual)
    whole = first._replace(residual=residual)
    longer = jnp.maximum(limit, first.evaluations + 1)
    last = jnp.where(steps.symmetric, longer, limit)
    is_near = steps.symmetric | (first.residual <= ROUGH)
    number = jnp.where(is_near, len(FRACTIONS) - 1, 0)
    far = _initial_point(FRACTIONS[0] * guess, first.evaluations)
    part = jax.tree.map(lambda a, b: jnp.where(is_near, a, b), whole, far)
    advance = lambda stage: _advance(steps, stage, tolerance=tolerance, limit=last)
    is_unfinished = lambda stage: _is_unfinished(stage, tolerance, last)
    return jax.lax.while_loop(is_unfinished, advance, _Stage(number, part, whole)).whole


def _advance(
    steps: Steps, stage: _Stage, *, tolerance: Float[Array, ""], limit: Array
) -> _Stage:
    """Runs Newton's method with the current factor, and returns the next stage."""
    i, last = stage.number, len(FRACTIONS) - 1
    fractions = jnp.asarray(FRACTIONS, stage.part.point.dtype)
    fraction, next_fraction = fractions[i], fractions[jnp.minimum(i + 1, last)]
    is_whole = i == last
    solution = newton(
        scale_score(steps.score, fraction),
        steps.mu,
        stage.part,
        # Under `vmap`, a finished member goes on until all members finish. An infinite
        # tolerance ends its Newton iterations at once.
        tolerance=jnp.where(
            _is_unfinished(stage, tolerance, limit),
            jnp.where(is_whole, tolerance, ROUGH),
            jnp.inf,
        ),
        limit=limit,
        queries=steps.queries,
    )
    better = is_whole & (solution.residual < stage.whole.residual)
    whole = jax.tree.map(lambda a, b: jnp.where(better, a, b), solution, stage.whole)
    whole = whole._replace(evaluations=solution.evaluations)
    part = _initial_point(
        solution.point * (next_fraction / fraction), solution.evaluations
    )
    return _Stage(i + 1, part, whole)


def _initial_point(
    point: Float[Array, " n"], evaluations: Int[Array, ""]
) -> FixedPoint:
    """A point with an infinite residual, since its residual is not known yet."""
    return FixedPoint(point, jnp.full((), jnp.inf, point.dtype), evaluations)


def _is_unfinished(
    stage: _Stage, tolerance: Float[Array, ""], limit: Array
) -> Bool[Array, ""]:
    going = (stage.number < len(FRACTIONS)) & (stage.whole.evaluations < limit)
    return going & (stage.whole.residual > tolerance)
