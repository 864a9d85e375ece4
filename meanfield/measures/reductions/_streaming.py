r"""Sums over keys, a block of scores at a time: the inner loop of everything.

$$N_{pi} = \sum_j v_{pj}\, \varphi(s_{ij})$$

for queries $i$, with $O(m + n)$ memory. Blocks are transposed, keys by queries: what is
long lies along rows, a sum over keys is a matrix product with rows of values, and the
normaliser of a mean is one more row. Derivatives, of any order and in both modes,
compute blocks again and keep the same memory.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Masked
from meanfield.tokens import Tokens

Link = Callable[[Array], Array]

# Inner products of so few terms are cheaper inside the loop that takes exponentials.
FUSED = 4
LANES = 16  # blocks are cut to multiples of a vector


class Shape(NamedTuple):
    """The largest block: how many keys by how many queries."""

    keys: int
    queries: int


class QuerySide(eqx.Module):
    """Queries: $q$, one column each; what is added to all their scores; the tokens."""

    vectors: Float[Array, "*blocks k m"] | None
    offset: Float[Array, "*blocks m"]
    tokens: Tokens


class KeySide(eqx.Module):
    """Keys: $k$, one row each; what is added to all their scores; the tokens."""

    vectors: Float[Array, "*blocks n k"] | None
    offset: Float[Array, "*blocks n"]
    tokens: Tokens


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
    """

    score: AbstractScore
    units: float = eqx.field(static=True)
    queries: QuerySide
    keys: KeySide
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
        return replace(self, keys=replace(self.keys, offset=self.keys.offset + logs))

    def scores(self, queries: QuerySide, keys: KeySide) -> Float[Array, "keys queries"]:
        """The scores of a block, keys by queries."""
        if queries.vectors is None or keys.vectors is None:
            inner = self.units * self.score(queries.tokens, keys.tokens).T
        else:
            products = _products if self.fused else _rounded_products
            inner = products(keys.vectors, queries.vectors)
        # In this order: a stabiliser is subtracted from a score that is rounded as it
        # was when the largest was looked for, and leaves 0 of that one at any size.
        return (inner + keys.offset[:, None]) + queries.offset[None, :]

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
        if not (isinstance(self.score, Masked) and self.masks):
            return jnp.max(self.scores(queries, keys), axis=0)
        mask = lambda: cast(Masked, self.score).allowed(queries.tokens, keys.tokens).T
        scores = lambda: self.scores(queries, keys)
        cases = (
            lambda: jnp.full_like(queries.offset, -jnp.inf),
            lambda: jnp.max(jnp.where(mask(), scores(), -jnp.inf), axis=0),
            lambda: jnp.max(scores(), axis=0),
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
) -> tuple[Pairs, Float[Array, " m"]]:
    """Scores of pairs, and what was left out of them that depends on queries alone."""
    base = score.score if isinstance(score, Masked) else score
    if isinstance(base, AbstractQuadraticScore):
        parts = base.factors(queries, keys)
        query_side = QuerySide(
            units * parts.query.T, jnp.zeros_like(parts.of_query), queries
        )
        key_side = KeySide(parts.key, units * parts.of_key, keys)
        return Pairs(score, units, query_side, key_side), parts.of_query
    dtype = jnp.result_type(queries.x, keys.x)
    query_side = QuerySide(None, jnp.zeros(queries.n, dtype), queries)
    key_side = KeySide(None, jnp.zeros(keys.n, dtype), keys)
    return Pairs(score, units, query_side, key_side), query_side.offset


class Blocks(eqx.Module):
    """Pairs cut into blocks.

    Attributes:
        pairs: all of them, uncut.
        queries: with an axis of blocks in front, padded with the last one again.
        keys: likewise; that changes no largest score, and sums give it the value 0.
    """

    pairs: Pairs
    queries: QuerySide
    keys: KeySide

    @property
    def one(self) -> bool:
        """Whether all pairs are one block."""
        return self.queries.offset.shape[0] == self.keys.offset.shape[0] == 1

    @property
    def rounded(self) -> "Blocks":
        """With each score rounded the same way wherever it is used."""
        return replace(self, pairs=replace(self.pairs, fused=False))

    def below(self, tops: Float[Array, "bm queries"]) -> "Blocks":
        """With so much less in each score of a query."""
        lower = replace(self.queries, offset=self.queries.offset - tops)
        return replace(self, queries=lower)

    def by_query(self, numbers: Float[Array, " m"]) -> Float[Array, "bm queries"]:
        """Numbers, one for each query, in blocks: padded with the last one again."""
        return _blocks(numbers, self.queries.offset.shape[1], 0, mode="edge")

    def by_key(self, values: Float[Array, "p n"]) -> Float[Array, "bn p keys"]:
        """Values, a column for each key, in blocks; padded with zeros."""
        return _blocks(values, self.keys.offset.shape[1], 1)

    def joined(self, numbers: Float[Array, "bm p queries"]) -> Float[Array, "p m"]:
        """What was found for each query, in their order."""
        blocks, p, queries = numbers.shape
        m = self.pairs.queries.offset.shape[0]
        return jnp.moveaxis(numbers, 0, 1).reshape(p, blocks * queries)[:, :m]


