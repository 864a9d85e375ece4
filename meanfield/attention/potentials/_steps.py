r"""The maps whose fixed points are Sinkhorn potentials, at the tokens themselves."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield.measures import (
    AbstractPlanned,
    Chebyshev,
    Keys,
    Points,
    coarsely,
    exactly,
    suspects,
)
from meanfield.scores import AbstractScore, transposed


def half_step(
    score: AbstractScore,
    mu: Points,
    potential: Float[Array, " n"],
    queries: Points | None = None,
) -> Float[Array, " m"]:
    """Minus the log-integral of `score + potential` over `mu`, at the queries.

    They are the tokens of `mu` themselves if none are given, here and below.
    """
    at = mu if queries is None else queries
    negated = -mu.log_integral(score, at.counted, potential)
    if at.zero_weights is not None:
        return negated  # what it tends to, for derivatives in a weight of zero
    # An excluded token has no marginal to match: any finite value will do.
    return jnp.where(counts(at), negated, 0)


def full_step(
    score: AbstractScore,
    mu: Points,
    g: Float[Array, " n"],
    queries: Points | None = None,
) -> Float[Array, " n"]:
    """One alternation: rows, then columns."""
    f = half_step(score, mu, g, queries)
    return half_step(transposed(score), mu if queries is None else queries, f, mu)


def interpolation_error(
    score: AbstractScore, mu: Points, queries: Points | None, g: Float[Array, " n"]
) -> Float[Array, ""]:
    """The largest |log marginal|, rows and columns, where it is suspected most.

    There sums are taken exactly; 0 if they are anyway. No number if sums in cells are
    beyond their bound.
    """
    how = mu.reduction
    if not isinstance(how, AbstractPlanned) or not how.is_planned:
        return jnp.zeros((), g.dtype)
    back, at = transposed(score), mu if queries is None else queries
    f = half_step(score, mu, g, queries)
    lost = 0 * jnp.max(half_step(back, at, f, mu))
    changes = _changes(score, mu, f, g) if queries is None else 0.0
    rows = _missed(score, mu, g, at, f, changes)
    columns = _missed(back, at, f, mu, g, changes)
    return jnp.maximum(rows, columns) + lost


def _changes(
    score: AbstractScore, mu: Points, f: Float[Array, " n"], g: Float[Array, " n"]
) -> Float[Array, " n"]:
    """What fewer nodes change, rows and columns; no cell is suspected of anything."""
    if not isinstance(mu.reduction, Chebyshev):
        return jnp.zeros_like(g)
    back, coarse = transposed(score), coarsely(mu)
    rows = jnp.abs(f - half_step(score, coarse, g))
    columns = half_step(back, mu, f) - half_step(back, coarse, f)
    return rows + jnp.abs(columns)


def _missed(
    score: AbstractScore,
    mu: Points,
    potential: Float[Array, " n"],
    at: Points,
    found: Float[Array, " m"],
    changes: Float[Array, " m"] | float,
) -> Float[Array, ""]:
    """The largest gap between a half-step and minus the exact one, at suspects."""
    probes = suspects(at.counted.x, jnp.broadcast_to(changes, found.shape))
    some = jax.tree.map(lambda leaf: leaf[probes], at.counted)
    gaps = jnp.abs(found[probes] + exactly(mu).log_integral(score, some, potential))
    return jnp.max(jnp.where(counts(at)[probes], gaps, 0))


def averaged(
    mu: Points, g: Float[Array, " n"], half: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Half way from `g` to its half-step: for symmetric scores, where `f = g`."""
    change = (half - g) / 2
    # The constant is a mode of its own; one Newton step removes it.
    return g + jnp.where(counts(mu), change + mu.probabilities @ change, 0)


def full_step_along(
    score: AbstractScore,
    mu: Points,
    g: Float[Array, " n"],
    h: Float[Array, " n"],
    queries: Points | None = None,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    r"""The alternation $T(g)$ and its derivative $T'(g)h$, for the price of $T(g)$.

    $T'(g) = \frac1m P^*P$ with $(Ph)(x) = \int h\,\kappa(x, \cdot)\,d\mu$, the rows of
    $\kappa$ being normalised and $m$ its column masses: $Ph$ and $\frac1m P^*(Ph)$ are
    means under the very weights that the two half-steps sum.
    """
    at = mu if queries is None else queries
    f, Ph = _half_step_along(score, mu, g, h, at)
    return _half_step_along(transposed(score), at, f, Ph, mu)


def counts(mu: Points) -> Bool[Array, " n"]:
    """Which tokens have weight."""
    return ~jnp.isneginf(mu.log_weights)


def _half_step_along(
    score: AbstractScore,
    mu: Points,
    potential: Float[Array, " n"],
    h: Float[Array, " n"],
    at: Points,
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    keys = Keys(mu.counted, mu.log_weights + potential, h[:, None])
    mean, log_mass = mu.reduction.log_mean(score, at.counted, keys)
    return jnp.where(counts(at), -log_mass, 0), jnp.where(counts(at), mean[:, 0], 0)
