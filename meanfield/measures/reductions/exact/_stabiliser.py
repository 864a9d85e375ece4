"""Stabilisers: numbers subtracted from exponents, so that no sum over- or underflows.

A stabiliser may be any number near the largest score, within the exponent range of
floats. A few extreme keys give a lower bound of the largest score, and the box around
all keys an upper bound. If the bounds are close, the largest score is not computed.
"""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from equinox.internal import unvmap_all
from jaxtyping import Array, Bool, Float

from meanfield._array import stop_gradient
from meanfield.scores.differences import (
    choose_by_rounding,
    is_rounded_away,
    reference_scores,
    size_of_scores,
    zero_with_tangent,
)
from meanfield.scores.pairs import TIE_ULPS, Pairs, require_vectors

from ._passes import best, largest
from ._streaming import Blocks

# The two bounds of a largest score may differ by this many powers of 2. The exponent
# range then has room for sums, and for terms that are small compared with the largest.
SINGLE, DOUBLE = 100.0, 900.0

Bounds = tuple[Float[Array, " m"], Float[Array, " m"]]


def stabilise_sums(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Sums of powers relative to a stabiliser, and the stabiliser of each query.

    The stabiliser is near the largest score of the query, and 0 without keys. It
    includes `Pairs.remainder`, and is not scaled by `units`. Only the remainder is
    differentiated: means and logarithms of sums do not depend on the other part.
    """
    if not blocks.pairs.exact or blocks.is_single:
        return _exact(blocks, sums)
    bounds = _bounds(stop_gradient(blocks.pairs))
    return _sums_from_bounds(blocks, sums, bounds, _are_near(bounds))


def stabilise_batched(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Stabilises sums like `stabilise_sums`, for one cloud of a batch.

    Under `vmap` both branches of a `cond` are computed unless all members share one
    condition, so here they do. Cheap bounds save a pass over the pairs even in a single
    block.
    """
    if not blocks.pairs.exact:
        return _exact(blocks, sums)
    bounds = (_wide_bounds if blocks.is_single else _bounds)(
        stop_gradient(blocks.pairs)
    )
    return _sums_from_bounds(blocks, sums, bounds, unvmap_all(_are_near(bounds)))


def absolute(blocks: Blocks, sums: Callable[[Blocks], Array]) -> Array:
    """Sums of a link of the scores themselves, not of scores relative to stabilisers.

    Squared distances are computed from vector differences if this is cheap, or if
    rounding errors would otherwise be too large.
    """
    pairs = blocks.pairs
    whole = lambda: sums(blocks.subtract_tops(blocks.to_query_blocks(-pairs.remainder)))
    if pairs.bend is None:
        return blocks.join_blocks(whole())
    exact = lambda: sums(blocks.absolute)
    return blocks.join_blocks(choose_by_rounding(*_size(pairs), exact, whole))


def _exact(blocks: Blocks, sums: Callable[[Blocks], Array]) -> tuple[Array, Array]:
    """Sums relative to the largest scores, from differences of vectors if possible."""
    largest_first = lambda: _sums_from_largest(blocks, sums)
    if blocks.pairs.keys.difference_vectors is None:
        return largest_first()
    from_best = lambda: _sums_from_best(blocks, sums)
    return choose_by_rounding(*_size(blocks.pairs), from_best, largest_first)


def _sums_from_largest(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Array, Array]:
    top = _finite(largest(stop_gradient(blocks).rounded_blocks))
    return _join_sums(blocks, sums(blocks.rounded_blocks.subtract_tops(top)), top)


def _sums_from_best(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Array, Array]:
    """Sums with scores relative to the largest score of each query."""
    relative, logs, reference_scores = _relative_to_best(blocks)
    top = _top_of_relative(relative, logs)
    numbers = blocks.join_blocks(sums(relative.subtract_tops(top)))
    return numbers, blocks.join_blocks(
        (reference_scores + top / blocks.pairs.units)[:, None]
    )[0]


def _relative_to_best(
    blocks: Blocks,
) -> tuple[Blocks, Float[Array, "bm queries"], Float[Array, "bm queries"]]:
    """The blocks, with scores relative to the score of the best key of each query.

    Also returns log-weights of the best keys, and their scores without log-weights.
    """
    best_rows = best(stop_gradient(blocks).rounded_blocks)
    top, logs, references = best_rows[:, 0], best_rows[:, 1], best_rows[:, 2:]
    blind = jnp.isneginf(top)
    top, logs = jnp.where(blind, 0, top), jnp.where(blind, 0, logs)
    pairs, queries = blocks.pairs, blocks.queries
    remainder = blocks.to_query_blocks(pairs.remainder)
    expanded_scores = (top - logs) / pairs.units + remainder
    score_at = lambda q, r, score: reference_scores(q, r, pairs.bend, score)
    reference_values = jax.vmap(score_at)(
        queries.difference_vectors, references, expanded_scores
    )
    relative = replace(blocks, queries=replace(queries, references=references))
    return relative, logs, reference_values + zero_with_tangent(remainder)


def _top_of_relative(blocks: Blocks, logs: Float[Array, "bm queries"]) -> Array:
    """Stabilisers of the scores relative to the score of each query's reference key.

    The reference key has the largest expanded score, which has rounding errors. If the
    errors are small, its relative score, which is its log-weight, is close enough to
    the largest one. Otherwise a second pass finds the largest relative score. For a
    single block this pass is always made: it is cheaper than compiling a `cond`.
    """
    largest_again = lambda: _finite(largest(stop_gradient(blocks)))
    if blocks.is_single:
        return largest_again()
    size, columns = _size(blocks.pairs)
    room = (SINGLE if size.dtype == jnp.float32 else DOUBLE) / 4
    is_close = (columns + 2 + TIE_ULPS) * size * jnp.finfo(size.dtype).eps < room
    return jax.lax.cond(unvmap_all(is_close), lambda: logs, largest_again)


def _sums_from_bounds(
    blocks: Blocks, sums: Callable[[Blocks], Array], bounds: Bounds, is_near: Array
) -> tuple[Array, Array]:
    """Sums relative to the midpoint of close bounds, or else to the largest scores."""
    middle = blocks.to_query_blocks((bounds[0] + bounds[1]) / 2)
    middle_sums = lambda: _join_sums(blocks, sums(blocks.subtract_tops(middle)), middle)
    return jax.lax.cond(is_near, middle_sums, lambda: _exact(blocks, sums))


def _join_sums(blocks: Blocks, numbers: Array, tops: Array) -> tuple[Array, Array]:
    pairs = blocks.pairs
    logs = blocks.join_blocks(tops[:, None])[0] / pairs.units + pairs.remainder
    return blocks.join_blocks(numbers), logs


def _size(pairs: Pairs) -> tuple[Float[Array, ""], int]:
    """The size of expanded scores, and the number of columns of difference vectors."""
    q, k = require_vectors(pairs.queries.vectors), require_vectors(pairs.keys.vectors)
    columns = require_vectors(pairs.keys.difference_vectors).shape[1]
    return size_of_scores(k, q, pairs.keys.offset), columns


def _are_near(bounds: Bounds) -> Bool[Array, ""]:
    """Whether bounds are close enough for their midpoint to be a stabiliser."""
    low, high = bounds
    single = low.dtype == jnp.float32
    size = jnp.maximum(jnp.max(jnp.abs(low)), jnp.max(jnp.abs(high)))
    is_close = jnp.all(high - low < (SINGLE if single else DOUBLE))
    return is_close & ~is_rounded_away(size) & jnp.isfinite(size)


def _bounds(pairs: Pairs) -> Bounds:
    """Lower and upper bounds of the largest score of each query."""
    q, k = require_vectors(pairs.queries.vectors), require_vectors(pairs.keys.vectors)
    offset = pairs.keys.offset
    extremes = [jnp.argmax(k, axis=0), jnp.argmin(k, axis=0), jnp.argmax(offset)[None]]
    pilots = jnp.concatenate(extremes)
    low = jnp.max(k[pilots] @ q + offset[pilots][:, None], axis=0)
    corners = [jnp.max(k, axis=0)[:, None] * q, jnp.min(k, axis=0)[:, None] * q]
    high = jnp.sum(jnp.maximum(*corners), axis=0) + jnp.max(offset)
    return low, high


def _wide_bounds(pairs: Pairs) -> Bounds:
    r"""Cheaper but wider bounds of the largest score, which all queries share.

    By Cauchy–Schwarz no inner product exceeds $\max|q|\max|k|$.
    """
    q, k = require_vectors(pairs.queries.vectors), require_vectors(pairs.keys.vectors)
    offset = pairs.keys.offset
    longest = jnp.max(jnp.sum(q**2, axis=0)) * jnp.max(jnp.sum(k**2, axis=1))
    reach, highest = jnp.sqrt(longest), jnp.max(offset)
    lowest = jnp.min(jnp.where(jnp.isneginf(offset), highest, offset))
    ones = jnp.ones_like(pairs.queries.offset)
    return (lowest - reach) * ones, (highest + reach) * ones


def _finite(tops: Array) -> Array:
    return jnp.where(jnp.isfinite(tops), tops, 0)
