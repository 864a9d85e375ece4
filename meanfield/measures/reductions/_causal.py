r"""Causal sums between Chebyshev nodes: prefixes, not pairs.

Tokens are taken in the order of their positions, block by block. The keys of all
earlier blocks are known by their sums at nodes, to which one block after the other is
added; those of a query's own block, and of others at the same position, are summed one
by one. So a step costs as much as without a mask, and each query a block of pairs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from meanfield.linalg import HIGHEST

from ._nodes import Box, Keyed, Lattice, between
from .exact import LOG2E, exp2

BLOCK = 512  # tokens, of queries and of keys
FEW = 8  # blocks of keys that are not interpolated: means of few tokens are not smooth


class Placed(NamedTuple):
    """Queries, along the axes of a box, and their positions."""

    along: Float[Array, "m k"]
    position: Float[Array, " m"]


class PlacedKeys(NamedTuple):
    """Keys and their positions."""

    keys: Keyed
    position: Float[Array, " n"]


class Partial(NamedTuple):
    """Sums over some keys, divided by `exp(top)`: zero where there are none."""

    sums: Float[Array, "r m"]
    top: Float[Array, " m"]


def causal_log_mean(
    box: Box, counts: tuple[int, ...], queries: Placed, keys: PlacedKeys
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Means over the keys at a query's position and before, and their log-masses."""
    lattice = Lattice.over(box, keys.keys.along, counts)
    key_order, query_order = _order(keys.position), _order(queries.position)
    places = keys.position[key_order]
    blocks = _keys_in_blocks(_taken(keys, key_order))

    def step(
        state: tuple[Array, Int[Array, ""]], part: Placed
    ) -> tuple[tuple[Array, Int[Array, ""]], tuple[Array, Array]]:
        total, start_block = state
        ends = jnp.stack([jnp.min(part.position), jnp.max(part.position)])
        reach = jnp.searchsorted(places, ends, side="right")
        whole, end = reach[0] // BLOCK, -(-reach[1] // BLOCK)
        whole = jnp.where(whole < FEW, 0, whole)
        add = lambda j, sums: sums + _at_nodes(lattice, _taken(blocks.keys, j))
        total = jax.lax.fori_loop(start_block, whole, add, total)
        more = lambda j, partial: _and(partial, part, _taken(blocks, j))
        before = _before(total, lattice, box.within(part.along))
        result = jax.lax.fori_loop(whole, end, more, before)
        return (total, whole), _means(result)

    start = jnp.zeros((keys.keys.values.shape[1] + 1, *counts), places.dtype)
    cut = _in_blocks(_taken(queries, query_order))
    means, logs = jax.lax.scan(step, (start, jnp.zeros((), jnp.int32)), cut)[1]
    means = jnp.moveaxis(means, 1, 0).reshape(means.shape[1], logs.size)
    back = jnp.zeros_like(query_order).at[query_order].set(jnp.arange(len(query_order)))
    return means[:, back], logs.reshape(-1)[back]


def _before(
    total: Float[Array, "r ..."], lattice: Lattice, at: Float[Array, "k m"]
) -> Partial:
    """What the keys of whole blocks sum up to, from their sums at nodes."""
    none = jnp.all(total[-1] == 0)
    means, logs = between(jnp.where(none, 1, total), lattice, at)
    sums = jnp.concatenate([means, jnp.ones_like(logs)[None]])
    return Partial(jnp.where(none, 0, sums), jnp.where(none, -jnp.inf, logs))


def _and(partial: Partial, queries: Placed, block: PlacedKeys) -> Partial:
    """With the keys of one block, one by one."""
    side = block.keys
    scores = (
        jnp.matmul(side.along, queries.along.T, precision=HIGHEST) + side.logs[:, None]
    )
    visible = block.position[:, None] <= queries.position[None]
    scores = jnp.where(visible, scores, -jnp.inf)
    top = jax.lax.stop_gradient(jnp.maximum(partial.top, jnp.max(scores, axis=0)))
    finite = jnp.where(jnp.isneginf(top), 0, top)
    powers = _powers(scores - finite[None])
    addition = jnp.matmul(side.summed, powers, precision=HIGHEST)
    return Partial(partial.sums * _powers(partial.top - finite)[None] + addition, top)


def _powers(exponents: Float[Array, "..."]) -> Float[Array, "..."]:
    none = jnp.isneginf(exponents)
    return jnp.where(none, 0, exp2(LOG2E * jnp.where(none, 0, exponents)))


def _means(partial: Partial) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    mass = partial.sums[-1]
    none = mass == 0
    safe = jnp.where(none, 1, mass)
    logs = jnp.where(none, -jnp.inf, partial.top + jnp.log(safe))
    return jnp.where(none[None], 0, partial.sums[:-1] / safe[None]), logs


def _at_nodes(lattice: Lattice, block: Keyed) -> Float[Array, "r ..."]:
    return lattice.sums(block.along, block.rows)


def _order(position: Float[Array, " n"]) -> Int[Array, " n"]:
    """The tokens in the order of their positions, in which they mostly are."""
    is_ordered = jnp.all(position[1:] >= position[:-1])
    as_they_are = lambda: jnp.arange(position.shape[0])
    return jax.lax.cond(is_ordered, as_they_are, lambda: jnp.argsort(position))


def _taken(tree: PyTree[Array], index: Array) -> PyTree[Array]:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _keys_in_blocks(keys: PlacedKeys) -> PlacedKeys:
    """Blocks of keys; the last is filled up with its last one, which weighs nothing."""
    blocks, n = _in_blocks(keys), keys.position.shape[0]
    filled = jnp.arange(blocks.position.size).reshape(blocks.position.shape) >= n
    logs = jnp.where(filled, -jnp.inf, blocks.keys.logs)
    return blocks._replace(keys=blocks.keys._replace(logs=logs))


def _in_blocks(tree: PyTree[Array]) -> PyTree[Array]:
    def split(x: Array) -> Array:
        widths = [(0, -x.shape[0] % BLOCK)] + [(0, 0)] * (x.ndim - 1)
        count = -(-x.shape[0] // BLOCK)
        return jnp.pad(x, widths, mode="edge").reshape(count, BLOCK, *x.shape[1:])

    return jax.tree.map(split, tree)
