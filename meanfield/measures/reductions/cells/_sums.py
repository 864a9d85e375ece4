r"""Sums of products of one-dimensional kernels, by interpolation on either side.

With $e^{q\cdot k} = \prod_a e^{q_a k_a}$ interpolated in the cells of keys and of
queries, a sum over keys is three products: keys are spread on the nodes of their cells,
nodes of keys are summed for nodes of queries along one axis after the other, and these
are read where the queries are. Kernels are positive and so is what interpolates them:
what a sum of positive terms misses is relative to it, however small it is.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from meanfield.linalg import HIGHEST

from ._bound import to_coefficients
from ._layout import AbstractLayout
from ._linear import transposes
from ._tiles import CHUNK, TILE, Places, placed, tiled


class Sides(NamedTuple):
    """Queries and keys along the axes of the cells, and the boxes that hold them.

    Attributes:
        queries: within the first of `halves` of the origin, along each axis.
        keys: within the second.
        halves: half-widths of the boxes; constants for derivatives, as cells are.
    """

    queries: Float[Array, "m k"]
    keys: Float[Array, "n k"]
    halves: tuple[Float[Array, " k"], Float[Array, " k"]]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def kernel_sums(
    layout: AbstractLayout, sides: Sides, rows: Float[Array, "n r"]
) -> Float[Array, "m r"]:
    r"""$\sum_j e^{q_i\cdot k_j} r_j$ for all queries.

    Over what the layout divides kernels by: `tops`.
    """
    return _to_queries(*jax.tree.leaves(sides), rows, layout=layout, wide=0)


@kernel_sums.defjvp
def _(layout: AbstractLayout, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    r"""By $d e^{q\cdot k} = e^{q\cdot k}(dq\cdot k + q\cdot dk)$: sums of more rows."""
    (sides, rows), (change, more) = primals, tangents
    d, n, width = len(layout.cells), *rows.shape
    by_key = (rows[:, None] * sides.keys[:, :, None]).reshape(n, d * width)
    by_change = (rows[:, None] * change.keys[:, :, None]).reshape(n, d * width)
    found = kernel_sums(layout, sides, jnp.concatenate([rows, by_key], axis=1))
    moved = kernel_sums(layout, sides, jnp.concatenate([more, by_change], axis=1))
    along = lambda sums: sums[:, width:].reshape(-1, d, width)
    tangent = (
        moved[:, :width]
        + jnp.einsum("ma,mar->mr", change.queries, along(found))
        + jnp.einsum("ma,mar->mr", sides.queries, along(moved))
    )
    return found[:, :width], tangent


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def checked_sums(
    layout: AbstractLayout, sides: Sides, rows: Float[Array, "n r"]
) -> tuple[Float[Array, "m r"], Float[Array, "m c"]]:
    """The same, and the last of the rows for each check; these have no derivative."""
    checks = layout.checks
    more = [rows, *[rows[:, -1:]] * checks]
    arrays = *jax.tree.leaves(sides), jnp.concatenate(more, axis=1)
    found = _to_queries(*arrays, layout=layout, wide=checks)
    return found[:, : rows.shape[1]], found[:, rows.shape[1] :]


@checked_sums.defjvp
def _(layout: AbstractLayout, primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    sums, checks = checked_sums(layout, *primals)
    of = functools.partial(kernel_sums, layout)
    _, tangent = jax.jvp(of, primals, tangents)
    return (sums, checks), (tangent, jnp.zeros_like(checks))


def _there(*arrays: Array, layout: AbstractLayout, wide: int) -> Array:
    sides, rows = _unpacked(arrays)
    of_queries, of_keys = _places(layout, sides)
    nodes = _spread(layout, of_keys, rows)
    nodes = _summed(nodes, *_kernels(layout, sides), wide)
    return _read(layout, of_queries, nodes)


def _back(*arrays: Array, layout: AbstractLayout, wide: int) -> Array:
    sides, rows = _unpacked(arrays)
    of_queries, of_keys = _places(layout, sides)
    nodes = _spread(layout, of_queries, rows)
    narrow, checks = _kernels(layout, sides)
    turned = lambda kernels: [kernel.T for kernel in kernels]
    nodes = _summed(nodes, turned(narrow), turned(checks), wide)
    return _read(layout, of_keys, nodes)


_to_queries = transposes("kernel_sums", _there, _back)


def _unpacked(arrays: tuple[Array, ...]) -> tuple[Sides, Array]:
    queries, keys, of_queries, of_keys, rows = arrays
    return Sides(queries, keys, (of_queries, of_keys)), rows


def _places(layout: AbstractLayout, sides: Sides) -> tuple[Places, Places]:
    queries, keys = sides.halves
    return (
        placed(sides.queries, queries, layout.cells),
        placed(sides.keys, keys, layout.cells),
    )


def _kernels(layout: AbstractLayout, sides: Sides) -> tuple[list[Array], list[Array]]:
    """Along each axis: for most rows, and for those that are checks."""
    return (
        layout.kernels(sides.halves, wide=False),
        layout.kernels(sides.halves, wide=True),
    )


def _summed(
    nodes: Float[Array, "r ..."], narrow: list[Array], wide: list[Array], last: int
) -> Float[Array, "r ..."]:
    """Summed along all axes; the last rows with other kernels."""
    nodes = _summed_from(nodes, narrow, 0, len(nodes) - last)
    return _summed_from(nodes, wide, len(nodes) - last, len(nodes))


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


def _spread(
    layout: AbstractLayout, places: Places, rows: Float[Array, "n r"]
) -> Float[Array, "r ..."]:
    """Rows on the nodes of their cells: an array of rows, then of the nodes' axes."""
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

    start = jnp.zeros((width, *layout.counts), rows.dtype)
    return jax.lax.fori_loop(0, tiles.chunks, add, start)


def _read(
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
