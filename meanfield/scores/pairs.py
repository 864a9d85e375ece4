"""Scores of all pairs of queries and keys, which are computed block by block."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import stop_gradient
from meanfield.linalg import HIGHEST
from meanfield.tokens import Tokens

from ._masked import Masked
from ._score import AbstractQuadraticScore, AbstractScore
from .differences import from_references, product_tangent
from .rows import promote_dtypes, vectors_of

Link = Callable[[Array], Array]

# Inner products of at most this many terms are faster inside the exponential's loop.
MAX_FUSED_TERMS = 4
TIE_ULPS = 4  # scores within this many units in the last place count as equal


class QuerySide(eqx.Module):
    """Queries, with their vectors $q$ in columns and the offsets of their scores.

    Attributes:
        vectors: $q$; `None` for scores that are not inner products.
        difference_vectors: vectors of the queries in `Differences`, in columns.
        references: vectors of the keys relative to which scores are measured; `None`
            for expanded scores.
    """

    vectors: Float[Array, "*blocks k m"] | None
    offset: Float[Array, "*blocks m"]
    tokens: Tokens
    difference_vectors: Float[Array, "*blocks c m"] | None = None
    references: Float[Array, "*blocks c m"] | None = None


class KeySide(eqx.Module):
    """Keys, with their vectors $k$ in rows and the offsets of their scores.

    Attributes:
        vectors: $k$; `None` for scores that are not inner products.
        difference_vectors: vectors of the keys in `Differences`, in rows.
        logs: the part of the offset that does not belong to the score.
    """

    vectors: Float[Array, "*blocks n k"] | None
    offset: Float[Array, "*blocks n"]
    tokens: Tokens
    difference_vectors: Float[Array, "*blocks n c"] | None = None
    logs: Float[Array, "*blocks n"] | None = None

    @property
    def rows(self) -> Float[Array, "n columns"]:
        """The vector in `Differences` of each key, after its `logs`."""
        logs = jnp.zeros_like(self.offset) if self.logs is None else self.logs
        return jnp.column_stack([logs, require_vectors(self.difference_vectors)])


Side = TypeVar("Side", QuerySide, KeySide)


class Pairs(eqx.Module):
    """The scores of all pairs, computed block by block; `-inf` excludes a pair.

    Attributes:
        score: the score, which is evaluated if vectors are not sufficient.
        units: factor of scores, vectors and offsets.
        is_fused: whether XLA may fuse short inner products into other loops, where
            they can be rounded differently each time.
        whole: whether all pairs are one block, so that a mask is always applied.
        queries: the queries.
        keys: the keys.
        remainder: query terms that scores leave out, not multiplied by `units`.
        bend: the attribute `bend` of `Differences`.
    """

    score: AbstractScore
    units: float = eqx.field(static=True)
    queries: QuerySide
    keys: KeySide
    remainder: Float[Array, " m"]
    bend: Float[Array, ""] | None = None
    is_fused: bool = eqx.field(static=True, default=True)
    whole: bool = eqx.field(static=True, default=False)

    @property
    def exact(self) -> bool:
        """Whether scores follow from vectors and offsets alone, without a mask."""
        return self.queries.vectors is not None and not self.masks

    @property
    def masks(self) -> bool:
        """Whether a score that is given by vectors has a mask that excludes pairs."""
        return isinstance(self.score, Masked) and self.queries.vectors is not None

    def offset_by(self, logs: Float[Array, " n"]) -> "Pairs":
        """Pairs with `logs` added to the scores of each key."""
        keys = replace(
            self.keys, offset=self.keys.offset + logs, logs=stop_gradient(logs)
        )
        return replace(self, keys=keys)

    def scores(self, queries: QuerySide, keys: KeySide) -> Float[Array, "keys queries"]:
        """The scores of a block, with keys in rows and queries in columns."""
        if queries.vectors is None or keys.vectors is None:
            inner = self.units * self.score(queries.tokens, keys.tokens).T
        elif queries.references is not None:
            return self._from_references(queries, keys)
        else:
            products = _products if self.is_fused else _unfused_products
            inner = products(keys.vectors, queries.vectors)
        # The query offset comes last: it subtracts the largest score, which is rounded
        # like the sum in brackets. The result for that score is therefore exactly 0.
        return (inner + keys.offset[:, None]) + queries.offset[None, :]

    def _from_references(
        self, queries: QuerySide, keys: KeySide
    ) -> Float[Array, "keys queries"]:
        k, y = require_vectors(keys.vectors), require_vectors(keys.difference_vectors)
        q, r = (
            require_vectors(queries.difference_vectors),
            require_vectors(queries.references),
        )
        bend = None if self.bend is None else self.units * self.bend
        expansion = k, require_vectors(queries.vectors), keys.offset
        inner = from_references(expansion, y, q, r, bend)
        inner = inner if keys.logs is None else inner + keys.logs[:, None]
        return inner + queries.offset[None, :]

    def link_product(
        self, link: Link, queries: QuerySide, keys: KeySide, values: Array
    ) -> Array:
        """The product of `values` and `link` of scores; excluded pairs contribute 0."""
        if self.exact:
            return _product(values, link(self.scores(queries, keys)))
        if not self.masks:
            scores = self.scores(queries, keys)
            return _product(values, _masked_link(link, scores, ~jnp.isneginf(scores)))
        assert isinstance(self.score, Masked)
        mask = lambda: (
            cast(Masked, self.score).is_allowed(queries.tokens, keys.tokens).T
        )
        zeros = jnp.zeros((values.shape[0], queries.offset.shape[0]), values.dtype)
        cases = (
            lambda: zeros,
            lambda: _product(
                values, _masked_link(link, self.scores(queries, keys), mask())
            ),
            lambda: _product(values, link(self.scores(queries, keys))),
        )
        return self._switch_mask(queries, keys, cases)

    def largest(self, queries: QuerySide, keys: KeySide) -> Float[Array, " queries"]:
        """The largest score of each query in a block."""
        return self._fold_scores(_top, queries, keys)[0]

    def best(self, queries: QuerySide, keys: KeySide) -> Float[Array, "rows queries"]:
        """The largest score of each query, and `logs` and vector of its best key."""
        room = _rounding(keys, queries)
        return self._fold_scores(lambda S: _best(S, keys.rows, room), queries, keys)

    def _fold_scores(
        self, fold: Callable[[Array], Array], queries: QuerySide, keys: KeySide
    ) -> Float[Array, "rows queries"]:
        """Applies `fold` to the masked scores of a block."""
        scores = lambda: self.scores(queries, keys)
        if not (isinstance(self.score, Masked) and self.masks):
            return fold(scores())
        mask = lambda: (
            cast(Masked, self.score).is_allowed(queries.tokens, keys.tokens).T
        )
        excluded_scores = jnp.full(
            (keys.offset.shape[0], queries.offset.shape[0]), -jnp.inf
        )
        cases = (
            lambda: fold(excluded_scores.astype(queries.offset.dtype)),
            lambda: fold(jnp.where(mask(), scores(), -jnp.inf)),
            lambda: fold(scores()),
        )
        return self._switch_mask(queries, keys, cases)

    def _switch_mask(
        self, queries: QuerySide, keys: KeySide, cases: tuple[Callable[[], Array], ...]
    ) -> Array:
        """Calls one of three `cases`: a mask allows no, some or all pairs of a block.

        A single block always uses the general case, since under `vmap` over many small
        clouds a switch would compute all three cases.
        """
        if self.whole:
            return cases[1]()
        assert isinstance(self.score, Masked)
        return jax.lax.switch(self.score.share(queries.tokens, keys.tokens), cases)


def pair_scores(
    score: AbstractScore, queries: Tokens, keys: Tokens, units: float = 1.0
) -> Pairs:
    """Scores of all pairs, without the terms that depend on the query only."""
    base = score.score if isinstance(score, Masked) else score
    if isinstance(base, AbstractQuadraticScore):
        sides = base.factors(queries, keys), vectors_of(base, queries, keys)
        parts, vectors = promote_dtypes(sides)
        zeros, offset = jnp.zeros_like(parts.query_term), units * parts.key_term
        query_side = QuerySide(units * parts.query.T, zeros, queries)
        key_side = KeySide(parts.key, offset, keys)
        if vectors is None:
            return Pairs(score, units, query_side, key_side, parts.query_term)
        query_vectors = (
            vectors.query.T if vectors.bend is not None else units * vectors.query.T
        )
        return Pairs(
            score,
            units,
            replace(query_side, difference_vectors=query_vectors),
            replace(key_side, difference_vectors=vectors.key),
            parts.query_term,
            vectors.bend,
        )
    dtype = jnp.result_type(queries.x, keys.x)
    query_side = QuerySide(None, jnp.zeros(queries.n, dtype), queries)
    key_side = KeySide(None, jnp.zeros(keys.n, dtype), keys)
    return Pairs(score, units, query_side, key_side, query_side.offset)


@jax.custom_jvp
def _products(k: Float[Array, "n k"], q: Float[Array, "k m"]) -> Float[Array, "n m"]:
    if k.shape[1] > MAX_FUSED_TERMS:
        return _product(k, q)
    return sum(
        (k[:, i, None] * q[None, i] for i in range(1, k.shape[1])),
        k[:, 0, None] * q[None, 0],
    )


@_products.defjvp
def _products_jvp(primals: tuple, tangents: tuple) -> tuple:
    return _products(*primals), product_tangent(primals, tangents)


def _unfused_products(k: Array, q: Array) -> Array:
    # XLA fuses a one-term product into neighbouring loops, where it rounds differently.
    # Padding the product to two terms prevents that.
    k = jnp.pad(k, [(0, 0), (0, max(0, 2 - k.shape[1]))])
    q = jnp.pad(q, [(0, max(0, 2 - q.shape[0])), (0, 0)])
    return _product(k, q)


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=HIGHEST)


def require_vectors(vectors: Array | None) -> Array:
    """Returns `vectors`, and asserts that they are not `None`."""
    assert vectors is not None
    return vectors


def _top(scores: Array) -> Array:
    return jnp.max(scores, axis=0)[None]


def _best(
    scores: Array, rows: Float[Array, "n r"], room: Float[Array, " queries"]
) -> Array:
    """The maximum of each column, and the row of an entry that has this value.

    XLA vectorises two such passes, but not `argmax`. Since the passes may round
    differently, an entry within `room` of the maximum is used if none equals it.
    """
    top = _top(scores)
    least = top - TIE_ULPS * jnp.finfo(top.dtype).eps * jnp.abs(top)
    count = len(rows)
    numbers = jnp.arange(count, dtype=jnp.int32)[:, None]
    candidates = jnp.where(scores >= top - room[None], numbers, 0)
    index = jnp.max(jnp.where(scores >= least, numbers + count, candidates), axis=0)
    return jnp.concatenate([top, rows[index % count].T])


def _rounding(keys: KeySide, queries: QuerySide) -> Float[Array, " queries"]:
    """Bound on the difference between two roundings of the same score."""
    k, q = require_vectors(keys.vectors), require_vectors(queries.vectors)
    offset = keys.offset
    longest = jnp.sqrt(jnp.max(jnp.sum(k**2, axis=1)) * jnp.sum(q**2, axis=0))
    size = longest + jnp.max(jnp.where(jnp.isneginf(offset), 0, jnp.abs(offset)))
    return TIE_ULPS * jnp.finfo(size.dtype).eps * size


def _masked_link(link: Link, scores: Array, mask: Array) -> Array:
    # The inner `jnp.where` prevents NaN derivatives of the link at -inf.
    return jnp.where(mask, link(jnp.where(mask, scores, 0)), 0)
