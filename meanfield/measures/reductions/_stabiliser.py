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

from ._streaming import Blocks, Pairs, largest

# How far apart both bounds may be, in powers of 2: half of it above, half below, and
# room for sums and for what is small beside the largest.
SINGLE, DOUBLE = 100.0, 900.0

Bounds = tuple[Float[Array, " m"], Float[Array, " m"]]


def stabilised(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Sums of exponents below a stabiliser, and that: a number for each query.

    Near its largest exponent; 0 where it has none. Constant for derivatives: means and
    logarithms do not depend on it.
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


def _exact(blocks: Blocks, sums: Callable[[Blocks], Array]) -> tuple[Array, Array]:
    """Sums below the largest scores."""
    top = _finite(largest(frozen(blocks).rounded))
    return _joined(blocks, sums(blocks.rounded.below(top)), top)


def _by_bounds(
    blocks: Blocks, sums: Callable[[Blocks], Array], bounds: Bounds, near: Array
) -> tuple[Array, Array]:
    """Sums below the middle of bounds that are near enough, or else the largest."""
    middle = blocks.by_query((bounds[0] + bounds[1]) / 2)
    at_middle = lambda: _joined(blocks, sums(blocks.below(middle)), middle)
    return jax.lax.cond(near, at_middle, lambda: _exact(blocks, sums))


def _joined(blocks: Blocks, numbers: Array, tops: Array) -> tuple[Array, Array]:
    return blocks.joined(numbers), blocks.joined(tops[:, None])[0]


def _are_near(bounds: Bounds) -> Bool[Array, ""]:
    """Whether exponents may be measured from the middle of such bounds."""
    low, high = bounds
    single = low.dtype == jnp.float32
    size = jnp.maximum(jnp.max(jnp.abs(low)), jnp.max(jnp.abs(high)))
    # Bounds of scores that rounding alone moves by more than 1 say nothing.
    near = jnp.all(high - low < (SINGLE if single else DOUBLE))
    return near & (size * jnp.finfo(low.dtype).eps < 1)  # false if not finite


def _bounds(pairs: Pairs) -> Bounds:
    """The largest score of each query, from below and from above."""
    q, k, offset = pairs.queries.vectors, pairs.keys.vectors, pairs.keys.offset
    assert q is not None
    assert k is not None
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
    q, k, offset = pairs.queries.vectors, pairs.keys.vectors, pairs.keys.offset
    assert q is not None
    assert k is not None
    longest = jnp.max(jnp.sum(q**2, axis=0)) * jnp.max(jnp.sum(k**2, axis=1))
    reach, highest = jnp.sqrt(longest), jnp.max(offset)
    lowest = jnp.min(jnp.where(jnp.isneginf(offset), highest, offset))
    every = jnp.ones_like(pairs.queries.offset)
    return (lowest - reach) * every, (highest + reach) * every


def _finite(tops: Array) -> Array:
    return jnp.where(jnp.isfinite(tops), tops, 0)