def cut(pairs: Pairs, shape: Shape) -> Blocks:
    """Pairs in blocks, none larger than `shape`."""
    m, n = pairs.queries.offset.shape[0], pairs.keys.offset.shape[0]
    query_side = _split(pairs.queries, _size(m, shape.queries), vectors=1)
    key_side = _split(pairs.keys, _size(n, shape.keys), vectors=0)
    whole = m <= shape.queries and n <= shape.keys
    return Blocks(replace(pairs, whole=whole), query_side, key_side)


def total(
    blocks: Blocks, link: Link, values: Float[Array, "bn p keys"]
) -> Float[Array, "bm p queries"]:
    """The linked sums of all queries."""
    offset = blocks.queries.offset
    terms = jax.checkpoint(
        lambda *block: blocks.pairs.linked(link, *block), prevent_cse=False
    )
    dtype = jnp.result_type(values, offset)
    start = jnp.zeros((values.shape[1], offset.shape[1]), dtype)
    add = lambda sums, *block: sums + terms(*block)
    return _over_blocks(blocks, values, start, add)


def largest(blocks: Blocks) -> Float[Array, "bm queries"]:
    """The largest score of each query; `-inf` where all are excluded."""
    pairs, offset = blocks.pairs, blocks.queries.offset
    bn, keys = blocks.keys.offset.shape
    values = jnp.zeros((bn, 0, keys), offset.dtype)
    start = jnp.full((1, offset.shape[1]), -jnp.inf, offset.dtype)
    fold = lambda top, query_side, key_side, _: jnp.maximum(
        top, pairs.largest(query_side, key_side)[None]
    )
    return _over_blocks(blocks, values, start, fold)[:, 0]


def _over_blocks(
    blocks: Blocks,
    values: Float[Array, "bn v keys"],
    start: Float[Array, "p queries"],
    fold: Callable[..., Array],
) -> Float[Array, "bm p queries"]:
    """`fold` over blocks of keys for each block of queries."""
    sides = blocks.queries, blocks.keys, values
    if blocks.one:
        return fold(start, *jax.tree.map(lambda x: x[0], sides))[None]

    def of(query_side: QuerySide) -> Array:
        step = lambda sums, block: (fold(sums, query_side, *block), None)
        return jax.lax.scan(step, start, sides[1:])[0]

    return jax.lax.map(of, blocks.queries)


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
    # Derivatives are one pass over a block each. The barrier keeps the transpose of
    # the keys what it is: without, the compiler would multiply by a strided matrix.
    (k, q), (dk, dq) = primals, tangents
    rows = jax.lax.optimization_barrier(k.T)
    by_query = jax.lax.dot_general(
        rows, dq, (((0,), (0,)), ((), ())), precision=HIGHEST
    )
    return _products(k, q), _product(dk, q) + by_query


def _rounded_products(k: Array, q: Array) -> Array:
    # A product of one term would be taken inside other loops: two are not.
    k = jnp.pad(k, [(0, 0), (0, max(0, 2 - k.shape[1]))])
    q = jnp.pad(q, [(0, max(0, 2 - q.shape[0])), (0, 0)])
    return _product(k, q)


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=HIGHEST)


def _without(link: Link, scores: Array, mask: Array) -> Array:
    # The inner `where` keeps derivatives of the link at -inf out of the sum.
    return jnp.where(mask, link(jnp.where(mask, scores, 0)), 0)


def _size(count: int, limit: int) -> int:
    """The size of blocks, all as large as each other, of at most `most`."""
    if count <= limit:
        return count
    size = math.ceil(count / math.ceil(count / limit))
    return size if size == count else min(limit, -(-size // LANES) * LANES)


def _split(side: Side, size: int, *, vectors: int) -> Side:
    """One side, led by an axis of blocks."""
    axis = lambda x: vectors if x is side.vectors else 0
    return jax.tree.map(lambda x: _blocks(x, size, axis(x), mode="edge"), side)


def _blocks(x: Array, size: int, axis: int, mode: str = "constant") -> Array:
    if x.shape[axis] <= size:
        return x[None]
    count = -(-x.shape[axis] // size)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, count * size - x.shape[axis])
    shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(jnp.pad(x, widths, mode).reshape(shape), axis, 0)
