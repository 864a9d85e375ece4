r"""Causal sums in cells, with prefix sums instead of pairs.

Queries and keys are sorted by position and processed block by block. The nodes hold the
sums over the keys of whole earlier blocks; each block is added when later blocks need
it. Other keys are summed pair by pair. Each block requires products along the axes, and
each query requires the sum over one block of pairs. With many blocks, this costs less
than the sums over all pairs.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from meanfield.linalg import HIGHEST
from meanfield.measures.reductions.kernels import LOG2E, exp2

from ._cell_nodes import Products, Vectors, no_nodes, read, spread, sum_nodes
from ._layout import AbstractLayout

QUERY_BLOCK, KEY_BLOCK = 1024, 512  # queries and keys in a block of pairs
TILE_SECONDS = 1e-5  # seconds for a tile, however few vectors it holds
MASKED_PAIRS = 1.3e9  # pairs per second in sums with a mask


class PositionedVectors(NamedTuple):
    """Vectors with positions.

    Attributes:
        x: the vectors, along the axes of the cells.
        position: positions, which decide whether a query attends to a key.
        vectors: the vectors in cells.
    """

    x: Float[Array, "n k"]
    position: Float[Array, " n"]
    vectors: Vectors


def block_size(layout: AbstractLayout, tokens: int, rows: int) -> int:
    """Block size, in tokens, at which products along axes cost as much as pairs."""
    least = 2 * MASKED_PAIRS * _seconds_of_a_block(layout, rows)
    size = max(math.sqrt(least), QUERY_BLOCK)
    return QUERY_BLOCK * math.ceil(min(size, tokens) / QUERY_BLOCK)


def seconds_in_order(layout: AbstractLayout, tokens: int, rows: int) -> float:
    """Estimated seconds of causal sums with `tokens` queries and `tokens` keys."""
    size = block_size(layout, tokens, rows)
    blocks = math.ceil(tokens / size) * _seconds_of_a_block(layout, rows)
    return (
        layout.seconds(2 * tokens, rows) + blocks + tokens * size / (2 * MASKED_PAIRS)
    )


def _seconds_of_a_block(layout: AbstractLayout, rows: int) -> float:
    """Estimated seconds for one block: products along axes, and partly filled tiles."""
    return layout.seconds(0, rows) + 2 * math.prod(layout.cells) * TILE_SECONDS


def earlier_sums(
    queries: PositionedVectors,
    keys: PositionedVectors,
    rows: Float[Array, "n r"],
    products: Products,
) -> Float[Array, "m r"]:
    """Sums over the keys up to the position of each query."""
    n, width = rows.shape
    layout, size = products.layout, block_size(products.layout, n, width)
    order, (queries,) = _sort_by_position(queries.position, size, queries)
    _, (keys, rows) = _sort_by_position(keys.position, size, keys, rows)
    rows = jnp.where((jnp.arange(len(rows)) < n)[:, None], rows, 0)
    # Sums over pairs are exact, so they are left out of the checks, which bound errors.
    exact = rows.at[:, width - products.last :].set(0)

    def step(state: tuple[Array, Array], block: Array) -> tuple[tuple, Array]:
        nodes, begin = state
        block_queries = part(queries, block, size)
        end = _n_whole_blocks(keys.position[:n], block_queries.position[0], size)
        nodes = jax.lax.fori_loop(begin, end, add, nodes)
        far = lambda: read(products, block_queries.vectors, sum_nodes(nodes, products))
        zeros = lambda: jnp.zeros((size, width), rows.dtype)
        pair_sums = pairwise_sums(block_queries, keys, exact, end * size)
        return (nodes, end), jax.lax.cond(end > 0, far, zeros) + pair_sums

    def add(j: Array, nodes: Array) -> Array:
        vectors, values = part((keys.vectors, rows), j, size)
        return spread(products, vectors, values, nodes)

    blocks = jnp.arange(len(queries.x) // size, dtype=jnp.int32)
    start = no_nodes(layout, rows), jnp.int32(0)
    sums = jax.lax.scan(step, start, blocks)[1].reshape(-1, width)[: len(order)]
    return jnp.zeros_like(sums).at[order].set(sums)


def _n_whole_blocks(
    positions: Float[Array, " n"], position: Float[Array, ""], size: int
) -> Int[Array, ""]:
    """Number of whole blocks in which all sorted positions are at most `position`."""
    count = jnp.searchsorted(positions, position, side="right")
    return (count // size).astype(jnp.int32)


def _sort_by_position(
    position: Float[Array, " n"], size: int, *sides: PyTree[Array]
) -> tuple[Int[Array, " n"], tuple[PyTree[Array], ...]]:
    """The permutation that sorts positions, and the arrays, sorted and padded."""
    order = jnp.argsort(position)
    widths = lambda x: [(0, -x.shape[0] % size)] + [(0, 0)] * (x.ndim - 1)
    sort_and_pad = lambda x: jnp.pad(x[order], widths(x), mode="edge")
    return order, jax.tree.map(sort_and_pad, sides)


def part(tree: PyTree[Array], block: Int[Array, ""] | int, size: int) -> PyTree[Array]:
    """The rows of one block, from each array."""
    return jax.tree.map(
        lambda x: jax.lax.dynamic_slice_in_dim(x, block * size, size), tree
    )


def pairwise_sums(
    queries: PositionedVectors,
    keys: PositionedVectors,
    rows: Float[Array, "n r"],
    begin: Int[Array, ""],
) -> Float[Array, "m r"]:
    """Sums over the keys from index `begin` up to each query's position, by pairs.

    `begin` must be a multiple of `KEY_BLOCK`, and the number of queries a multiple of
    `QUERY_BLOCK`.
    """

    def block_sums(block: PositionedVectors) -> Float[Array, "asked r"]:
        end = jnp.searchsorted(keys.position, block.position[-1], side="right")

        def add(j: Array, sums: Array) -> Array:
            return sums + _sum_pairs(block, *part((keys, rows), j, KEY_BLOCK))

        start = jnp.zeros((QUERY_BLOCK, rows.shape[1]), rows.dtype)
        last = -(-end // KEY_BLOCK)
        return jax.lax.fori_loop(
            begin // KEY_BLOCK, last.astype(begin.dtype), add, start
        )

    split = lambda x: x.reshape(-1, QUERY_BLOCK, *x.shape[1:])
    sums = jax.lax.map(block_sums, jax.tree.map(split, queries))
    return sums.reshape(-1, rows.shape[1])


def _sum_pairs(
    queries: PositionedVectors, keys: PositionedVectors, rows: Float[Array, "given r"]
) -> Float[Array, "asked r"]:
    scores = jnp.matmul(LOG2E * queries.x, keys.x.T, precision=HIGHEST)
    scores = scores - LOG2E * queries.vectors.tops[:, None]
    scores = scores - LOG2E * keys.vectors.tops[None]
    is_seen = keys.position[None] <= queries.position[:, None]
    return jnp.matmul(jnp.where(is_seen, exp2(scores), 0), rows, precision=HIGHEST)
