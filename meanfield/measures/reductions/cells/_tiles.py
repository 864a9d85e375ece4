"""Tiles: groups of vectors in the same cell."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ._bound import angles

TILE = 64  # number of vectors in a tile
CHUNK = 32  # number of tiles in a chunk, which share the overhead of an iteration


class Chunk(NamedTuple):
    """Several tiles, which are processed in one iteration.

    Attributes:
        corner: index of each tile's cell along each axis.
        members: indices of the vectors of each tile, padded with `n`.
    """

    corner: Int[Array, "chunk k"]
    members: Int[Array, "chunk tile"]

    def local_coordinates(
        self, places: Float[Array, "n k"]
    ) -> Float[Array, "chunk tile k"]:
        """Coordinates of members in the cell of their tile, in [-1, 1].

        A vector on an edge, which rounding may put on either side, is clipped to the
        cell that it was sorted into.
        """
        member_places = places.at[self.members].get(mode="fill", fill_value=0)
        return jnp.clip(2 * (member_places - self.corner[:, None]) - 1, -1, 1)


class Tiles(NamedTuple):
    """Tiles of vectors; their number is a multiple of `CHUNK`.

    Attributes:
        corner: index of each tile's cell along each axis.
        members: indices of the vectors of each tile, padded with `n`.
        chunks: number of leading chunks that contain vectors.
    """

    corner: Int[Array, "tiles k"]
    members: Int[Array, "tiles tile"]
    chunks: Int[Array, ""]

    def chunk(self, i: Int[Array, ""]) -> Chunk:
        """The tiles of one chunk."""
        take = lambda x: jax.lax.dynamic_slice_in_dim(x, i * CHUNK, CHUNK)
        return Chunk(take(self.corner), take(self.members))


def places(
    vectors: Float[Array, "n k"], half: Float[Array, " k"], cells: tuple[int, ...]
) -> Float[Array, "n k"]:
    """Coordinates of vectors in units of cells, counted from the edge of the box.

    Args:
        vectors: vectors within `half` of the origin.
        half: half-widths of the box.
        cells: number of cells along each axis.
    """
    return (vectors / half[None] + 1) / 2 * jnp.asarray(cells)[None]


def places_of_nodes(cells: int, nodes: int) -> Float[np.ndarray, " all"]:
    """Coordinates of all nodes on an axis from -1 to 1."""
    offsets = np.cos(angles(nodes)) / cells
    return (_middles(cells)[:, None] + offsets[None]).reshape(-1)


def far_ends(cells: int) -> Float[np.ndarray, " cells"]:
    """Distance of the far end of each cell from 0, on an axis from -1 to 1."""
    return np.abs(_middles(cells)) + 1 / cells


def _middles(cells: int) -> Float[np.ndarray, " cells"]:
    return (2 * np.arange(cells) + 1) / cells - 1


def tile_vectors(places: Float[Array, "n k"], cells: tuple[int, ...]) -> Tiles:
    """Sorts all vectors into tiles, cell by cell.

    Only this sort assigns vectors to cells, and everything else follows from its
    result. Otherwise the compiler might compute the cell of a vector twice with
    different rounding, and put a vector on an edge into two cells.
    """
    n, total = len(places), 1
    number = jnp.zeros(n, jnp.int32)
    for axis, count in enumerate(cells):
        cell = jnp.clip(jnp.floor(places[:, axis]), 0, count - 1).astype(jnp.int32)
        number, total = number * count + cell, total * count
    numbers, order = _sort_numbers(number)
    ends = jnp.searchsorted(numbers, jnp.arange(total), side="right")
    sizes = jnp.diff(ends, prepend=0)
    tiles = -(-sizes // TILE)
    tile_ends = jnp.cumsum(tiles)
    tile = jnp.arange(-(-(n // TILE + min(total, n)) // CHUNK) * CHUNK)
    tile_cells = jnp.minimum(jnp.searchsorted(tile_ends, tile, side="right"), total - 1)
    offset = (tile - (tile_ends - tiles)[tile_cells]) * TILE
    place = (
        (ends - sizes)[tile_cells][:, None] + offset[:, None] + jnp.arange(TILE)[None]
    )
    is_member = place < ends[tile_cells][:, None]
    members = jnp.where(is_member, order[jnp.minimum(place, n - 1)], n)
    corner = jnp.stack(jnp.unravel_index(tile_cells, cells), axis=-1)
    chunks = -(-tile_ends[-1] // CHUNK)
    return Tiles(corner.astype(jnp.int32), members, chunks.astype(jnp.int32))


def _sort_numbers(
    number: Int[Array, " n"],
) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """Sorted numbers and their indices, packed into one integer for a faster sort."""
    pairs = (number.astype(jnp.int64) << 32) | jnp.arange(len(number))
    pairs = jax.lax.sort(pairs, is_stable=False)
    order = (pairs & (2**32 - 1)).astype(jnp.int32)
    return (pairs >> 32).astype(jnp.int32), order
