"""Scores of pairs of queries and keys, to be had block by block."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import frozen
from meanfield.linalg import HIGHEST
from meanfield.tokens import Tokens

from ._masked import Masked
from ._score import AbstractQuadraticScore, AbstractScore
from .differences import from_references, product_tangent
from .rows import of_one_dtype, vectors_of

Link = Callable[[Array], Array]

# Inner products of so few terms are cheaper inside the loop that takes exponentials.
FUSED = 4
ALIKE = 4  # units in the last place, by which the largest scores may differ


class QuerySide(eqx.Module):
    """Queries: $q$, one column each; what is added to all their scores; the tokens.

    Attributes:
        compared: their vectors in `Differences`, one column each.
        references: vectors of the keys that scores are measured from; `None` for
            expanded scores.
    """

    vectors: Float[Array, "*blocks k m"] | None
    offset: Float[Array, "*blocks m"]
    tokens: Tokens
    compared: Float[Array, "*blocks c m"] | None = None
    references: Float[Array, "*blocks c m"] | None = None


class KeySide(eqx.Module):
    """Keys: $k$, one row each; what is added to all their scores; the tokens.

    Attributes:
        compared: their vectors in `Differences`, one row each.
        logs: the part of the offset that is none of the score.
    """

    vectors: Float[Array, "*blocks n k"] | None
    offset: Float[Array, "*blocks n"]
    tokens: Tokens
    compared: Float[Array, "*blocks n c"] | None = None
    logs: Float[Array, "*blocks n"] | None = None


Side = TypeVar("Side", QuerySide, KeySide)


class Pairs(eqx.Module):
    """The scores of all pairs, to be had block by block; `-inf` excludes.

    Attributes:
        score: asked where vectors do not say all.
        units: what a score of one is in; vectors and offsets are in these.
        fused: whether inner products of few terms may be taken inside other loops,
            each time with another rounding.
        whole: whether all pairs are one block, of which a mask allows a part.
        queries: one side.
        keys: the other.
        remainder: left out of all scores of a query, and in no units.
        bend: that of `Differences`.
    """

    score: AbstractScore
    units: float = eqx.field(static=True)
    queries: QuerySide
    keys: KeySide
    remainder: Float[Array, " m"]
    bend: Float[Array, ""] | None = None
    fused: bool = eqx.field(static=True, default=True)
    whole: bool = eqx.field(static=True, default=False)

    @property
    def exact(self) -> bool:
        """Whether vectors and offsets are all there is to a score."""
        return self.queries.vectors is not None and not self.masks

    @property
    def masks(self) -> bool:
        """Whether scores of pairs are excluded by a mask on top of vectors."""
        return isinstance(self.score, Masked) and self.queries.vectors is not None

    def offset_by(self, logs: Float[Array, " n"]) -> "Pairs":
        """With so much more in each score of a key."""
        keys = replace(self.keys, offset=self.keys.offset + logs, logs=frozen(logs))
        return replace(self, keys=keys)

    def scores(self, queries: QuerySide, keys: KeySide) -> Float[Array, "keys queries"]:
        """The scores of a block, keys by queries."""
        if queries.vectors is None or keys.vectors is None:
            inner = self.units * self.score(queries.tokens, keys.tokens).T
        elif queries.references is not None:
            return self._from_references(queries, keys)
        else:
            products = _products if self.fused else _rounded_products
            inner = products(keys.vectors, queries.vectors)
        # In this order: a stabiliser is subtracted from a score that is rounded as it
        # was when the largest was looked for, and leaves 0 of that one at any size.
        return (inner + keys.offset[:, None]) + queries.offset[None, :]

    def _from_references(
        self, queries: QuerySide, keys: KeySide
    ) -> Float[Array, "keys queries"]:
        k, y = known(keys.vectors), known(keys.compared)
        q, r = known(queries.compared), known(queries.references)
        bend = None if self.bend is None else self.units * self.bend
        expanded = k, known(queries.vectors), keys.offset
        inner = from_references(expanded, y, q, r, bend)
        inner = inner if keys.logs is None else inner + keys.logs[:, None]
        return inner + queries.offset[None, :]

    def linked(
        self, link: Link, queries: QuerySide, keys: KeySide, values: Array
    ) -> Array:
        """`values` times the linked scores of a block; 0 where excluded."""
        if self.exact:
            return _product(values, link(self.scores(queries, keys)))
        if not self.masks:
            scores = self.scores(queries, keys)
            return _product(values, _without(link, scores, ~jnp.isneginf(scores)))
        assert isinstance(self.score, Masked)
        mask = lambda: cast(Masked, self.score).allowed(queries.tokens, keys.tokens).T
        none = jnp.zeros((values.shape[0], queries.offset.shape[0]), values.dtype)
        cases = (
            lambda: none,
            lambda: _product(
                values, _without(link, self.scores(queries, keys), mask())
            ),
            lambda: _product(values, link(self.scores(queries, keys))),
        )
        return self._by_share(queries, keys, cases)

    def largest(self, queries: QuerySide, keys: KeySide) -> Float[Array, " queries"]:
        """The largest score of each query in a block."""
        return self._folded(_top, queries, keys)[0]

    def best(self, queries: QuerySide, keys: KeySide) -> Float[Array, "rows queries"]:
        """The largest score of each query, and the logs and vector of that key."""
        logs = jnp.zeros_like(keys.offset) if keys.logs is None else keys.logs
        rows = jnp.concatenate([logs[:, None], known(keys.compared)], axis=1)
        room = _rounding(keys, queries)
        return self._folded(lambda S: _best(S, rows, room), queries, keys)

    def _folded(
        self, fold: Callable[[Array], Array], queries: QuerySide, keys: KeySide
    ) -> Float[Array, "rows queries"]:
        """What scores are folded to, of which a mask leaves some."""
        scores = lambda: self.scores(queries, keys)
        if not (isinstance(self.score, Masked) and self.masks):
            return fold(scores())
        mask = lambda: cast(Masked, self.score).allowed(queries.tokens, keys.tokens).T
        out = jnp.full((keys.offset.shape[0], queries.offset.shape[0]), -jnp.inf)
        cases = (
            lambda: fold(out.astype(queries.offset.dtype)),
            lambda: fold(jnp.where(mask(), scores(), -jnp.inf)),
            lambda: fold(scores()),
        )
        return self._by_share(queries, keys, cases)

    def _by_share(
        self, queries: QuerySide, keys: KeySide, cases: tuple[Callable[[], Array], ...]
    ) -> Array:
        """The case of a block of which the mask allows no pairs, some, or all.

        Many small clouds side by side would have all three computed.
        """
        if self.whole:
            return cases[1]()
        assert isinstance(self.score, Masked)
        return jax.lax.switch(self.score.share(queries.tokens, keys.tokens), cases)


def paired(
    score: AbstractScore, queries: Tokens, keys: Tokens, units: float = 1.0
) -> Pairs:
    """Scores of pairs, without what depends on queries alone: the remainder."""
    base = score.score if isinstance(score, Masked) else score
    if isinstance(base, AbstractQuadraticScore):
        sides = base.factors(queries, keys), vectors_of(base, queries, keys)
        parts, vectors = of_one_dtype(sides)
        none, offset = jnp.zeros_like(parts.of_query), units * parts.of_key
        query_side = QuerySide(units * parts.query.T, none, queries)
        key_side = KeySide(parts.key, offset, keys)
        if vectors is None:
            return Pairs(score, units, query_side, key_side, parts.of_query)
        in_units = (
            vectors.query.T if vectors.bend is not None else units * vectors.query.T
        )
        return Pairs(
            score,
            units,
            replace(query_side, compared=in_units),
            replace(key_side, compared=vectors.key),
            parts.of_query,
            vectors.bend,
        )
    dtype = jnp.result_type(queries.x, keys.x)
    query_side = QuerySide(None, jnp.zeros(queries.n, dtype), queries)
    key_side = KeySide(None, jnp.zeros(keys.n, dtype), keys)
    return Pairs(score, units, query_side, key_side, query_side.offset)


@jax.custom_jvp
def _products(k: Float[Array, "n k"], q: Float[Array, "k m"]) -> Float[Array, "n m"]:
    if k.shape[1] > FUSED:
        return _product(k, q)
    return sum(
        (k[:, i, None] * q[None, i] for i in range(1, k.shape[1])),
        k[:, 0, None] * q[None, 0],
    )


@_products.defjvp
def _products_jvp(primals: tuple, tangents: tuple) -> tuple:
    return _products(*primals), product_tangent(primals, tangents)


def _rounded_products(k: Array, q: Array) -> Array:
    # A product of one term would be taken inside other loops: two are not.
    k = jnp.pad(k, [(0, 0), (0, max(0, 2 - k.shape[1]))])
    q = jnp.pad(q, [(0, max(0, 2 - q.shape[0])), (0, 0)])
    return _product(k, q)


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=HIGHEST)


def known(vectors: Array | None) -> Array:
    """Vectors of a score that has them."""
    assert vectors is not None
    return vectors


def _top(scores: Array) -> Array:
    return jnp.max(scores, axis=0)[None]


def _best(
    scores: Array, rows: Float[Array, "n r"], room: Float[Array, " queries"]
) -> Array:
    """The largest of each column, and the row that belongs to it, or to one as large.

    Two passes that a compiler makes vectors of, as it does not of `argmax`. It may
    round scores in either for itself: where none is as large as the largest was, one
    within `room` of it is taken.
    """
    top = _top(scores)
    least = top - ALIKE * jnp.finfo(top.dtype).eps * jnp.abs(top)
    count = len(rows)
    numbers = jnp.arange(count, dtype=jnp.int32)[:, None]
    near = jnp.where(scores >= top - room[None], numbers, 0)
    index = jnp.max(jnp.where(scores >= least, numbers + count, near), axis=0)
    return jnp.concatenate([top, rows[index % count].T])


def _rounding(keys: KeySide, queries: QuerySide) -> Float[Array, " queries"]:
    """How far one rounding of a score may be from another one."""
    k, q, offset = known(keys.vectors), known(queries.vectors), keys.offset
    longest = jnp.sqrt(jnp.max(jnp.sum(k**2, axis=1)) * jnp.sum(q**2, axis=0))
    size = longest + jnp.max(jnp.where(jnp.isneginf(offset), 0, jnp.abs(offset)))
    return ALIKE * jnp.finfo(size.dtype).eps * size


def _without(link: Link, scores: Array, mask: Array) -> Array:
    # The inner `where` keeps derivatives of the link at -inf out of the sum.
    return jnp.where(mask, link(jnp.where(mask, scores, 0)), 0)
