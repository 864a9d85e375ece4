r"""Causal sums by Chebyshev interpolation, with prefix sums instead of pairs.

Tokens are sorted by position and processed block by block. The nodes hold the sums over
the keys of all earlier blocks; each block is added when later blocks need it. Keys in
the block of a query, or at its position, are summed pair by pair. Compared with sums
without a mask, the extra cost is one block of pairs for each query.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from meanfield.linalg import HIGHEST

from ._nodes import Box, Lattice, ProjectedKeys, interpolate_log_mean
from .kernels import LOG2E, exp2

BLOCK = 512  # tokens in a block, of queries or keys
# Fewer than 8 blocks are summed without interpolation, as means of few tokens are not
# smooth.
MIN_BLOCKS = 8


class PositionedQueries(NamedTuple):
    """Queries, projected onto the axes of a box, and their positions."""

    projections: Float[Array, "m k"]
    position: Float[Array, " m"]


class PositionedKeys(NamedTuple):
    """Keys and their positions."""

    keys: ProjectedKeys
    position: Float[Array, " n"]


class Partial(NamedTuple):
    """Sums over some keys, divided by `exp(top)`; zeros if there are no keys."""

    sums: Float[Array, "r m"]
    top: Float[Array, " m"]


def causal_log_mean(
    box: Box, counts: tuple[int, ...], queries: PositionedQueries, keys: PositionedKeys
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Means over the keys up to the position of each query, and their log-masses."""
    lattice = Lattice.from_box(box, keys.keys.projections, counts)
    key_order, query_order = _order(keys.position), _order(queries.position)
    places = keys.position[key_order]
    blocks = _split_keys(_take(keys, key_order))

    def step(
        state: tuple[Array, Int[Array, ""]], part: PositionedQueries
    ) -> tuple[tuple[Array, Int[Array, ""]], tuple[Array, Array]]:
        total, start_block = state
        ends = jnp.stack([jnp.min(part.position), jnp.max(part.position)])
        reach = jnp.searchsorted(places, ends, side="right")
        whole, end = reach[0] // BLOCK, -(-reach[1] // BLOCK)
        whole = jnp.where(whole < MIN_BLOCKS, 0, whole)
        add = lambda j, sums: sums + _block_sums(lattice, _take(blocks.keys, j))
        total = jax.lax.fori_loop(start_block, whole, add, total)
        more = lambda j, partial: _add_block(partial, part, _take(blocks, j))
        prefix = _prefix_sums(total, lattice, box.normalise(part.projections))
        result = jax.lax.fori_loop(whole, end, more, prefix)
        return (total, whole), _means(result)

    start = jnp.zeros((keys.keys.values.shape[1] + 1, *counts), places.dtype)
    cut = _split_blocks(_take(queries, query_order))
    means, logs = jax.lax.scan(step, (start, jnp.zeros((), jnp.int32)), cut)[1]
    means = jnp.moveaxis(means, 1, 0).reshape(means.shape[1], logs.size)
    back = jnp.zeros_like(query_order).at[query_order].set(jnp.arange(len(query_order)))
    return means[:, back], logs.reshape(-1)[back]


def _prefix_sums(
    total: Float[Array, "r ..."], lattice: Lattice, coordinates: Float[Array, "k m"]
) -> Partial:
    """Sums over the keys of whole blocks, interpolated from the nodes."""
    is_empty = jnp.all(total[-1] == 0)
    means, logs = interpolate_log_mean(
        jnp.where(is_empty, 1, total), lattice, coordinates
    )
    sums = jnp.concatenate([means, jnp.ones_like(logs)[None]])
    return Partial(jnp.where(is_empty, 0, sums), jnp.where(is_empty, -jnp.inf, logs))


def _add_block(
    partial: Partial, queries: PositionedQueries, block: PositionedKeys
) -> Partial:
    """Adds the keys of one block to `partial`, pair by pair."""
    side = block.keys
    scores = (
        jnp.matmul(side.projections, queries.projections.T, precision=HIGHEST)
        + side.logs[:, None]
    )
    visible = block.position[:, None] <= queries.position[None]
    scores = jnp.where(visible, scores, -jnp.inf)
    top = jax.lax.stop_gradient(jnp.maximum(partial.top, jnp.max(scores, axis=0)))
    finite = jnp.where(jnp.isneginf(top), 0, top)
    powers = _powers(scores - finite[None])
    addition = jnp.matmul(side.value_rows, powers, precision=HIGHEST)
    return Partial(partial.sums * _powers(partial.top - finite)[None] + addition, top)


def _powers(exponents: Float[Array, "..."]) -> Float[Array, "..."]:
    is_excluded = jnp.isneginf(exponents)
    return jnp.where(is_excluded, 0, exp2(LOG2E * jnp.where(is_excluded, 0, exponents)))


def _means(partial: Partial) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    mass = partial.sums[-1]
    is_empty = mass == 0
    safe = jnp.where(is_empty, 1, mass)
    logs = jnp.where(is_empty, -jnp.inf, partial.top + jnp.log(safe))
    return jnp.where(is_empty[None], 0, partial.sums[:-1] / safe[None]), logs


def _block_sums(lattice: Lattice, block: ProjectedKeys) -> Float[Array, "r ..."]:
    return lattice.sums(block.projections, block.weighted_rows)


def _order(position: Float[Array, " n"]) -> Int[Array, " n"]:
    """The permutation that sorts tokens by position; the identity for sorted tokens."""
    is_ordered = jnp.all(position[1:] >= position[:-1])
    identity_order = lambda: jnp.arange(position.shape[0])
    return jax.lax.cond(is_ordered, identity_order, lambda: jnp.argsort(position))


def _take(tree: PyTree[Array], index: Array) -> PyTree[Array]:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _split_keys(keys: PositionedKeys) -> PositionedKeys:
    """Splits keys into blocks; the last block is padded with keys of weight zero."""
    blocks, n = _split_blocks(keys), keys.position.shape[0]
    is_padding = jnp.arange(blocks.position.size).reshape(blocks.position.shape) >= n
    logs = jnp.where(is_padding, -jnp.inf, blocks.keys.logs)
    return blocks._replace(keys=blocks.keys._replace(logs=logs))


def _split_blocks(tree: PyTree[Array]) -> PyTree[Array]:
    def split(x: Array) -> Array:
        widths = [(0, -x.shape[0] % BLOCK)] + [(0, 0)] * (x.ndim - 1)
        count = -(-x.shape[0] // BLOCK)
        return jnp.pad(x, widths, mode="edge").reshape(count, BLOCK, *x.shape[1:])

    return jax.tree.map(split, tree)
