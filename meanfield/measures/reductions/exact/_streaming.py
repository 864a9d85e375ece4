r"""Sums over keys, one block of scores at a time: the inner loop of all velocities.

$$N_{pi} = \sum_j v_{pj}\, \varphi(s_{ij})$$

for queries $i$, with $O(m + n)$ memory. Blocks have keys along rows and queries along
columns, so that the long axis is contiguous. A sum over keys is then a matrix product
with rows of values, and the normaliser of a mean is one more row. Derivatives, of any
order and in both modes, recompute the blocks, so their memory is also $O(m + n)$.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.measures.reductions.kernels import Method
from meanfield.scores.differences import zero_with_tangent
from meanfield.scores.pairs import (
    KeySide,
    Link,
    Pairs,
    QuerySide,
    Side,
    require_vectors,
)
from meanfield.scores.rows import promote_dtypes

LANES = 16  # block sizes are multiples of this, the length of a SIMD vector


class Shape(NamedTuple):
    """The largest block, as numbers of keys and queries."""

    keys: int
    queries: int


class Blocks(eqx.Module):
    """Pairs of queries and keys, divided into blocks.

    Attributes:
        pairs: all pairs.
        queries: the queries with a leading axis of blocks, padded with copies of the
            last one.
        keys: the keys, blocked and padded likewise. Copies do not change the largest
            score, and have the value 0 in sums.
        method: method of kernels, for which there is one block of each side.
    """

    pairs: Pairs
    queries: QuerySide
    keys: KeySide
    method: Method | None = eqx.field(static=True, default=None)

    @property
    def is_single(self) -> bool:
        """Whether all pairs fit into one block."""
        return self.pairs.whole

    @property
    def absolute(self) -> "Blocks":
        """The blocks with squared distances from the queries, not relative to a key.

        Each query takes the place of its reference key.
        """
        vectors = self.queries.difference_vectors
        offset = self.to_query_blocks(zero_with_tangent(self.pairs.remainder))
        return replace(
            self, queries=replace(self.queries, references=vectors, offset=offset)
        )

    @property
    def rounded_blocks(self) -> "Blocks":
        """The blocks with each score rounded the same way wherever it is used."""
        return replace(self, pairs=replace(self.pairs, is_fused=False))

    def subtract_tops(self, tops: Float[Array, "bm queries"]) -> "Blocks":
        """The blocks with `tops` subtracted from the scores of each query."""
        lower = replace(self.queries, offset=self.queries.offset - tops)
        return replace(self, queries=lower)

    def to_query_blocks(
        self, numbers: Float[Array, " m"]
    ) -> Float[Array, "bm queries"]:
        """Splits numbers, one for each query, into blocks padded with the last one."""
        return _blocks(numbers, self.queries.offset.shape[1], 0, mode="edge")

    def to_key_blocks(self, values: Float[Array, "p n"]) -> Float[Array, "bn p keys"]:
        """Splits values, one column for each key, into blocks padded with zeros."""
        return _blocks(values, self.keys.offset.shape[1], 1)

    def join_blocks(self, numbers: Float[Array, "bm p queries"]) -> Float[Array, "p m"]:
        """Results of all blocks, in the order of the queries."""
        blocks, p, queries = numbers.shape
        m = self.pairs.queries.offset.shape[0]
        return jnp.moveaxis(numbers, 0, 1).reshape(p, blocks * queries)[:, :m]


def cut(pairs: Pairs, shape: Shape, method: Method | None = None) -> Blocks:
    """Divides pairs into blocks no larger than `shape`, or one block for kernels."""
    # Log-weights may be more precise than tokens.
    parts = promote_dtypes((pairs.queries, pairs.keys, pairs.remainder))
    queries, keys, remainder = parts
    pairs = replace(pairs, queries=queries, keys=keys, remainder=remainder)
    m, n = pairs.queries.offset.shape[0], pairs.keys.offset.shape[0]
    whole = m <= shape.queries and n <= shape.keys
    pairs = replace(pairs, whole=whole)
    if method is not None:
        sides = jax.tree.map(lambda x: x[None], (pairs.queries, pairs.keys))
        return Blocks(pairs, sides[0], sides[1], method)
    query_side = _split(pairs.queries, _size(m, shape.queries), vectors=1)
    key_side = _split(pairs.keys, _size(n, shape.keys), vectors=0)
    return Blocks(pairs, query_side, key_side)


def stream_total(
    blocks: Blocks, link: Link, values: Float[Array, "bn p keys"]
) -> Float[Array, "bm p queries"]:
    """Sums over all keys of `values` times `link` of the scores, for all queries."""
    offset = blocks.queries.offset
    terms = jax.checkpoint(
        lambda *block: blocks.pairs.link_product(link, *block), prevent_cse=False
    )
    dtype = jnp.result_type(values, offset)
    start = jnp.zeros((values.shape[1], offset.shape[1]), dtype)
    add = lambda sums, *block: sums + terms(*block)
    return _fold_blocks(blocks, values, start, add)


def stream_largest(blocks: Blocks) -> Float[Array, "bm queries"]:
    """The largest score of each query; `-inf` if all keys are excluded."""
    pairs, offset = blocks.pairs, blocks.queries.offset
    bn, keys = blocks.keys.offset.shape
    values = jnp.zeros((bn, 0, keys), offset.dtype)
    start = jnp.full((1, offset.shape[1]), -jnp.inf, offset.dtype)
    fold = lambda top, query_side, key_side, _: jnp.maximum(
        top, pairs.largest(query_side, key_side)[None]
    )
    return _fold_blocks(blocks, values, start, fold)[:, 0]


def stream_best(blocks: Blocks) -> Float[Array, "bm rows queries"]:
    """The largest score of each query, with the log-weight and vector of its key."""
    pairs, offset = blocks.pairs, blocks.queries.offset
    bn, keys, columns = require_vectors(blocks.keys.difference_vectors).shape
    values = jnp.zeros((bn, 0, keys), offset.dtype)
    start = jnp.zeros((2 + columns, offset.shape[1]), offset.dtype)
    start = start.at[0].set(-jnp.inf)

    def fold(rows: Array, query_side: QuerySide, key_side: KeySide, _: Array) -> Array:
        newer = pairs.best(query_side, key_side)
        return jnp.where(newer[0] > rows[0], newer, rows)

    return _fold_blocks(blocks, values, start, fold)


def _fold_blocks(
    blocks: Blocks,
    values: Float[Array, "bn v keys"],
    start: Float[Array, "p queries"],
    fold: Callable[..., Array],
) -> Float[Array, "bm p queries"]:
    """Folds over the blocks of keys, for each block of queries."""
    sides = blocks.queries, blocks.keys, values
    if blocks.is_single:
        return fold(start, *jax.tree.map(lambda x: x[0], sides))[None]

    def fold_keys(query_side: QuerySide) -> Array:
        step = lambda sums, block: (fold(sums, query_side, *block), None)
        return jax.lax.scan(step, start, sides[1:])[0]

    return jax.lax.map(fold_keys, blocks.queries)


def _size(count: int, limit: int) -> int:
    """The size of equal blocks of `count` entries, at most `limit`."""
    if count <= limit:
        return count
    size = math.ceil(count / math.ceil(count / limit))
    return size if size == count else min(limit, -(-size // LANES) * LANES)


def _split(side: Side, size: int, *, vectors: int) -> Side:
    """Splits queries or keys into blocks, along a new leading axis."""

    def split(x: Array) -> Array:
        axis = 0 if x.ndim == 1 or x is side.tokens.x else vectors
        return _blocks(x, size, axis, mode="edge")

    return jax.tree.map(split, side)


def _blocks(x: Array, size: int, axis: int, mode: str = "constant") -> Array:
    if x.shape[axis] <= size:
        return x[None]
    count = -(-x.shape[axis] // size)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, count * size - x.shape[axis])
    shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(jnp.pad(x, widths, mode).reshape(shape), axis, 0)
