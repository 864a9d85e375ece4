"""Matrices of scores, row by row without the rounding of large tokens."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.tokens import Tokens

from ._masked import Masked
from ._score import AbstractQuadraticScore, AbstractScore
from .differences import (
    Differences,
    at_references,
    from_references,
    size_of_scores,
    unless_rounded_away,
    variable,
)

T = TypeVar("T")


def rows_from_references(
    score: AbstractScore, queries: Tokens, keys: Tokens, logs: Float[Array, " n"]
) -> tuple[Float[Array, "m n"], Float[Array, " m"]]:
    """Scores plus `logs`, less a number for each query, and these numbers.

    Of quadratic scores the number is the score of the largest key of the row, from
    which the others are measured; of others it is zero.
    """
    whole = score(queries, keys) + logs[None]
    vectors = vectors_of(score, queries, keys)
    if vectors is None:
        return whole, jnp.zeros_like(whole[:, 0])
    base = score.score if isinstance(score, Masked) else score
    assert isinstance(base, AbstractQuadraticScore)
    sides = base.factors(queries, keys), vectors, whole
    parts, vectors, whole = of_one_dtype(sides)
    expanded = parts.key, parts.query.T, parts.of_key
    best = jnp.argmax(jax.lax.stop_gradient(whole), axis=1)

    def exact() -> tuple[Array, Array]:
        q, r, bend = vectors.query.T, vectors.key[best].T, vectors.bend
        S = from_references(expanded, vectors.key, q, r, bend).T
        products = jnp.sum(parts.query * parts.key[best], axis=1) + parts.of_key[best]
        at = at_references(q, r, bend, products + parts.of_query)
        logs_in = jnp.where(jnp.isneginf(whole), -jnp.inf, logs[None])
        return S + logs_in, at + variable(parts.of_query)

    size, columns = size_of_scores(*expanded), vectors.key.shape[1]
    none = jnp.zeros_like(whole[:, 0])
    return unless_rounded_away(size, columns, exact, lambda: (whole, none))


def vectors_of(
    score: AbstractScore, queries: Tokens, keys: Tokens
) -> Differences | None:
    """The vectors of a score, masked or not, constant for derivatives."""
    base = score.score if isinstance(score, Masked) else score
    if not isinstance(base, AbstractQuadraticScore):
        return None
    return jax.lax.stop_gradient(base.differences(queries, keys))


def of_one_dtype(arrays: T) -> T:
    """The same in the widest dtype among them, as loops over blocks need it."""
    dtype = jnp.result_type(*jax.tree.leaves(arrays))
    return jax.tree.map(lambda x: x.astype(dtype), arrays)
