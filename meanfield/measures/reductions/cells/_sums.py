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
from jaxtyping import Array, Float

from ._cell_nodes import Products, Vectors, no_nodes, read, spread, summed
from ._earlier import Ordered, earlier_sums
from ._frame import Side
from ._layout import AbstractLayout
from ._linear import transposes
from ._tiles import places


class Positions(NamedTuple):
    """Where a mask has queries see the keys at their position and before."""

    queries: Float[Array, " m"]
    keys: Float[Array, " n"]


class Sides(NamedTuple):
    """Queries and keys along the axes of the cells, and the boxes that hold them.

    Attributes:
        queries: within the first of `halves` of the origin, along each axis.
        keys: within the second.
        halves: half-widths of the boxes; constants for derivatives, as cells are.
        positions: `None` where all see all.
    """

    queries: Float[Array, "m k"]
    keys: Float[Array, "n k"]
    halves: tuple[Float[Array, " k"], Float[Array, " k"]]
    positions: Positions | None = None

    @property
    def turned(self) -> "Sides":
        """Each side in the other's place: those that were seen see who saw them."""
        at = self.positions
        turned = None if at is None else Positions(-at.keys, -at.queries)
        of_queries, of_keys = self.halves
        return Sides(self.keys, self.queries, (of_keys, of_queries), turned)


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
    return _over(sides, _vectors(layout, sides), _products(layout, sides, wide), rows)


def _back(*arrays: Array, layout: AbstractLayout, wide: int) -> Array:
    sides, rows = _unpacked(arrays)
    queries, keys = _vectors(layout, sides)
    products = _products(layout, sides, wide).transposed
    return _over(sides.turned, (keys, queries), products, rows)


def _over(
    sides: Sides, vectors: tuple[Vectors, Vectors], products: Products, rows: Array
) -> Float[Array, "m r"]:
    """Sums over all keys, or over earlier ones; see `_earlier`."""
    queries, keys = vectors
    if sides.positions is None:
        nodes = spread(products, keys, rows, no_nodes(products.layout, rows))
        return read(products, queries, summed(nodes, products))
    asking = Ordered(sides.queries, sides.positions.queries, queries)
    asked = Ordered(sides.keys, sides.positions.keys, keys)
    return earlier_sums(asking, asked, rows, products)


_to_queries = transposes("kernel_sums", _there, _back, "layout", "wide")


def _unpacked(arrays: tuple[Array, ...]) -> tuple[Sides, Array]:
    queries, keys, of_queries, of_keys, *positions, rows = arrays
    at = Positions(*positions) if positions else None
    return Sides(queries, keys, (of_queries, of_keys), at), rows


def _vectors(layout: AbstractLayout, sides: Sides) -> tuple[Vectors, Vectors]:
    origin = jnp.zeros(sides.queries.shape[1])
    q = Side(sides.queries, origin, sides.halves[0])
    k = Side(sides.keys, origin, sides.halves[1])
    of_queries, of_keys = layout.tops(q, k)
    return (
        Vectors(places(q.x, q.half, layout.cells), of_queries),
        Vectors(places(k.x, k.half, layout.cells), of_keys),
    )


def _products(layout: AbstractLayout, sides: Sides, wide: int) -> Products:
    narrow, checks = (
        layout.kernels(sides.halves, wide=is_wide) for is_wide in (False, True)
    )
    return Products(layout, narrow, checks, wide, layout.cell_tops(sides.halves), [])
