"""Queries of one block side by side, so that each block of keys is read few times."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

ABREAST = 2**18  # numbers that are held at once, 2 MB


class Groups(eqx.Module):
    """Queries in rows of one length; all of a row belong to one block.

    A block has as many rows as it needs, and what its last row lacks is empty: `m`
    queries of `b` blocks take no more than `m + b (length - 1)` places.

    Attributes:
        slots: the place of each query.
        block: of each row.
        length: of a row.
    """

    slots: Int[Array, " m"]
    block: Int[Array, " rows"]
    length: int = eqx.field(static=True)

    def __init__(self, of: Int[Array, " m"], n_blocks: int, length: int) -> None:
        m = of.shape[0]
        counts = jnp.bincount(of, length=n_blocks)
        ends = jnp.cumsum(-(-counts // length))
        order = jnp.argsort(of)
        within = jnp.arange(m) - (jnp.cumsum(counts) - counts)[of[order]]
        first = jnp.concatenate([jnp.zeros(1, ends.dtype), ends[:-1]])
        slots = first[of[order]] * length + within
        self.slots = jnp.zeros(m, slots.dtype).at[order].set(slots)
        n_rows = -(-m // length) + min(n_blocks, m)
        found = jnp.searchsorted(ends, jnp.arange(n_rows), side="right")
        self.block = jnp.minimum(found, n_blocks - 1)
        self.length = length

    def rows(self, values: PyTree[Array]) -> PyTree[Array]:
        """What belongs to queries, in rows; zeros where there is none."""

        def row(leaf: Array) -> Array:
            shape = (self.block.shape[0] * self.length, *leaf.shape[1:])
            filled = jnp.zeros(shape, leaf.dtype).at[self.slots].set(leaf)
            return filled.reshape(-1, self.length, *leaf.shape[1:])

        return jax.tree.map(row, values)

    def map(
        self,
        fn: Callable[[Any, Any], Float[Array, "length p"]],
        queries: PyTree[Array],
        blocks: PyTree[Array],
    ) -> Float[Array, "m p"]:
        """What `fn` makes of each row of queries and its block, for each query."""
        own = lambda block: jax.tree.map(lambda leaf: leaf[block], blocks)
        one = jax.checkpoint(lambda row: fn(row[0], own(row[1])))
        rows = (self.rows(queries), self.block)
        leaves = jax.tree.leaves(blocks)
        held = sum(leaf[0].size for leaf in leaves) + self.length * leaves[0].shape[1]
        size = max(1, min(self.block.shape[0], ABREAST // held))
        results = jax.lax.map(one, rows, batch_size=size)
        return results.reshape(-1, *results.shape[2:])[self.slots]
