"""What exponents are measured from, so that no sum over- or underflows.

Any number within the range of the exponent of the largest score will do. A few keys
far out give one from below, the box around all keys one from above: where these are
near enough to each other the largest scores need not be known.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from equinox.internal import unvmap_all
from jaxtyping import Array, Bool, Float

from meanfield._array import frozen
from meanfield.scores.differences import (
    is_rounded_away,
    size_of_scores,
    unless_rounded_away,
)
from meanfield.scores.pairs import ALIKE, Pairs, known

from ._streaming import Blocks, largest

# How far apart both bounds may be, in powers of 2: half of it above, half below, and
# room for sums and for what is small beside the largest.
SINGLE, DOUBLE = 100.0, 900.0

Bounds = tuple[Float[Array, " m"], Float[Array, " m"]]


def stabilised(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Sums of exponents below a stabiliser, and that: a number for each query.

    Near its largest exponent, in no units and with the remainder; 0 without one.
    Constant for derivatives, but for the remainder: means and logarithms do not depend
    on it.
    """
    if not blocks.pairs.exact or blocks.one:
        return _exact(blocks, sums)
    bounds = _bounds(frozen(blocks.pairs))
    return _by_bounds(blocks, sums, bounds, _are_near(bounds))


def stabilised_beside(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """The same for one of many clouds side by side.

    There both branches of a `cond` are computed unless its condition is one for all;
    and bounds that cost few operations spare a pass over one block, too.
    """
    if not blocks.pairs.exact:
        return _exact(blocks, sums)
    bounds = (_wide_bounds if blocks.one else _bounds)(frozen(blocks.pairs))
    return _by_bounds(blocks, sums, bounds, unvmap_all(_are_near(bounds)))


def absolute(blocks: Blocks, sums: Callable[[Blocks], Array]) -> Array:
    """Sums of links of whole scores; of squared distances from differences."""
    pairs = blocks.pairs
    whole = lambda: sums(blocks.below(blocks.by_query(-pairs.remainder)))
    if pairs.bend is None:
        return blocks.joined(whole())
    exact = lambda: sums(blocks.absolute)
    return blocks.joined(unless_rounded_away(*_size(pairs), exact, whole))


def _exact(blocks: Blocks, sums: Callable[[Blocks], Array]) -> tuple[Array, Array]:
    """Sums below the largest scores, from differences where scores have them."""
    largest_first = lambda: _below_largest(blocks, sums)
    if blocks.pairs.keys.compared is None:
        return largest_first()
    from_best = lambda: _below_best(blocks, sums)
    return unless_rounded_away(*_size(blocks.pairs), from_best, largest_first)


def _below_largest(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Array, Array]:
    top = _finite(largest(frozen(blocks).rounded))
    return _joined(blocks, sums(blocks.rounded.below(top)), top)


def _below_best(blocks: Blocks, sums: Callable[[Blocks], Array]) -> tuple[Array, Array]:
    """Sums of scores that are measured from those of keys with the largest ones."""
    relative, logs, at = blocks.from_best()
    top = _top_of_relative(relative, logs)
    numbers = blocks.joined(sums(relative.below(top)))
    return numbers, blocks.joined((at + top / blocks.pairs.units)[:, None])[0]


def _top_of_relative(blocks: Blocks, logs: Float[Array, "bm queries"]) -> Array:
    """The largest scores, or those of the references, which are their logs.

    Expanded scores, by which references are found, may miss the largest by their
    rounding. One block is looked through again rather than a choice compiled.
    """
    largest_again = lambda: _finite(largest(frozen(blocks)))
    if blocks.one:
        return largest_again()
    size, columns = _size(blocks.pairs)
    room = (SINGLE if size.dtype == jnp.float32 else DOUBLE) / 4
    is_close = (columns + 2 + ALIKE) * size * jnp.finfo(size.dtype).eps < room
    return jax.lax.cond(unvmap_all(is_close), lambda: logs, largest_again)


def _by_bounds(
    blocks: Blocks, sums: Callable[[Blocks], Array], bounds: Bounds, near: Array
) -> tuple[Array, Array]:
    """Sums below the middle of bounds that are near enough, or else the largest."""
    middle = blocks.by_query((bounds[0] + bounds[1]) / 2)
    at_middle = lambda: _joined(blocks, sums(blocks.below(middle)), middle)
    return jax.lax.cond(near, at_middle, lambda: _exact(blocks, sums))


def _joined(blocks: Blocks, numbers: Array, tops: Array) -> tuple[Array, Array]:
    pairs = blocks.pairs
    logs = blocks.joined(tops[:, None])[0] / pairs.units + pairs.remainder
    return blocks.joined(numbers), logs


def _size(pairs: Pairs) -> tuple[Float[Array, ""], int]:
    """The size of expanded scores, and the columns of vectors for their differences."""
    q, k = known(pairs.queries.vectors), known(pairs.keys.vectors)
    columns = known(pairs.keys.compared).shape[1]
    return size_of_scores(k, q, pairs.keys.offset), columns


def _are_near(bounds: Bounds) -> Bool[Array, ""]:
    """Whether exponents may be measured from the middle of such bounds."""
    low, high = bounds
    single = low.dtype == jnp.float32
    size = jnp.maximum(jnp.max(jnp.abs(low)), jnp.max(jnp.abs(high)))
    near = jnp.all(high - low < (SINGLE if single else DOUBLE))
    return near & ~is_rounded_away(size) & jnp.isfinite(size)


def _bounds(pairs: Pairs) -> Bounds:
    """The largest score of each query, from below and from above."""
    q, k = known(pairs.queries.vectors), known(pairs.keys.vectors)
    offset = pairs.keys.offset
    extremes = [jnp.argmax(k, axis=0), jnp.argmin(k, axis=0), jnp.argmax(offset)[None]]
    pilots = jnp.concatenate(extremes)
    low = jnp.max(k[pilots] @ q + offset[pilots][:, None], axis=0)
    corners = [jnp.max(k, axis=0)[:, None] * q, jnp.min(k, axis=0)[:, None] * q]
    high = jnp.sum(jnp.maximum(*corners), axis=0) + jnp.max(offset)
    return low, high


def _wide_bounds(pairs: Pairs) -> Bounds:
    r"""The same less near, one for all queries, in few operations.

    By Cauchy--Schwarz no product is larger than $\max|q|\max|k|$.
    """
    q, k = known(pairs.queries.vectors), known(pairs.keys.vectors)
    offset = pairs.keys.offset
    longest = jnp.max(jnp.sum(q**2, axis=0)) * jnp.max(jnp.sum(k**2, axis=1))
    reach, highest = jnp.sqrt(longest), jnp.max(offset)
    lowest = jnp.min(jnp.where(jnp.isneginf(offset), highest, offset))
    every = jnp.ones_like(pairs.queries.offset)
    return (lowest - reach) * every, (highest + reach) * every


def _finite(tops: Array) -> Array:
    return jnp.where(jnp.isfinite(tops), tops, 0)
