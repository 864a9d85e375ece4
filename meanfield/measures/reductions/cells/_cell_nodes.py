r"""Sums on the nodes of cells: spread from vectors, summed along axes, and read.

Vectors of one cell are spread and read in tiles, by products of the polynomials of
its axes; nodes of keys are summed for nodes of queries along one axis after the other.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST

from ._bound import to_coefficients
from ._layout import AbstractLayout
from ._tiles import CHUNK, TILE, Chunk, tiled


class Products(NamedTuple):
    """What nodes are summed with.

    Attributes:
        layout: the cells.
        narrow: kernels along each axis.
        wide: those of the last rows.
        last: the number of these.
        read_tops: `cell_tops` of the layout, of what is read.
        spread_tops: those of what is spread.
    """

    layout: AbstractLayout
    narrow: list[Array]
    wide: list[Array]
    last: int
    read_tops: list[Array]
    spread_tops: list[Array]

    @property
    def transposed(self) -> "Products":
        """With queries and keys exchanged."""
        narrow, wide = ([k.T for k in kernels] for kernels in (self.narrow, self.wide))
        tops = self.spread_tops, self.read_tops
        return Products(self.layout, narrow, wide, self.last, *tops)


class Vectors(NamedTuple):
    """Queries or keys.

    Attributes:
        places: see `places`.
        tops: what is subtracted from their scores; see `AbstractLayout.tops`.
    """

    places: Float[Array, "n k"]
    tops: Float[Array, " n"]


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
    products: Products,
    vectors: Vectors,
    rows: Float[Array, "n r"],
    onto: Float[Array, "r ..."],
) -> Float[Array, "r ..."]:
    """Rows added to nodes of their cells: an array of rows, then of the nodes' axes."""
    layout, tops = products.layout, products.spread_tops
    tiles = tiled(vectors.places, layout.cells)
    d, width = len(layout.cells), rows.shape[1]
    shape, few = (width, *[layout.nodes] * d), d // 2

    def add(i: Array, nodes: Array) -> Array:
        chunk = tiles.chunk(i)
        bases = _bases(layout.nodes, chunk.within(vectors.places))
        members = rows.at[chunk.members].get(mode="fill", fill_value=0)
        values = jnp.swapaxes(_lifted(members, vectors, chunk, tops), 1, 2)
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
    products: Products, vectors: Vectors, nodes: Float[Array, "r ..."]
) -> Float[Array, "m r"]:
    """What nodes hold, interpolated where queries are."""
    layout, tops = products.layout, products.read_tops
    tiles = tiled(vectors.places, layout.cells)
    d, (width, *_), m = len(layout.cells), nodes.shape, len(vectors.places)
    shape, few = (width, *[layout.nodes] * d), d // 2
    block_of = lambda corner: jax.lax.dynamic_slice(
        nodes, (jnp.int32(0), *layout.nodes * corner), shape
    )

    def read(i: Array, sums: Array) -> Array:
        chunk = tiles.chunk(i)
        bases = _bases(layout.nodes, chunk.within(vectors.places))
        first, last = _products(bases[:few]), _products(bases[few:])
        blocks = jax.lax.map(block_of, chunk.corner)
        blocks = blocks.reshape(CHUNK, width, first.shape[1], last.shape[1])
        inner = jnp.einsum("bwfl,blt->bwft", blocks, last, precision=HIGHEST)
        found = jnp.swapaxes(jnp.sum(inner * first[:, None], axis=2), 1, 2)
        found = _lifted(found, vectors, chunk, tops)
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


def _lifted(
    rows: Float[Array, "chunk tile r"],
    vectors: Vectors,
    chunk: Chunk,
    cell_tops: list[Array],
) -> Float[Array, "chunk tile r"]:
    """Rows in units of the tops of vectors, from those of the cells of their tiles."""
    if not cell_tops:
        return rows
    own = vectors.tops.at[chunk.members].get(mode="fill", fill_value=jnp.inf)
    tops = sum(part[chunk.corner[:, axis]] for axis, part in enumerate(cell_tops))
    return rows * jnp.exp(jnp.asarray(tops)[:, None] - own)[..., None]
