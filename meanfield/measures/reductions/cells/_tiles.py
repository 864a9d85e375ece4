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

    def within(self, places: Float[Array, "n k"]) -> Float[Array, "chunk tile k"]:
        """Where members lie in the cell of their tile, in [-1, 1].

        A vector on an edge, which rounding may put on either side, is at the end of the
        cell that it was sorted into.
        """
        there = places.at[self.members].get(mode="fill", fill_value=0)
        return jnp.clip(2 * (there - self.corner[:, None]) - 1, -1, 1)


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


def places(
    centred: Float[Array, "n k"], half: Float[Array, " k"], cells: tuple[int, ...]
) -> Float[Array, "n k"]:
    """Places of vectors within `half` of the origin, in cells from the first edge."""
    return (centred / half[None] + 1) / 2 * jnp.asarray(cells)[None]


def places_of_nodes(cells: int, nodes: int) -> Float[np.ndarray, " all"]:
    """Places of all nodes along an axis from -1 to 1."""
    within = np.cos(angles(nodes)) / cells
    return (_middles(cells)[:, None] + within[None]).reshape(-1)


def far_ends(cells: int) -> Float[np.ndarray, " cells"]:
    """How far the far ends of cells are along an axis from -1 to 1."""
    return np.abs(_middles(cells)) + 1 / cells


def _middles(cells: int) -> Float[np.ndarray, " cells"]:
    return (2 * np.arange(cells) + 1) / cells - 1


def tiled(places: Float[Array, "n k"], cells: tuple[int, ...]) -> Tiles:
    """All vectors in tiles, cell by cell.

    The sort is the only place where a vector is assigned to a cell, and all else is
    read off its result: the compiler may compute cells a second time, round otherwise,
    and find a vector that lies on an edge in the next one.
    """
    n, total = len(places), 1
    number = jnp.zeros(n, jnp.int32)
    for axis, count in enumerate(cells):
        cell = jnp.clip(jnp.floor(places[:, axis]), 0, count - 1).astype(jnp.int32)
        number, total = number * count + cell, total * count
    numbers, order = _sorted(number)
    ends = jnp.searchsorted(numbers, jnp.arange(total), side="right")
    sizes = jnp.diff(ends, prepend=0)
    tiles = -(-sizes // TILE)
    tile_ends = jnp.cumsum(tiles)
    tile = jnp.arange(-(-(n // TILE + min(total, n)) // CHUNK) * CHUNK)
    own = jnp.minimum(jnp.searchsorted(tile_ends, tile, side="right"), total - 1)
    offset = (tile - (tile_ends - tiles)[own]) * TILE
    place = (ends - sizes)[own][:, None] + offset[:, None] + jnp.arange(TILE)[None]
    is_member = place < ends[own][:, None]
    members = jnp.where(is_member, order[jnp.minimum(place, n - 1)], n)
    corner = jnp.stack(jnp.unravel_index(own, cells), axis=-1)
    chunks = -(-tile_ends[-1] // CHUNK)
    return Tiles(corner.astype(jnp.int32), members, chunks.astype(jnp.int32))


def _sorted(number: Int[Array, " n"]) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """Numbers in order, and their indices: one integer a pair is four times as fast."""
    pairs = (number.astype(jnp.int64) << 32) | jnp.arange(len(number))
    pairs = jax.lax.sort(pairs, is_stable=False)
    order = (pairs & (2**32 - 1)).astype(jnp.int32)
    return (pairs >> 32).astype(jnp.int32), order
