"""Queries grouped by block, so that each block of keys is read only a few times."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

MAX_NUMBERS = 2**18  # largest count of numbers in memory at once; they take 2 MB


class Groups(eqx.Module):
    """Queries in rows of equal length, where each row belongs to one block.

    A block has as many rows as it needs, and its last row is padded: `m` queries in `b`
    blocks take at most `m + b (length - 1)` slots.

    Attributes:
        slots: slot of each query.
        block: block of each row.
        length: number of slots in a row.
    """

    slots: Int[Array, " m"]
    block: Int[Array, " rows"]
    length: int = eqx.field(static=True)

    def __init__(
        self, query_block: Int[Array, " m"], n_blocks: int, length: int
    ) -> None:
        m = query_block.shape[0]
        counts = jnp.bincount(query_block, length=n_blocks)
        ends = jnp.cumsum(-(-counts // length))
        order = jnp.argsort(query_block)
        offsets = jnp.arange(m) - (jnp.cumsum(counts) - counts)[query_block[order]]
        first = jnp.concatenate([jnp.zeros(1, ends.dtype), ends[:-1]])
        slots = first[query_block[order]] * length + offsets
        self.slots = jnp.zeros(m, slots.dtype).at[order].set(slots)
        n_rows = -(-m // length) + min(n_blocks, m)
        row_block = jnp.searchsorted(ends, jnp.arange(n_rows), side="right")
        self.block = jnp.minimum(row_block, n_blocks - 1)
        self.length = length

    def rows(self, values: PyTree[Array]) -> PyTree[Array]:
        """Arranges arrays with one entry for each query in rows, padded with zeros."""

        def row(leaf: Array) -> Array:
            shape = (self.block.shape[0] * self.length, *leaf.shape[1:])
            padded_leaf = jnp.zeros(shape, leaf.dtype).at[self.slots].set(leaf)
            return padded_leaf.reshape(-1, self.length, *leaf.shape[1:])

        return jax.tree.map(row, values)

    def map(
        self,
        fn: Callable[[Any, Any], Float[Array, "length p"]],
        queries: PyTree[Array],
        blocks: PyTree[Array],
    ) -> Float[Array, "m p"]:
        """Applies `fn` to each row of queries and its block; one result per query."""
        take_block = lambda block: jax.tree.map(lambda leaf: leaf[block], blocks)
        map_row = jax.checkpoint(lambda row: fn(row[0], take_block(row[1])))
        rows = (self.rows(queries), self.block)
        leaves = jax.tree.leaves(blocks)
        row_size = (
            sum(leaf[0].size for leaf in leaves) + self.length * leaves[0].shape[1]
        )
        size = max(1, min(self.block.shape[0], MAX_NUMBERS // row_size))
        results = jax.lax.map(map_row, rows, batch_size=size)
        return results.reshape(-1, *results.shape[2:])[self.slots]
