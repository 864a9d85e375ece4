"""Programs of the kernels: sums of terms, and best keys.

Scores, links and sums of a tile stay on the chip. Terms are added in a fixed order, so
that results are reproducible to the last bit.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Int

from ._instructions import link_slope, link_value, multiply_add
from ._launch import Plan, launch_programs, plan_programs, single_rows
from ._method import KernelSide, Method, Terms


def linked_sums(
    method: Method, resident: KernelSide, stream: KernelSide, terms: Terms
) -> Float[Array, "rows m"]:
    r"""Sums over the stream of `terms` times values or slopes of the link.

    The slopes $\varphi'(s_{ij})$ are multiplied by inner products of `factors`. Sums of
    `by_value` come first.
    """
    m, dtype = resident.offset.shape[1], resident.offset.dtype
    counts = [rows.shape[0] for rows in terms if rows is not None]
    plan, arrays = plan_programs(method, resident, stream, terms)
    all_counts = [rows.shape[1] for rows in arrays[2] if rows is not None]
    results = [(sum(all_counts), dtype)]
    (sums,) = launch_programs(_sum_terms, plan, arrays, results, join_parts=_add_parts)
    groups = jnp.split(sums, all_counts[:1])
    pairs = zip(groups[: len(counts)], counts, strict=True)
    return jnp.concatenate([group[:count, :m] for group, count in pairs])


def best_keys(
    method: Method, queries: KernelSide, keys: KernelSide
) -> tuple[Float[Array, " m"], Int[Array, " m"]]:
    """The largest score of each query, and the number of a key with this score."""
    m, n = queries.offset.shape[1], keys.offset.shape[1]
    plan, arrays = plan_programs(method, queries, keys, Terms())
    results = [(1, queries.offset.dtype), (1, jnp.int32)]
    top, number = launch_programs(
        _find_best, plan, arrays, results, join_parts=_best_part
    )
    return top[0, :m], jnp.minimum(number[0, :m], n - 1)


def _add_parts(sums: Float[Array, "b parts k m"]) -> tuple[Float[Array, "b k m"]]:
    return (jnp.sum(sums, axis=1),)


def _best_part(
    tops: Float[Array, "b parts 1 m"], numbers: Int[Array, "b parts 1 m"]
) -> tuple[Float[Array, "b 1 m"], Int[Array, "b 1 m"]]:
    """The largest score of all parts, and its number."""
    part = jnp.argmax(tops, axis=1, keepdims=True)
    pick = functools.partial(jnp.take_along_axis, indices=part, axis=1)
    return pick(tops)[:, 0], pick(numbers)[:, 0]


def _sum_terms(
    plan: Plan, resident: KernelSide, stream: KernelSide, terms: Terms, out: Any
) -> None:
    """The program of `linked_sums`."""
    side, dtype = _load(plan, resident), resident.offset.dtype
    groups = [ref for ref in terms if ref is not None]
    start = [x for ref in groups for x in plan.zeros(ref.shape[1], dtype)]

    def add(tile: Array, sums: list[Array]) -> list[Array]:
        weights = _weights(plan, side, _load(plan, stream, tile), terms)
        addends = [
            (rows, weight)
            for ref, weight in zip(groups, weights, strict=True)
            for rows in plan.rows(ref, (tile,))
        ]
        pairs = zip(addends, sums, strict=True)
        return [plan.add_outer(*addend, x) for addend, x in pairs]

    first = 0
    for rows in plan.finish(_fold_tiles(plan, add, start)):
        out[pl.ds(first, rows.shape[0]), :] = rows
        first += rows.shape[0]


def _find_best(
    plan: Plan,
    resident: KernelSide,
    stream: KernelSide,
    _: Terms,
    top: Any,
    number: Any,
) -> None:
    """The program of `best_keys`."""
    side, dtype = _load(plan, resident), resident.offset.dtype
    start = [jnp.full(plan.shape, -jnp.inf, dtype), jnp.zeros(plan.shape, jnp.int32)]
    rows = jax.lax.broadcasted_iota(jnp.int32, plan.shape, 0)

    def replace(tile: Array, best: list[Array]) -> list[Array]:
        scores = _scores(plan, side, _load(plan, stream, tile))
        is_better = scores > best[0]
        numbers = rows + plan.tile.stream * jnp.asarray(tile, jnp.int32)
        pairs = zip((scores, numbers), best, strict=True)
        return [jnp.where(is_better, new, old) for new, old in pairs]

    scores, numbers = _fold_tiles(plan, replace, start)
    top[:, :] = largest = jnp.max(scores, axis=0, keepdims=True)
    numbers = jnp.where(scores == largest, numbers, jnp.iinfo(jnp.int32).max)
    number[:, :] = jnp.min(numbers, axis=0, keepdims=True)


def _fold_tiles(
    plan: Plan, fold: Callable[[Array, list[Array]], list[Array]], start: list[Array]
) -> list[Array]:
    """Folds over the tiles of this program's part of the stream."""
    size = -(-plan.n_tiles // plan.n_parts)
    first = pl.program_id(0) % plan.n_parts * size
    return jax.lax.fori_loop(
        first, jnp.minimum(first + size, plan.n_tiles), fold, start
    )


def _load(plan: Plan, side: KernelSide, *tile: Array) -> Any:
    """The rows of a side, as lists of arrays."""

    def rows(ref: Any) -> list[Array] | None:
        return None if ref is None else plan.rows(ref, tile)

    lists: Any = jax.tree.map(lambda ref: single_rows(ref, tile), side)
    if not plan.is_relative:
        lists = lists._replace(vectors=rows(side.vectors))
    return lists._replace(factors=rows(side.factors))


def _weights(plan: Plan, resident: Any, stream: Any, terms: Terms) -> list[Array]:
    """Values and slopes of the link for all pairs of a tile, where terms need them."""
    method, scores = plan.method, _scores(plan, resident, stream)
    is_allowed = None if method.mask is None else scores != -jnp.inf
    # Derivatives of the link may be NaN at -inf.
    scores = scores if is_allowed is None else jnp.where(is_allowed, scores, 0)
    value = link_value(method, scores)
    weights = [] if terms.by_value is None else [value]
    if terms.by_slope is not None:
        products = jnp.zeros(plan.shape, scores.dtype)
        for pair in zip(stream.factors, resident.factors, strict=True):
            products = plan.add_inner(*pair, products)
        weights.append(link_slope(method, scores, value) * products)
    if is_allowed is None:
        return weights
    return [jnp.where(is_allowed, weight, 0) for weight in weights]


def _scores(plan: Plan, resident: Any, stream: Any) -> Array:
    """Scores of all pairs of a tile, with the tokens of the stream in rows."""
    queries, keys = plan.method.order(resident, stream)
    if plan.is_relative:
        scores = _relative_scores(plan, queries, keys) + stream.offset[0]
    else:
        scores = jnp.broadcast_to(stream.offset[0], plan.shape)
        for pair in zip(stream.vectors, resident.vectors, strict=True):
            scores = plan.add_inner(*pair, scores)
    # For resident queries their offset comes last, as in `Pairs.scores`.
    scores = scores + resident.offset[0]
    if plan.method.mask is None:
        return scores
    is_allowed = plan.method.mask(queries.position[0], keys.position[0])
    return jnp.where(is_allowed, scores, -jnp.inf)


def _relative_scores(plan: Plan, queries: Any, keys: Any) -> Array:
    """Sums of $u(a - bu)$, as in `scores.differences`."""
    add = functools.partial(multiply_add, plan.method)
    sums = jnp.zeros(plan.shape, queries.offset[0].dtype)
    for y, a, r in zip(keys.vectors, queries.vectors, queries.references, strict=True):
        u = y - r
        slopes = a if queries.bend is None else add(-queries.bend[0], u, a)
        sums = add(u, slopes, sums)
    return sums
