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
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import frozen
from meanfield.scores.differences import at_references, variable
from meanfield.scores.pairs import KeySide, Link, Pairs, QuerySide, Side, known

LANES = 16  # blocks are cut to multiples of a vector


class Shape(NamedTuple):
    """The largest block: how many keys by how many queries."""

    keys: int
    queries: int


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
    def absolute(self) -> "Blocks":
        """With squared distances from the queries themselves, nothing left out."""
        compared = self.queries.compared
        offset = self.by_query(variable(self.pairs.remainder))
        return replace(
            self, queries=replace(self.queries, references=compared, offset=offset)
        )

    def from_best(
        self,
    ) -> tuple["Blocks", Float[Array, "bm queries"], Float[Array, "bm queries"]]:
        """With scores measured from those of the keys whose scores are the largest.

        Also the logs of these keys, and their scores without them.
        """
        found = best(frozen(self).rounded)
        top, logs, references = found[:, 0], found[:, 1], found[:, 2:]
        blind = jnp.isneginf(top)
        top, logs = jnp.where(blind, 0, top), jnp.where(blind, 0, logs)
        units, queries = self.pairs.units, self.queries
        remainder = self.by_query(self.pairs.remainder)
        expanded = (top - logs) / units + remainder
        of = lambda q, r, own: at_references(q, r, self.pairs.bend, own)
        at = jax.vmap(of)(queries.compared, references, expanded)
        measured = replace(queries, references=references)
        return replace(self, queries=measured), logs, at + variable(remainder)

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


def best(blocks: Blocks) -> Float[Array, "bm rows queries"]:
    """Of each query the largest score, and the logs and the vector of that key."""
    pairs, offset = blocks.pairs, blocks.queries.offset
    bn, keys, columns = known(blocks.keys.compared).shape
    values = jnp.zeros((bn, 0, keys), offset.dtype)
    start = jnp.zeros((2 + columns, offset.shape[1]), offset.dtype)
    start = start.at[0].set(-jnp.inf)

    def fold(rows: Array, query_side: QuerySide, key_side: KeySide, _: Array) -> Array:
        newer = pairs.best(query_side, key_side)
        return jnp.where(newer[0] > rows[0], newer, rows)

    return _over_blocks(blocks, values, start, fold)


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


def _size(count: int, limit: int) -> int:
    """The size of blocks, all as large as each other, of at most `most`."""
    if count <= limit:
        return count
    size = math.ceil(count / math.ceil(count / limit))
    return size if size == count else min(limit, -(-size // LANES) * LANES)


def _split(side: Side, size: int, *, vectors: int) -> Side:
    """One side, led by an axis of blocks."""
    columns = side.vectors, side.compared
    axis = lambda x: vectors if any(x is one for one in columns) else 0
    return jax.tree.map(lambda x: _blocks(x, size, axis(x), mode="edge"), side)


def _blocks(x: Array, size: int, axis: int, mode: str = "constant") -> Array:
    if x.shape[axis] <= size:
        return x[None]
    count = -(-x.shape[axis] // size)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, count * size - x.shape[axis])
    shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(jnp.pad(x, widths, mode).reshape(shape), axis, 0)
