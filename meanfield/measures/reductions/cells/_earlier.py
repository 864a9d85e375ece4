r"""Sums over the keys at a query's position and before: prefixes, not pairs.

Both sides are taken in the order of their positions, block by block. Keys of whole
blocks before a query are known by their sums on nodes, to which one block after the
other is added; the others are summed one by one. So each block costs the products along
the axes, and each query a block of pairs: that is a fixed number of blocks for given
cells, and less than all pairs as soon as there are several.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from meanfield.linalg import HIGHEST
from meanfield.measures.reductions.exact import LOG2E, exp2

from ._cell_nodes import Products, Vectors, no_nodes, read, spread, summed
from ._layout import AbstractLayout

ASKED, GIVEN = 1024, 512  # queries and keys of which pairs are taken at once
UNFILLED = 1e-5  # seconds for a tile, however few vectors it holds
SEEN = 1.3e9  # pairs a second of which a mask leaves some out


class Ordered(NamedTuple):
    """Vectors that have positions, by which they are or will be ordered.

    Attributes:
        x: the vectors, along the axes of cells.
        position: by which a query sees a key.
        vectors: the same in cells.
    """

    x: Float[Array, "n k"]
    position: Float[Array, " n"]
    vectors: Vectors


def block_size(layout: AbstractLayout, tokens: int, rows: int) -> int:
    """Tokens in a block, for which products along axes cost as much as pairs."""
    least = 2 * SEEN * _seconds_of_a_block(layout, rows)
    size = max(math.sqrt(least), ASKED)
    return ASKED * math.ceil(min(size, tokens) / ASKED)


def seconds_in_order(layout: AbstractLayout, tokens: int, rows: int) -> float:
    """About what sums over earlier keys take, for so many tokens on either side."""
    size = block_size(layout, tokens, rows)
    blocks = math.ceil(tokens / size) * _seconds_of_a_block(layout, rows)
    return layout.seconds(2 * tokens, rows) + blocks + tokens * size / (2 * SEEN)


def _seconds_of_a_block(layout: AbstractLayout, rows: int) -> float:
    """For the products along axes, and for tiles that a block does not fill."""
    return layout.seconds(0, rows) + 2 * math.prod(layout.cells) * UNFILLED


def earlier_sums(
    queries: Ordered, keys: Ordered, rows: Float[Array, "n r"], products: Products
) -> Float[Array, "m r"]:
    """Sums over the keys at a query's position and before."""
    n, width = rows.shape
    layout, size = products.layout, block_size(products.layout, n, width)
    order, (queries,) = _in_order(queries.position, size, queries)
    _, (keys, rows) = _in_order(keys.position, size, keys, rows)
    rows = jnp.where((jnp.arange(len(rows)) < n)[:, None], rows, 0)
    # What is summed pair by pair misses nothing, which is what checks are for.
    exact = rows.at[:, width - products.last :].set(0)

    def step(state: tuple[Array, Array], block: Array) -> tuple[tuple, Array]:
        nodes, begin = state
        own = part(queries, block, size)
        count = jnp.searchsorted(keys.position[:n], own.position[0], side="right")
        end = (count // size).astype(begin.dtype)
        nodes = jax.lax.fori_loop(begin, end, add, nodes)
        far = lambda: read(products, own.vectors, summed(nodes, products))
        none = lambda: jnp.zeros((size, width), rows.dtype)
        near = near_sums(own, keys, exact, end * size)
        return (nodes, end), jax.lax.cond(end > 0, far, none) + near

    def add(j: Array, nodes: Array) -> Array:
        vectors, values = part((keys.vectors, rows), j, size)
        return spread(products, vectors, values, nodes)

    blocks = jnp.arange(len(queries.x) // size, dtype=jnp.int32)
    start = no_nodes(layout, rows), jnp.int32(0)
    sums = jax.lax.scan(step, start, blocks)[1].reshape(-1, width)[: len(order)]
    return jnp.zeros_like(sums).at[order].set(sums)


def _in_order(
    position: Float[Array, " n"], size: int, *sides: PyTree[Array]
) -> tuple[Int[Array, " n"], tuple[PyTree[Array], ...]]:
    """The order of positions, and arrays in it, filled up to whole blocks of a size."""
    order = jnp.argsort(position)
    widths = lambda x: [(0, -x.shape[0] % size)] + [(0, 0)] * (x.ndim - 1)
    filled = lambda x: jnp.pad(x[order], widths(x), mode="edge")
    return order, jax.tree.map(filled, sides)


def part(tree: PyTree[Array], block: Int[Array, ""] | int, size: int) -> PyTree[Array]:
    """One block of arrays."""
    return jax.tree.map(
        lambda x: jax.lax.dynamic_slice_in_dim(x, block * size, size), tree
    )


def near_sums(
    queries: Ordered,
    keys: Ordered,
    rows: Float[Array, "n r"],
    begin: Int[Array, ""],
) -> Float[Array, "m r"]:
    """Sums over the keys from the number `begin` up to each query's position, by pairs.

    `begin` is a multiple of `GIVEN`, and the number of queries one of `ASKED`.
    """

    def of_some(some: Ordered) -> Float[Array, "asked r"]:
        end = jnp.searchsorted(keys.position, some.position[-1], side="right")

        def add(j: Array, sums: Array) -> Array:
            return sums + _over_pairs(some, *part((keys, rows), j, GIVEN))

        start = jnp.zeros((ASKED, rows.shape[1]), rows.dtype)
        last = -(-end // GIVEN)
        return jax.lax.fori_loop(begin // GIVEN, last.astype(begin.dtype), add, start)

    split = lambda x: x.reshape(-1, ASKED, *x.shape[1:])
    sums = jax.lax.map(of_some, jax.tree.map(split, queries))
    return sums.reshape(-1, rows.shape[1])


def _over_pairs(
    queries: Ordered, keys: Ordered, rows: Float[Array, "given r"]
) -> Float[Array, "asked r"]:
    scores = jnp.matmul(LOG2E * queries.x, keys.x.T, precision=HIGHEST)
    scores = scores - LOG2E * queries.vectors.tops[:, None]
    scores = scores - LOG2E * keys.vectors.tops[None]
    is_seen = keys.position[None] <= queries.position[:, None]
    return jnp.matmul(jnp.where(is_seen, exp2(scores), 0), rows, precision=HIGHEST)
