r"""Steps of the alternation whose fixed points are the Sinkhorn potentials."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.measures import (
    AbstractPlannedReduction,
    Chebyshev,
    Dense,
    Keys,
    Points,
    coarsen,
    use_exact_sums,
    worst_tokens,
)
from meanfield.scores import AbstractScore, transpose
from meanfield.scores.rows import rows_from_references
from meanfield.tokens import Tokens


def half_step(
    score: AbstractScore,
    mu: Points,
    potential: Float[Array, " n"],
    queries: Points | None = None,
) -> Float[Array, " m"]:
    """Minus the logarithm of the integral of exp(`score + potential`) over `mu`.

    The result has a value for each query; by default the queries are the tokens of
    `mu`.
    """
    query_points = mu if queries is None else queries
    values = -mu.log_integral(score, query_points.safe_tokens, potential)
    if query_points.zero_weights is not None:
        return values  # derivatives need the values at tokens of weight zero
    # An excluded token has no marginal to match, so any finite value is correct.
    return jnp.where(has_weight(query_points), values, 0)


def full_step(
    score: AbstractScore,
    mu: Points,
    g: Float[Array, " n"],
    queries: Points | None = None,
) -> Float[Array, " n"]:
    """One step of the alternation, which normalises the rows and then the columns."""
    f = half_step(score, mu, g, queries)
    return half_step(transpose(score), mu if queries is None else queries, f, mu)


class StoredScores(AbstractScore):
    """The scores of two sets of tokens, in memory; no other tokens can be given."""

    matrix: Float[Array, "m n"]

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return self.matrix


def store_scores(
    score: AbstractScore, mu: Points, queries: Points | None = None
) -> AbstractScore:
    """The scores of all pairs, computed once; `score` itself if sums are not dense.

    A constant is subtracted from each row, which does not change `g`.
    """
    query_points = mu if queries is None else queries
    for points in (mu, query_points):
        # Derivatives at weights of zero need the scores that are left out below.
        if not isinstance(points.reduction, Dense) or points.zero_weights is not None:
            return score
    sides = query_points.safe_tokens, mu.safe_tokens
    logs = jnp.where(has_weight(mu), 0, -jnp.inf)
    return StoredScores(rows_from_references(score, *sides, logs)[0])


def interpolation_error(
    score: AbstractScore, mu: Points, queries: Points | None, g: Float[Array, " n"]
) -> Float[Array, ""]:
    """The largest |log marginal|, from exact sums at tokens where errors may be large.

    The result is 0 if all sums are exact anyway, and NaN if sums over cells exceed
    their error bound.
    """
    how = mu.reduction
    if not isinstance(how, AbstractPlannedReduction) or not how.is_planned:
        return jnp.zeros((), g.dtype)
    back, query_points = transpose(score), mu if queries is None else queries
    f = half_step(score, mu, g, queries)
    nan_guard = 0 * jnp.max(half_step(back, query_points, f, mu))
    changes = _changes(score, mu, f, g) if queries is None else 0.0
    rows = _largest_gap(score, mu, g, query_points, f, changes)
    columns = _largest_gap(back, query_points, f, mu, g, changes)
    return jnp.maximum(rows, columns) + nan_guard


def _changes(
    score: AbstractScore, mu: Points, f: Float[Array, " n"], g: Float[Array, " n"]
) -> Float[Array, " n"]:
    """How much both half-steps change with fewer Chebyshev nodes; 0 for other sums."""
    if not isinstance(mu.reduction, Chebyshev):
        return jnp.zeros_like(g)
    back, coarse = transpose(score), coarsen(mu)
    rows = jnp.abs(f - half_step(score, coarse, g))
    columns = half_step(back, mu, f) - half_step(back, coarse, f)
    return rows + jnp.abs(columns)


def _largest_gap(
    score: AbstractScore,
    mu: Points,
    potential: Float[Array, " n"],
    queries: Points,
    half: Float[Array, " m"],
    changes: Float[Array, " m"] | float,
) -> Float[Array, ""]:
    """Largest error of a half-step at some tokens, where exact sums are computed."""
    probes = worst_tokens(queries.safe_tokens.x, jnp.broadcast_to(changes, half.shape))
    sample = jax.tree.map(lambda leaf: leaf[probes], queries.safe_tokens)
    gaps = jnp.abs(
        half[probes] + use_exact_sums(mu).log_integral(score, sample, potential)
    )
    return jnp.max(jnp.where(has_weight(queries)[probes], gaps, 0))


def average_step(
    mu: Points, g: Float[Array, " n"], half: Float[Array, " n"]
) -> Float[Array, " n"]:
    """The mean of `g` and its half-step `half`, plus a constant.

    It is used for symmetric scores only, for which the solution has `f = g`.
    """
    change = (half - g) / 2
    # The constant part of the error changes sign, and Anderson mixing removes it.
    return g + jnp.where(has_weight(mu), change + mu.probabilities @ change, 0)


def full_step_jvp(
    score: AbstractScore,
    mu: Points,
    g: Float[Array, " n"],
    h: Float[Array, " n"],
    queries: Points | None = None,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    r"""The full step $T(g)$ and its derivative $T'(g)h$, at the cost of $T(g)$ alone.

    The derivative is $T'(g) = \frac1m P^*P$ with
    $(Ph)(x) = \int h\,\kappa(x, \cdot)\,d\mu$, where $\kappa$ has normalised rows and
    the column masses $m$. Both $Ph$ and $\frac1m P^*(Ph)$ are means under weights that
    the two half-steps compute anyway.
    """
    query_points = mu if queries is None else queries
    f, Ph = _half_step_jvp(score, mu, g, h, query_points)
    return _half_step_jvp(transpose(score), query_points, f, Ph, mu)


def has_weight(mu: Points) -> Bool[Array, " n"]:
    """Whether each token has a positive weight."""
    return ~jnp.isneginf(mu.log_weights)


def _half_step_jvp(
    score: AbstractScore,
    mu: Points,
    potential: Float[Array, " n"],
    h: Float[Array, " n"],
    queries: Points,
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    keys = Keys(mu.safe_tokens, mu.log_weights + potential, h[:, None])
    mean, log_mass = mu.reduction.log_mean(score, queries.safe_tokens, keys)
    return jnp.where(has_weight(queries), -log_mass, 0), jnp.where(
        has_weight(queries), mean[:, 0], 0
    )
