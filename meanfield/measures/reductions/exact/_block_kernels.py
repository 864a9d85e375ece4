"""Kernels applied to the two sides of a sum, which are single blocks for them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.measures.reductions import kernels
from meanfield.measures.reductions.kernels import KernelSide, Method, Terms
from meanfield.scores import positions
from meanfield.scores.pairs import Link, Side, require_vectors

from ._streaming import Blocks


def fits_kernel(blocks: Blocks) -> bool:
    """Whether relative scores have few enough columns for a kernel."""
    references = blocks.queries.references
    return references is None or references.shape[1] <= kernels.MAX_ROWS


def kernel_total(
    blocks: Blocks, link: Link, values: Float[Array, "1 p n"]
) -> Float[Array, "1 p m"]:
    """The sums of `stream_total`."""
    method = _method(blocks)._replace(link=link)
    return kernels.linked_sums(method, *_sides(blocks), Terms(values[0]))[None]


def kernel_gradient(
    blocks: Blocks, link: Link, values: Array, cotangent: Array
) -> tuple[Array, ...]:
    """The gradient of `kernel_total` for vectors, offsets and values.

    Sums over keys give the gradient for queries, and sums over queries that for keys.
    No order of terms depends on chance, as it would if both were added in one pass.
    """
    method = _method(blocks)._replace(link=link)
    queries, keys = _sides(blocks)
    queries = queries._replace(factors=cotangent[0])
    keys = keys._replace(factors=values[0])
    q = require_vectors(blocks.queries.vectors)[0]
    k = require_vectors(blocks.keys.vectors)[0].T
    of_queries = kernels.linked_sums(
        method, queries, keys, Terms(None, _append_ones(k))
    )
    method = method._replace(has_resident_keys=True)
    of_keys = kernels.linked_sums(
        method, keys, queries, Terms(cotangent[0], _append_ones(q))
    )
    p = values.shape[1]
    gradient = (
        of_queries[:-1],
        of_queries[-1],
        of_keys[p:-1].T,
        of_keys[-1],
        of_keys[:p],
    )
    return tuple(x[None] for x in gradient)


def kernel_largest(blocks: Blocks) -> Float[Array, "1 m"]:
    """The scores of `stream_largest`."""
    return kernels.best_keys(_method(blocks), *_sides(blocks))[0][None]


def kernel_best(blocks: Blocks) -> Float[Array, "1 rows m"]:
    """The rows of `stream_best`."""
    top, number = kernels.best_keys(_method(blocks), *_sides(blocks))
    rows = drop_axis(blocks.keys).rows[number]
    return jnp.concatenate([top[None], rows.T])[None]


def drop_axis(side: Side) -> Side:
    """The only block of a side."""
    return jax.tree.map(lambda x: x[0], side)


def _method(blocks: Blocks) -> Method:
    assert blocks.method is not None
    return blocks.method


def _sides(blocks: Blocks) -> tuple[KernelSide, KernelSide]:
    """Queries and keys of a kernel, all but positions in the dtype of the offsets."""
    queries, keys = drop_axis(blocks.queries), drop_axis(blocks.keys)
    has_mask = _method(blocks).mask is not None
    q_position, k_position = (
        positions(side.tokens)[None] if has_mask else None for side in (queries, keys)
    )
    offset = queries.offset[None]
    if queries.references is None:
        q, k = require_vectors(queries.vectors), require_vectors(keys.vectors)
        return KernelSide(q, offset, q_position), KernelSide(
            k.T, keys.offset[None], k_position
        )
    dtype = offset.dtype
    rows, references = keys.rows.T.astype(dtype), queries.references.astype(dtype)
    key_side = KernelSide(rows[1:], rows[:1], k_position)
    vectors = require_vectors(queries.difference_vectors).astype(dtype)
    bend = blocks.pairs.bend
    if bend is not None:
        bend = blocks.pairs.units * jnp.full_like(offset, bend)
        vectors = 2 * bend * (vectors - references)
    return KernelSide(vectors, offset, q_position, references, bend), key_side


def _append_ones(rows: Float[Array, "k n"]) -> Float[Array, "k1 n"]:
    return jnp.concatenate([rows, jnp.ones_like(rows[:1])])
