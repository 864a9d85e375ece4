r"""Sums on the nodes of cells: spreading from keys, sums along axes, interpolation.

Keys are spread to the nodes of their cells, and values at nodes are interpolated at the
queries, by products of polynomials along the axes. Both steps process the vectors of a
cell in tiles. Sums from nodes of keys to nodes of queries are computed one axis at a
time.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST

from ._bound import to_coefficients
from ._layout import AbstractLayout
from ._tiles import CHUNK, TILE, Chunk, tile_vectors


class Products(NamedTuple):
    """The kernels between nodes.

    Attributes:
        layout: the cells.
        narrow: kernels along each axis, for all rows but the checks.
        wide: kernels along each axis for the checks, which are the last rows.
        last: number of checks.
        read_tops: `cell_tops` of the vectors at which sums are interpolated.
        spread_tops: `cell_tops` of the vectors that are spread to the nodes.
    """

    layout: AbstractLayout
    narrow: list[Array]
    wide: list[Array]
    last: int
    read_tops: list[Array]
    spread_tops: list[Array]

    @property
    def transpose(self) -> "Products":
        """The kernels with queries and keys exchanged."""
        narrow, wide = ([k.T for k in kernels] for kernels in (self.narrow, self.wide))
        tops = self.spread_tops, self.read_tops
        return Products(self.layout, narrow, wide, self.last, *tops)


class Vectors(NamedTuple):
    """Queries or keys in cells.

    Attributes:
        places: coordinates in units of cells; see the function `places`.
        tops: numbers subtracted from the scores; see `AbstractLayout.tops`.
    """

    places: Float[Array, "n k"]
    tops: Float[Array, " n"]


def sum_nodes(nodes: Float[Array, "r ..."], products: Products) -> Array:
    """Sums from nodes of keys to nodes of queries; the last rows use wide kernels."""
    n_narrow = len(nodes) - products.last
    nodes = _sum_rows(nodes, products.narrow, 0, n_narrow)
    return _sum_rows(nodes, products.wide, n_narrow, len(nodes))


def no_nodes(layout: AbstractLayout, rows: Float[Array, "n r"]) -> Array:
    """An array of zeros at all nodes, to which sums of `rows` are added."""
    return jnp.zeros((rows.shape[1], *layout.counts), rows.dtype)


def _sum_rows(
    nodes: Float[Array, "r ..."], kernels: list[Array], begin: int, end: int
) -> Float[Array, "r ..."]:
    """Sums row by row and in place, because one array of nodes may fill the memory."""
    contraction = (((0,), (1,)), ((), ()))

    def sum_one(row: Array, nodes: Array) -> Array:
        row_nodes = jax.lax.dynamic_index_in_dim(nodes, row, keepdims=False)
        for kernel in kernels:
            # Each product sums over the first axis and appends the new axis.
            row_nodes = jax.lax.dot_general(
                row_nodes, kernel, contraction, precision=HIGHEST
            )
        return jax.lax.dynamic_update_index_in_dim(nodes, row_nodes, row, 0)

    if begin == end:
        return nodes
    return jax.lax.fori_loop(begin, end, sum_one, nodes)


def spread(
    products: Products,
    vectors: Vectors,
    rows: Float[Array, "n r"],
    start: Float[Array, "r ..."],
) -> Float[Array, "r ..."]:
    """Adds rows to the nodes of their cells, in an array of shape (rows, *nodes)."""
    layout, tops = products.layout, products.spread_tops
    tiles = tile_vectors(vectors.places, layout.cells)
    d, width = len(layout.cells), rows.shape[1]
    shape, n_first = (width, *[layout.nodes] * d), d // 2

    def add(i: Array, nodes: Array) -> Array:
        chunk = tiles.chunk(i)
        bases = _bases(layout.nodes, chunk.local_coordinates(vectors.places))
        members = rows.at[chunk.members].get(mode="fill", fill_value=0)
        values = jnp.swapaxes(_rescale(members, vectors, chunk, tops), 1, 2)
        first, last = _products([values, *bases[:n_first]]), _products(bases[n_first:])
        blocks = jnp.einsum("bft,blt->bfl", first, last, precision=HIGHEST)
        blocks = blocks.reshape(CHUNK, *shape)

        def add_one(j: Array, nodes: Array) -> Array:
            offset = (jnp.int32(0), *layout.nodes * chunk.corner[j])
            old = jax.lax.dynamic_slice(nodes, offset, shape)
            return jax.lax.dynamic_update_slice(nodes, old + blocks[j], offset)

        return jax.lax.fori_loop(0, CHUNK, add_one, nodes)

    return jax.lax.fori_loop(0, tiles.chunks, add, start)


def read(
    products: Products, vectors: Vectors, nodes: Float[Array, "r ..."]
) -> Float[Array, "m r"]:
    """The values at nodes, interpolated at the queries."""
    layout, tops = products.layout, products.read_tops
    tiles = tile_vectors(vectors.places, layout.cells)
    d, (width, *_), m = len(layout.cells), nodes.shape, len(vectors.places)
    shape, n_first = (width, *[layout.nodes] * d), d // 2
    block_of = lambda corner: jax.lax.dynamic_slice(
        nodes, (jnp.int32(0), *layout.nodes * corner), shape
    )

    def read_chunk(i: Array, sums: Array) -> Array:
        chunk = tiles.chunk(i)
        bases = _bases(layout.nodes, chunk.local_coordinates(vectors.places))
        first, last = _products(bases[:n_first]), _products(bases[n_first:])
        blocks = jax.lax.map(block_of, chunk.corner)
        blocks = blocks.reshape(CHUNK, width, first.shape[1], last.shape[1])
        inner = jnp.einsum("bwfl,blt->bwft", blocks, last, precision=HIGHEST)
        values = jnp.swapaxes(jnp.sum(inner * first[:, None], axis=2), 1, 2)
        values = _rescale(values, vectors, chunk, tops)
        return sums.at[chunk.members].set(values, mode="drop")

    start = jnp.zeros((m, width), nodes.dtype)
    return jax.lax.fori_loop(0, tiles.chunks, read_chunk, start)


def _bases(count: int, coordinates: Float[Array, "chunk tile k"]) -> list[Array]:
    """Lagrange polynomials along each axis, as arrays of shape (chunk, nodes, tile)."""
    transform = jnp.asarray(to_coefficients(count).T)
    polynomials = [jnp.ones_like(coordinates), coordinates]
    for _ in range(count - 2):
        polynomials.append(2 * coordinates * polynomials[-1] - polynomials[-2])
    values = jnp.stack(polynomials[:count])
    return [
        jnp.einsum("pc,cbt->bpt", transform, values[..., axis], precision=HIGHEST)
        for axis in range(coordinates.shape[2])
    ]


def _products(factors: list[Array]) -> Float[Array, "chunk rows tile"]:
    """All products of a row from each factor (Khatri–Rao); the last varies fastest."""
    if not factors:
        return jnp.ones((CHUNK, 1, TILE))
    first, *rest = factors
    for factor in rest:
        first = (first[:, :, None] * factor[:, None]).reshape(CHUNK, -1, TILE)
    return first


def _rescale(
    rows: Float[Array, "chunk tile r"],
    vectors: Vectors,
    chunk: Chunk,
    cell_tops: list[Array],
) -> Float[Array, "chunk tile r"]:
    """Converts rows from the stabilisers of cells to the stabilisers of vectors."""
    if not cell_tops:
        return rows
    vector_tops = vectors.tops.at[chunk.members].get(mode="fill", fill_value=jnp.inf)
    tops = sum(part[chunk.corner[:, axis]] for axis, part in enumerate(cell_tops))
    return rows * jnp.exp(jnp.asarray(tops)[:, None] - vector_tops)[..., None]
