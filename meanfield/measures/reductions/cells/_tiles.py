"""Vectors sorted by cell, in tiles that each lie in one cell."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ._bound import angles

TILE = 64  # vectors
CHUNK = 32  # tiles at once: what they take besides products is taken together


class Chunk(NamedTuple):
    """Some tiles.

    Attributes:
        corner: of each tile's cell, its number along each axis.
        members: the vectors of each tile; `n` where there is none.
    """

    corner: Int[Array, "chunk k"]
    members: Int[Array, "chunk tile"]


class Tiles(NamedTuple):
    """Tiles of vectors, a multiple of `CHUNK`.

    Attributes:
        corner: of each tile's cell, its number along each axis.
        members: the vectors of each tile; `n` where there is none.
        chunks: how many chunks hold vectors, the first of all.
    """

    corner: Int[Array, "tiles k"]
    members: Int[Array, "tiles tile"]
    chunks: Int[Array, ""]

    def chunk(self, i: Int[Array, ""]) -> Chunk:
        """The tiles of one chunk."""
        taken = lambda x: jax.lax.dynamic_slice_in_dim(x, i * CHUNK, CHUNK)
        return Chunk(taken(self.corner), taken(self.members))


class Places(NamedTuple):
    """Where vectors are: the cell of each, and within it, in [-1, 1]."""

    cell: Int[Array, "n k"]
    within: Float[Array, "n k"]


def placed(
    centred: Float[Array, "n k"], half: Float[Array, " k"], cells: tuple[int, ...]
) -> Places:
    """Places of vectors within `half` of the origin, along each axis."""
    counts = jnp.asarray(cells)
    along = (centred / half[None] + 1) / 2 * counts[None]
    cell = jnp.clip(jnp.floor(jax.lax.stop_gradient(along)), 0, counts[None] - 1)
    return Places(cell.astype(jnp.int32), 2 * (along - cell) - 1)


def places_of_nodes(cells: int, nodes: int) -> Float[np.ndarray, " all"]:
    """Places of all nodes along an axis from -1 to 1."""
    within = np.cos(angles(nodes)) / cells
    return (_middles(cells)[:, None] + within[None]).reshape(-1)


def far_ends(cells: int) -> Float[np.ndarray, " cells"]:
    """How far the far ends of cells are along an axis from -1 to 1."""
    return np.abs(_middles(cells)) + 1 / cells


def _middles(cells: int) -> Float[np.ndarray, " cells"]:
    return (2 * np.arange(cells) + 1) / cells - 1


def tiled(cell: Int[Array, "n k"], cells: tuple[int, ...]) -> Tiles:
    """All vectors in tiles, cell by cell."""
    n, total = len(cell), 1
    number = jnp.zeros(n, jnp.int32)
    for axis, count in enumerate(cells):
        number, total = number * count + cell[:, axis], total * count
    order = _ordered(number)
    sizes = jnp.bincount(number, length=total)
    tiles = -(-sizes // TILE)
    ends, tile_ends = jnp.cumsum(sizes), jnp.cumsum(tiles)
    tile = jnp.arange(-(-(n // TILE + min(total, n)) // CHUNK) * CHUNK)
    own = jnp.minimum(jnp.searchsorted(tile_ends, tile, side="right"), total - 1)
    offset = (tile - (tile_ends - tiles)[own]) * TILE
    place = (ends - sizes)[own][:, None] + offset[:, None] + jnp.arange(TILE)[None]
    is_member = place < ends[own][:, None]
    members = jnp.where(is_member, order[jnp.minimum(place, n - 1)], n)
    corner = jnp.stack(jnp.unravel_index(own, cells), axis=-1)
    chunks = -(-tile_ends[-1] // CHUNK)
    return Tiles(corner.astype(jnp.int32), members, chunks.astype(jnp.int32))


def _ordered(number: Int[Array, " n"]) -> Int[Array, " n"]:
    """Indices in the order of numbers: each pair in one integer, four times as fast."""
    pairs = (number.astype(jnp.int64) << 32) | jnp.arange(len(number))
    return (jax.lax.sort(pairs, is_stable=False) & (2**32 - 1)).astype(jnp.int32)
