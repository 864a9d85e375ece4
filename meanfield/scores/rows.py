"""Matrices of scores, with small rounding errors even for large tokens."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.tokens import Tokens

from ._masked import Masked
from ._score import AbstractQuadraticScore, AbstractScore
from .differences import (
    Differences,
    choose_by_rounding,
    from_references,
    reference_scores,
    size_of_scores,
    zero_with_tangent,
)

T = TypeVar("T")


def rows_from_references(
    score: AbstractScore, queries: Tokens, keys: Tokens, logs: Float[Array, " n"]
) -> tuple[Float[Array, "m n"], Float[Array, " m"]]:
    """Scores plus `logs`, relative to a reference score in each row.

    The reference scores are also returned. For quadratic scores, the reference is the
    key with the largest score in the row. For other scores, the reference score is
    zero.
    """
    whole = score(queries, keys) + logs[None]
    # Long vectors are rarely needed, so only their shapes are computed here.
    shapes = eqx.filter_eval_shape(vectors_of, score, queries, keys)
    if shapes is None:
        return whole, jnp.zeros_like(whole[:, 0])
    base = score.score if isinstance(score, Masked) else score
    assert isinstance(base, AbstractQuadraticScore)
    zero = jnp.zeros((), jnp.result_type(*(x.dtype for x in jax.tree.leaves(shapes))))
    parts, whole, _ = promote_dtypes((base.factors(queries, keys), whole, zero))
    expansion = parts.key, parts.query.T, parts.key_term
    best = jnp.argmax(jax.lax.stop_gradient(whole), axis=1)

    def exact() -> tuple[Array, Array]:
        vectors = vectors_of(score, queries, keys)
        assert vectors is not None
        vectors, _ = promote_dtypes((vectors, whole))
        q, r, bend = vectors.query.T, vectors.key[best].T, vectors.bend
        S = from_references(expansion, vectors.key, q, r, bend).T
        products = jnp.sum(parts.query * parts.key[best], axis=1) + parts.key_term[best]
        reference_score = reference_scores(q, r, bend, products + parts.query_term)
        logs_in = jnp.where(jnp.isneginf(whole), -jnp.inf, logs[None])
        return S + logs_in, reference_score + zero_with_tangent(parts.query_term)

    size, columns = size_of_scores(*expansion), shapes.key.shape[1]
    zeros = jnp.zeros_like(whole[:, 0])
    return choose_by_rounding(size, columns, exact, lambda: (whole, zeros))


def vectors_of(
    score: AbstractScore, queries: Tokens, keys: Tokens
) -> Differences | None:
    """The `Differences` of a score, masked or not, without gradients."""
    base = score.score if isinstance(score, Masked) else score
    if not isinstance(base, AbstractQuadraticScore):
        return None
    return jax.lax.stop_gradient(base.differences(queries, keys))


def promote_dtypes(arrays: T) -> T:
    """Casts arrays to their common dtype, since loops over blocks require one dtype."""
    dtype = jnp.result_type(*jax.tree.leaves(arrays))
    return jax.tree.map(lambda x: x.astype(dtype), arrays)
