"""Scores far from the origin: the same weights, with less rounding."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._masked import Masked
from ._score import AbstractQuadraticScore, AbstractScore, Dot
from ._squared_distance import SquaredDistance
from .balanced import Balanced, balanced_factors


def about(score: AbstractScore, mean: Float[Array, " d"]) -> AbstractScore:
    r"""A score with the same row-normalised weights, computed with less rounding.

    Keys are measured from `mean`, which adds to the score a function of the query
    alone. A cloud far from the origin has scores of the size of its distance squared,
    and would lose the digits that tell its tokens apart. Scores of other kinds come
    back as given.
    """
    centre = jax.lax.stop_gradient(mean)  # the weights do not depend on it
    if isinstance(score, Masked):
        return Masked(about(score.score, centre), score.mask)
    if isinstance(score, Dot):
        return Dot(
            score.Q,
            score.K,
            score.epsilon,
            query_bias=score.query_bias,
            key_bias=-score.K @ centre,
        )
    if isinstance(score, SquaredDistance):
        origin = score.K @ centre
        return SquaredDistance(score.Q, score.K, score.epsilon, origin=origin)
    return score


def centred(
    score: AbstractQuadraticScore,
    mean: Float[Array, " d"],
    of_queries: Float[Array, " d"] | None = None,
) -> Dot:
    """The bilinear part of a score, keys measured from `mean`; queries, too, or so.

    All that a doubly normalised coupling sees, with the least rounding: what is left
    out depends on the query alone or on the key alone.
    """
    centre, bilinear = jax.lax.stop_gradient(mean), score.bilinear
    origin = centre if of_queries is None else jax.lax.stop_gradient(of_queries)
    return Dot(
        bilinear.Q,
        bilinear.K,
        bilinear.epsilon,
        query_bias=-bilinear.Q @ origin,
        key_bias=-bilinear.K @ centre,
    )


def balanced(
    score: AbstractQuadraticScore,
    mean: Float[Array, " d"],
    of_queries: Float[Array, " d"] | None = None,
) -> Balanced:
    """`centred`, as a squared distance: potentials of its plan are small beside it."""
    dot = centred(score, mean, of_queries)
    origins = mean if of_queries is None else of_queries, mean
    scale = jnp.ones((), mean.dtype)
    M, N = balanced_factors(dot)
    return Balanced(dot, M, N, scale, jax.lax.stop_gradient(origins))
