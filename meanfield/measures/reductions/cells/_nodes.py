r"""Sums on the nodes of cells: spread from vectors, summed along axes, and read.

Vectors of one cell are spread and read in tiles, by products of the polynomials of
its axes; nodes of keys are summed for nodes of queries along one axis after the other.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from meanfield.linalg import HIGHEST

from ._bound import to_coefficients
from ._layout import AbstractLayout
from ._tiles import CHUNK, TILE, Places, tiled


class Products(NamedTuple):
    """What nodes are summed with: along each axis, and for the last rows otherwise."""

    layout: AbstractLayout
    narrow: list[Array]
    wide: list[Array]
    last: int


def summed(nodes: Float[Array, "r ..."], products: Products) -> Array:
    """Summed along all axes; the last rows with other kernels."""
    most = len(nodes) - products.last
    nodes = _summed_from(nodes, products.narrow, 0, most)
    return _summed_from(nodes, products.wide, most, len(nodes))


def no_nodes(layout: AbstractLayout, rows: Float[Array, "n r"]) -> Array:
    """Nodes on which nothing is, for rows like these."""
    return jnp.zeros((rows.shape[1], *layout.counts), rows.dtype)


def _summed_from(
    nodes: Float[Array, "r ..."], kernels: list[Array], begin: int, end: int
) -> Float[Array, "r ..."]:
    """Row by row in place, for nodes may fill the memory."""
    contraction = (((0,), (1,)), ((), ()))

    def sum_one(row: Array, nodes: Array) -> Array:
        found = jax.lax.dynamic_index_in_dim(nodes, row, keepdims=False)
        for kernel in kernels:
            # The axis that is summed over comes first, and what it becomes comes last.
            found = jax.lax.dot_general(found, kernel, contraction, precision=HIGHEST)
        return jax.lax.dynamic_update_index_in_dim(nodes, found, row, 0)

    if begin == end:
        return nodes
    return jax.lax.fori_loop(begin, end, sum_one, nodes)


def spread(
    layout: AbstractLayout,
    places: Places,
    rows: Float[Array, "n r"],
    onto: Float[Array, "r ..."],
) -> Float[Array, "r ..."]:
    """Rows added to nodes of their cells: an array of rows, then of the nodes' axes."""
    tiles = tiled(places.cell, layout.cells)
    d, width = len(layout.cells), rows.shape[1]
    shape, few = (width, *[layout.nodes] * d), d // 2

    def add(i: Array, nodes: Array) -> Array:
        chunk = tiles.chunk(i)
        bases = _bases(layout.nodes, _taken(places.within, chunk.members))
        values = jnp.swapaxes(_taken(rows, chunk.members), 1, 2)
        first, last = _products([values, *bases[:few]]), _products(bases[few:])
        blocks = jnp.einsum("bft,blt->bfl", first, last, precision=HIGHEST)
        blocks = blocks.reshape(CHUNK, *shape)

        def add_one(j: Array, nodes: Array) -> Array:
            at = (jnp.int32(0), *layout.nodes * chunk.corner[j])
            old = jax.lax.dynamic_slice(nodes, at, shape)
            return jax.lax.dynamic_update_slice(nodes, old + blocks[j], at)

        return jax.lax.fori_loop(0, CHUNK, add_one, nodes)

    return jax.lax.fori_loop(0, tiles.chunks, add, onto)


def read(
    layout: AbstractLayout, places: Places, nodes: Float[Array, "r ..."]
) -> Float[Array, "m r"]:
    """What nodes hold, interpolated where queries are."""
    tiles = tiled(places.cell, layout.cells)
    d, (width, *_), m = len(layout.cells), nodes.shape, len(places.cell)
    shape, few = (width, *[layout.nodes] * d), d // 2
    block_of = lambda corner: jax.lax.dynamic_slice(
        nodes, (jnp.int32(0), *layout.nodes * corner), shape
    )

    def read(i: Array, sums: Array) -> Array:
        chunk = tiles.chunk(i)
        bases = _bases(layout.nodes, _taken(places.within, chunk.members))
        first, last = _products(bases[:few]), _products(bases[few:])
        blocks = jax.lax.map(block_of, chunk.corner)
        blocks = blocks.reshape(CHUNK, width, first.shape[1], last.shape[1])
        inner = jnp.einsum("bwfl,blt->bwft", blocks, last, precision=HIGHEST)
        found = jnp.swapaxes(jnp.sum(inner * first[:, None], axis=2), 1, 2)
        return sums.at[chunk.members].set(found, mode="drop")

    start = jnp.zeros((m, width), nodes.dtype)
    return jax.lax.fori_loop(0, tiles.chunks, read, start)


def _bases(count: int, within: Float[Array, "chunk tile k"]) -> list[Array]:
    """Lagrange's polynomials of the nodes along each axis, (chunk, nodes, tile)."""
    transform = jnp.asarray(to_coefficients(count).T)
    polynomials = [jnp.ones_like(within), within]
    for _ in range(count - 2):
        polynomials.append(2 * within * polynomials[-1] - polynomials[-2])
    values = jnp.stack(polynomials[:count])
    return [
        jnp.einsum("pc,cbt->bpt", transform, values[..., axis], precision=HIGHEST)
        for axis in range(within.shape[2])
    ]


def _products(factors: list[Array]) -> Float[Array, "chunk rows tile"]:
    """All products of one row of each (Khatri and Rao), the last counting fastest."""
    if not factors:
        return jnp.ones((CHUNK, 1, TILE))
    first, *others = factors
    for factor in others:
        first = (first[:, :, None] * factor[:, None]).reshape(CHUNK, -1, TILE)
    return first


def _taken(x: Float[Array, "n c"], members: Int[Array, "chunk tile"]) -> Array:
    """The vectors of tiles; zeros at places that hold nothing."""
    return x.at[members].get(mode="fill", fill_value=0)
