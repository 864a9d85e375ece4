"""Vectors sorted by cell, in tiles that each lie in one cell."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

TILE = 128  # vectors


class Tiles(NamedTuple):
    """Tiles of vectors, of which the first `used` hold any.

    Attributes:
        corner: of each tile's cell, its number along each axis.
        members: the vectors of each tile; `n` where there is none.
        used: how many tiles hold vectors.
    """

    corner: Int[Array, "tiles k"]
    members: Int[Array, "tiles tile"]
    used: Int[Array, ""]


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


def tiled(cell: Int[Array, "n k"], cells: tuple[int, ...]) -> Tiles:
    """All vectors in tiles, cell by cell."""
    n, total = len(cell), 1
    number = jnp.zeros(n, jnp.int32)
    for axis, count in enumerate(cells):
        number, total = number * count + cell[:, axis], total * count
    keys = number, jnp.arange(n, dtype=jnp.int32)
    order = jax.lax.sort(keys, num_keys=1, is_stable=True)[1]
    sizes = jnp.bincount(number, length=total)
    tiles = -(-sizes // TILE)
    ends, tile_ends = jnp.cumsum(sizes), jnp.cumsum(tiles)
    tile = jnp.arange(n // TILE + min(total, n))
    own = jnp.minimum(jnp.searchsorted(tile_ends, tile, side="right"), total - 1)
    offset = (tile - (tile_ends - tiles)[own]) * TILE
    place = (ends - sizes)[own][:, None] + offset[:, None] + jnp.arange(TILE)[None]
    is_member = place < ends[own][:, None]
    members = jnp.where(is_member, order[jnp.minimum(place, n - 1)], n)
    corner = jnp.stack(jnp.unravel_index(own, cells), axis=-1)
    return Tiles(corner.astype(jnp.int32), members, tile_ends[-1].astype(jnp.int32))
