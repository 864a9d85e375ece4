r"""Sums of products of one-dimensional kernels, interpolated on both sides.

With $e^{q\cdot k} = \prod_a e^{q_a k_a}$ interpolated in the cells of keys and of
queries, a sum over keys has three steps: keys are spread to the nodes of their cells,
sums from nodes of keys to nodes of queries are computed axis by axis, and the result
is interpolated at the queries. Kernels and their interpolants are positive, so a sum of
positive terms has a small relative error, however small the sum is.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._cell_nodes import Products, Vectors, no_nodes, read, spread, sum_nodes
from ._earlier_sums import PositionedVectors, earlier_sums
from ._frame import Side
from ._layout import AbstractLayout
from ._linear import define_linear_map
from ._tiles import places


class Positions(NamedTuple):
    """Positions under a causal mask: queries attend to keys up to their position."""

    queries: Float[Array, " m"]
    keys: Float[Array, " n"]


class Sides(NamedTuple):
    """Queries and keys along the axes of the cells, and the boxes that hold them.

    Attributes:
        queries: queries, in the box around the origin with half-widths `halves[0]`.
        keys: keys, in the box around the origin with half-widths `halves[1]`.
        halves: half-widths of the boxes; derivatives treat them as constants.
        positions: positions under a causal mask; `None` without a mask.
    """

    queries: Float[Array, "m k"]
    keys: Float[Array, "n k"]
    halves: tuple[Float[Array, " k"], Float[Array, " k"]]
    positions: Positions | None = None

    @property
    def transpose(self) -> "Sides":
        """Queries and keys exchanged, with the mask transposed."""
        positions = self.positions
        reversed_positions = (
            None
            if positions is None
            else Positions(-positions.keys, -positions.queries)
        )
        query_half, key_half = self.halves
        return Sides(
            self.keys, self.queries, (key_half, query_half), reversed_positions
        )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def kernel_sums(
    layout: AbstractLayout, sides: Sides, rows: Float[Array, "n r"]
) -> Float[Array, "m r"]:
    r"""The sums $\sum_j e^{q_i\cdot k_j} r_j$ for all queries.

    They are divided by the exponentials of the layout's `tops`.
    """
    return _to_queries(*jax.tree.leaves(sides), rows, layout=layout, wide=0)


@kernel_sums.defjvp
def _(layout: AbstractLayout, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    r"""The derivative of `kernel_sums`, computed as such sums with additional rows.

    It follows from $d e^{q\cdot k} = e^{q\cdot k}(dq\cdot k + q\cdot dk)$.
    """
    (sides, rows), (change, more) = primals, tangents
    d, n, width = len(layout.cells), *rows.shape
    key_rows = (rows[:, None] * sides.keys[:, :, None]).reshape(n, d * width)
    change_rows = (rows[:, None] * change.keys[:, :, None]).reshape(n, d * width)
    primal_sums = kernel_sums(layout, sides, jnp.concatenate([rows, key_rows], axis=1))
    tangent_sums = kernel_sums(
        layout, sides, jnp.concatenate([more, change_rows], axis=1)
    )
    split_axes = lambda sums: sums[:, width:].reshape(-1, d, width)
    tangent = (
        tangent_sums[:, :width]
        + jnp.einsum("ma,mar->mr", change.queries, split_axes(primal_sums))
        + jnp.einsum("ma,mar->mr", sides.queries, split_axes(tangent_sums))
    )
    return primal_sums[:, :width], tangent


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def sums_with_checks(
    layout: AbstractLayout, sides: Sides, rows: Float[Array, "n r"]
) -> tuple[Float[Array, "m r"], Float[Array, "m c"]]:
    """The `kernel_sums`, and the checks: sums of the last row with the wide kernel.

    Derivatives treat the checks as constants.
    """
    checks = layout.checks
    more = [rows, *[rows[:, -1:]] * checks]
    arrays = *jax.tree.leaves(sides), jnp.concatenate(more, axis=1)
    sums = _to_queries(*arrays, layout=layout, wide=checks)
    return sums[:, : rows.shape[1]], sums[:, rows.shape[1] :]


@sums_with_checks.defjvp
def _(layout: AbstractLayout, primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    sums, checks = sums_with_checks(layout, *primals)
    fn = functools.partial(kernel_sums, layout)
    _, tangent = jax.jvp(fn, primals, tangents)
    return (sums, checks), (tangent, jnp.zeros_like(checks))


def _forward_sums(*arrays: Array, layout: AbstractLayout, wide: int) -> Array:
    sides, rows = _unpack(arrays)
    return _apply_products(
        sides, _vectors(layout, sides), _products(layout, sides, wide), rows
    )


def _transpose_sums(*arrays: Array, layout: AbstractLayout, wide: int) -> Array:
    sides, rows = _unpack(arrays)
    queries, keys = _vectors(layout, sides)
    products = _products(layout, sides, wide).transpose
    return _apply_products(sides.transpose, (keys, queries), products, rows)


def _apply_products(
    sides: Sides, vectors: tuple[Vectors, Vectors], products: Products, rows: Array
) -> Float[Array, "m r"]:
    """Sums over all keys; under a causal mask, over keys up to the query's position."""
    queries, keys = vectors
    if sides.positions is None:
        nodes = spread(products, keys, rows, no_nodes(products.layout, rows))
        return read(products, queries, sum_nodes(nodes, products))
    positioned_queries = PositionedVectors(
        sides.queries, sides.positions.queries, queries
    )
    positioned_keys = PositionedVectors(sides.keys, sides.positions.keys, keys)
    return earlier_sums(positioned_queries, positioned_keys, rows, products)


_to_queries = define_linear_map(
    "kernel_sums", _forward_sums, _transpose_sums, "layout", "wide"
)


def _unpack(arrays: tuple[Array, ...]) -> tuple[Sides, Array]:
    queries, keys, query_half, key_half, *positions, rows = arrays
    token_positions = Positions(*positions) if positions else None
    return Sides(queries, keys, (query_half, key_half), token_positions), rows


def _vectors(layout: AbstractLayout, sides: Sides) -> tuple[Vectors, Vectors]:
    origin = jnp.zeros(sides.queries.shape[1])
    q = Side(sides.queries, origin, sides.halves[0])
    k = Side(sides.keys, origin, sides.halves[1])
    query_tops, key_tops = layout.tops(q, k)
    return (
        Vectors(places(q.x, q.half, layout.cells), query_tops),
        Vectors(places(k.x, k.half, layout.cells), key_tops),
    )


def _products(layout: AbstractLayout, sides: Sides, wide: int) -> Products:
    narrow, checks = (
        layout.kernels(sides.halves, wide=is_wide) for is_wide in (False, True)
    )
    return Products(layout, narrow, checks, wide, layout.cell_tops(sides.halves), [])
