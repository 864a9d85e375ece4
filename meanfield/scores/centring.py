"""Centring of scores, which reduces rounding errors for tokens far from the origin."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._masked import Masked
from ._score import AbstractQuadraticScore, AbstractScore, Dot
from ._squared_distance import SquaredDistance
from .balanced_score import BalancedScore, factorise


def recentre(score: AbstractScore, mean: Float[Array, " d"]) -> AbstractScore:
    r"""A score with the same row-normalised weights and smaller rounding errors.

    Keys are measured from `mean`, which changes the score by a function of the query
    only. Without centring, the scores of a cloud far from the origin are as large as
    the square of its distance to the origin, and lose the digits that distinguish its
    tokens. Scores other than `Dot` and `SquaredDistance` are returned unchanged.
    """
    centre = jax.lax.stop_gradient(mean)  # the weights do not depend on the centre
    if isinstance(score, Masked):
        return Masked(recentre(score.score, centre), score.mask)
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


def centre_score(
    score: AbstractQuadraticScore,
    mean: Float[Array, " d"],
    query_mean: Float[Array, " d"] | None = None,
) -> Dot:
    """The bilinear part of a score, with keys and queries measured from their means.

    The mean of the keys is `mean`; the mean of the queries is `query_mean`, which is
    `mean` by default. Doubly normalised couplings depend on this part only, since each
    other term depends on the query only or on the key only.
    """
    centre, bilinear = jax.lax.stop_gradient(mean), score.bilinear
    origin = centre if query_mean is None else jax.lax.stop_gradient(query_mean)
    return Dot(
        bilinear.Q,
        bilinear.K,
        bilinear.epsilon,
        query_bias=-bilinear.Q @ origin,
        key_bias=-bilinear.K @ centre,
    )


def balance_score(
    score: AbstractQuadraticScore,
    mean: Float[Array, " d"],
    query_mean: Float[Array, " d"] | None = None,
) -> BalancedScore:
    """The result of `centre_score` as a squared distance, with small potentials."""
    dot = centre_score(score, mean, query_mean)
    origins = mean if query_mean is None else query_mean, mean
    scale = jnp.ones((), mean.dtype)
    M, N = factorise(dot)
    return BalancedScore(dot, M, N, scale, jax.lax.stop_gradient(origins))
