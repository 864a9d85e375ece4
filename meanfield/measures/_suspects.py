"""Where interpolated sums are compared with exact ones."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ._nodes import Box

CELLS = 144  # at most; each costs an exact sum


def suspects(
    x: Float[Array, "n d"], gaps: Float[Array, " n"]
) -> Int[Array, " suspects"]:
    """The token of the largest gap in each cell of a box around all tokens.

    Cells lie as Chebyshev nodes do. A token that is alone between clusters has one for
    itself, and is looked at however small its gap; in an empty cell's place stands the
    token of the largest gap of all.
    """
    n, d = x.shape
    x, gaps = jax.lax.stop_gradient((x, gaps))
    side = int(CELLS ** (1 / d) + 1e-9)  # a root that is whole, but for rounding
    angles = jnp.arccos(jnp.clip(Box.around(x, d).coordinates(x), -1, 1)) / np.pi
    place = jnp.minimum((side * angles).astype(int), side - 1)
    cell = jnp.asarray([side**axis for axis in range(d)]) @ place
    gaps = jnp.where(jnp.isnan(gaps), jnp.inf, gaps)
    largest = jax.ops.segment_max(gaps, cell, side**d)
    numbers = jnp.where(gaps == largest[cell], jnp.arange(n), n)
    first = jax.ops.segment_min(numbers, cell, side**d)
    return jnp.where(first < n, first, jnp.argmax(gaps))
