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
import numpy as np
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST

from ._bound import angles, to_coefficients
from ._layout import Layout
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


def tops(layout: Layout, sides: Sides) -> Float[Array, " m"]:
    r"""For each query a number that no $q_i\cdot k_j$ passes: constant in its cell."""
    cell = placed(sides.queries, sides.halves[0], layout.cells).cell
    span = sides.halves[0] * sides.halves[1]
    parts = [
        span[axis] * jnp.asarray(_reach(count))[cell[:, axis]]
        for axis, count in enumerate(layout.cells)
    ]
    return jax.lax.stop_gradient(functools.reduce(jnp.add, parts))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def kernel_sums(
    layout: Layout, sides: Sides, rows: Float[Array, "n r"]
) -> Float[Array, "m r"]:
    r"""$\sum_j e^{q_i\cdot k_j} r_j$ for all queries, over `exp(tops)`."""
    return _to_queries(*jax.tree.leaves(sides), rows, layout=layout)


@kernel_sums.defjvp
def _(layout: Layout, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
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


def _there(*arrays: Array, layout: Layout) -> Array:
    sides, rows = _unpacked(arrays)
    of_queries, of_keys = _places(layout, sides)
    nodes = _spread(layout, of_keys, rows)
    for kernel in _kernels(layout, sides):
        # The axis that is summed over comes first, and what it becomes comes last.
        nodes = _summed(nodes, kernel)
    return _read(layout, of_queries, nodes)


def _back(*arrays: Array, layout: Layout) -> Array:
    sides, rows = _unpacked(arrays)
    of_queries, of_keys = _places(layout, sides)
    nodes = _spread(layout, of_queries, rows)
    for kernel in _kernels(layout, sides):
        nodes = _summed(nodes, kernel.T)
    return _read(layout, of_keys, nodes)


_to_queries = transposes("kernel_sums", _there, _back)


def _unpacked(arrays: tuple[Array, ...]) -> tuple[Sides, Array]:
    queries, keys, of_queries, of_keys, rows = arrays
    return Sides(queries, keys, (of_queries, of_keys)), rows


def _places(layout: Layout, sides: Sides) -> tuple[Places, Places]:
    queries, keys = sides.halves
    return (
        placed(sides.queries, queries, layout.cells),
        placed(sides.keys, keys, layout.cells),
    )


def _summed(nodes: Float[Array, "..."], kernel: Float[Array, "p p"]) -> Array:
    contraction = (((0,), (1,)), ((), ()))
    return jax.lax.dot_general(nodes, kernel, contraction, precision=HIGHEST)


def _kernels(layout: Layout, sides: Sides) -> list[Float[Array, "nodes nodes"]]:
    """The kernel between nodes along each axis, over `exp` of its part of the tops."""
    spans, kernels = sides.halves[0] * sides.halves[1], []
    for cells, span in zip(layout.cells, spans, strict=True):
        places = _middles(cells)[:, None] + np.cos(angles(layout.nodes))[None] / cells
        tops = np.repeat(_reach(cells), layout.nodes)[:, None]
        exponents = np.outer(places, places) - tops
        kernels.append(jnp.exp(span * jnp.asarray(exponents)))
    return kernels


def _middles(cells: int) -> np.ndarray:
    """The middles of cells along an axis from -1 to 1."""
    return (2 * np.arange(cells) + 1) / cells - 1


def _reach(cells: int) -> Float[np.ndarray, " cells"]:
    """The far ends of cells along an axis from -1 to 1."""
    return np.abs(_middles(cells)) + 1 / cells


def _spread(
    layout: Layout, places: Places, rows: Float[Array, "n r"]
) -> Float[Array, "..."]:
    """Rows on the nodes of their cells: an array of the nodes' axes, then of rows."""
    tiles = tiled(places.cell, layout.cells)
    d, width = len(layout.cells), rows.shape[1]
    within, rows = _with_nothing(places.within), _with_nothing(rows)
    shape = (*[layout.nodes] * d, width)

    def add(i: Array, nodes: Array) -> Array:
        chunk = tiles.chunk(i)
        first, last = _split(_bases(layout.nodes, within[chunk.members]))
        last = _products([*last, jnp.swapaxes(rows[chunk.members], 1, 2)])
        blocks = jnp.einsum("bft,blt->bfl", _products(first), last, precision=HIGHEST)
        blocks = blocks.reshape(CHUNK, *shape)

        def add_one(j: Array, nodes: Array) -> Array:
            at = (*layout.nodes * chunk.corner[j], jnp.int32(0))
            old = jax.lax.dynamic_slice(nodes, at, shape)
            return jax.lax.dynamic_update_slice(nodes, old + blocks[j], at)

        return jax.lax.fori_loop(0, CHUNK, add_one, nodes)

    start = jnp.zeros((*layout.counts, width), rows.dtype)
    return jax.lax.fori_loop(0, tiles.chunks, add, start)


def _read(
    layout: Layout, places: Places, nodes: Float[Array, "r ..."]
) -> Float[Array, "m r"]:
    """What nodes hold, interpolated where queries are."""
    tiles = tiled(places.cell, layout.cells)
    d, (width, *_), m = len(layout.cells), nodes.shape, len(places.cell)
    within = _with_nothing(places.within)
    shape = (width, *[layout.nodes] * d)
    block_of = lambda corner: jax.lax.dynamic_slice(
        nodes, (jnp.int32(0), *layout.nodes * corner), shape
    )

    def read(i: Array, sums: Array) -> Array:
        chunk = tiles.chunk(i)
        first, last = map(
            _products, _split(_bases(layout.nodes, within[chunk.members]))
        )
        blocks = jax.lax.map(block_of, chunk.corner)
        blocks = blocks.reshape(CHUNK, width, first.shape[1], last.shape[1])
        inner = jnp.einsum("bwfl,bft->bwlt", blocks, first, precision=HIGHEST)
        found = jnp.sum(inner * last[:, None], axis=2)
        return jax.lax.dynamic_update_slice_in_dim(sums, found, i * CHUNK, 0)

    start = jnp.zeros((len(tiles.members), width, TILE), nodes.dtype)
    found = jnp.swapaxes(jax.lax.fori_loop(0, tiles.chunks, read, start), 1, 2)
    return jnp.zeros((m, width), nodes.dtype).at[tiles.members].set(found, mode="drop")


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


def _split(bases: list[Array]) -> tuple[list[Array], list[Array]]:
    """Axes in two parts, of which the first is never the smaller."""
    half = -(-len(bases) // 2)
    return bases[:half], bases[half:]


def _products(factors: list[Array]) -> Float[Array, "chunk rows tile"]:
    """All products of one row of each (Khatri and Rao), the last counting fastest."""
    if not factors:
        return jnp.ones((CHUNK, 1, TILE))
    first, *others = factors
    for factor in others:
        first = (first[:, :, None] * factor[:, None]).reshape(CHUNK, -1, TILE)
    return first


def _with_nothing(x: Float[Array, "n c"]) -> Float[Array, "more c"]:
    """With a last row of zeros, for places of a tile that hold nothing."""
    return jnp.concatenate([x, jnp.zeros((1, x.shape[1]), x.dtype)])
