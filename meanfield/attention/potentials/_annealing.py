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

from ._newton import newton
from ._steps import averaged, full_step, half_step

# Parts of the score, then all of it, each within reach of Newton steps from the one
# before: the potential of a part, grown like the score, is off by few units.
FRACTIONS = (1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4, 1.0)
ROUGH = 1e-2  # in the sup of |log marginal|: what a part is solved to; near the end
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
    part: FixedPoint  # where the present fraction begins
    whole: FixedPoint  # the best for the whole score; all evaluations so far


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


def solve_in_stages(
    steps: Steps, guess: Float[Array, " n"], *, tolerance: Float[Array, ""], limit: int
) -> FixedPoint:
    """The potential to `tolerance` in the sup of |log marginal|, or the best seen.

    By accelerated alternation, or averaging if `symmetric` (positive), which contracts
    at any bandwidth. Where that stalls, by Newton's method: at once from nearby, else
    for one fraction of the score after the other.
    """
    first = anderson(
        steps.step(jnp.ones_like(tolerance)),
        guess,
        # An averaged step is about half of a log-marginal: twice that is left as margin
        tolerance=tolerance / 4,
        max_evaluations=limit,
        patience=PATIENCE,
    )
    # A residual of averaging is none of the marginals yet: Newton's first pass has it.
    known = jnp.where(steps.symmetric, jnp.inf, first.residual)
    whole = first._replace(residual=known)
    longer = jnp.maximum(limit, first.evaluations + 1)
    last = jnp.where(steps.symmetric, longer, limit)
    is_near = steps.symmetric | (first.residual <= ROUGH)
    number = jnp.where(is_near, len(FRACTIONS) - 1, 0)
    far = _unknown(FRACTIONS[0] * guess, first.evaluations)
    part = jax.tree.map(lambda a, b: jnp.where(is_near, a, b), whole, far)
    advance = lambda stage: _advance(steps, stage, tolerance=tolerance, limit=last)
    unfinished = lambda stage: _unfinished(stage, tolerance, last)
    return jax.lax.while_loop(unfinished, advance, _Stage(number, part, whole)).whole


def _advance(
    steps: Steps, stage: _Stage, *, tolerance: Float[Array, ""], limit: Array
) -> _Stage:
    """The stage after Newton's method for the present fraction."""
    i = stage.number
    fractions = jnp.asarray(FRACTIONS, stage.part.point.dtype)
    fraction, after = fractions[i], fractions[jnp.minimum(i + 1, len(FRACTIONS) - 1)]
    is_whole = i == len(FRACTIONS) - 1
    found = newton(
        scaled(steps.score, fraction),
        steps.mu,
        stage.part,
        # Under `vmap` a member that has ended runs on while others stall: an infinite
        # tolerance ends it at once.
        tolerance=jnp.where(
            _unfinished(stage, tolerance, limit),
            jnp.where(is_whole, tolerance, ROUGH),
            jnp.inf,
        ),
        limit=limit,
        queries=steps.queries,
    )
    better = is_whole & (found.residual < stage.whole.residual)
    whole = jax.tree.map(lambda a, b: jnp.where(better, a, b), found, stage.whole)
    whole = whole._replace(evaluations=found.evaluations)
    part = _unknown(found.point * (after / fraction), found.evaluations)
    return _Stage(i + 1, part, whole)


def _unknown(point: Float[Array, " n"], evaluations: Int[Array, ""]) -> FixedPoint:
    """A point whose residual is not known yet."""
    return FixedPoint(point, jnp.full((), jnp.inf, point.dtype), evaluations)


def _unfinished(
    stage: _Stage, tolerance: Float[Array, ""], limit: Array
) -> Bool[Array, ""]:
    going = (stage.number < len(FRACTIONS)) & (stage.whole.evaluations < limit)
    return going & (stage.whole.residual > tolerance)
