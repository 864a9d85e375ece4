"""What exponents are measured from, so that no sum over- or underflows.

Any number within the range of the exponent of the largest score will do. A few keys
far out give one from below, the box around all keys one from above: where these are
near enough to each other the largest scores need not be known.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import frozen

from ._streaming import Blocks, Pairs, largest

# How far apart both bounds may be, in powers of 2: half of it above, half below, and
# room for sums and for what is small beside the largest.
SINGLE, DOUBLE = 100.0, 900.0


def stabilised(
    blocks: Blocks, sums: Callable[[Blocks], Array]
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Sums of exponents below a stabiliser, and that: a number for each query.

    Near its largest exponent; 0 where it has none. Constant for derivatives: means and
    logarithms do not depend on it.
    """

    def exact() -> tuple[Array, Array]:
        top = _finite(largest(frozen(blocks).rounded))
        return sums(blocks.rounded.below(top)), top

    has_bounds = blocks.pairs.exact and not blocks.one
    numbers, tops = _by_bounds(blocks, sums, exact) if has_bounds else exact()
    return blocks.joined(numbers), blocks.joined(tops[:, None])[0]


def _by_bounds(
    blocks: Blocks,
    sums: Callable[[Blocks], Array],
    exact: Callable[[], tuple[Array, Array]],
) -> tuple[Array, Array]:
    """Sums below the middle of bounds that are near enough, or else `exact`."""
    low, high = _bounds(frozen(blocks.pairs))
    single = low.dtype == jnp.float32
    size = jnp.maximum(jnp.max(jnp.abs(low)), jnp.max(jnp.abs(high)))
    # Bounds of scores that rounding alone moves by more than 1 say nothing.
    near = jnp.all(high - low < (SINGLE if single else DOUBLE))
    near &= size * jnp.finfo(low.dtype).eps < 1  # false for what is not finite
    middle = blocks.by_query((low + high) / 2)
    return jax.lax.cond(near, lambda: (sums(blocks.below(middle)), middle), exact)


def _bounds(pairs: Pairs) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
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


def _finite(tops: Array) -> Array:
    return jnp.where(jnp.isfinite(tops), tops, 0)
