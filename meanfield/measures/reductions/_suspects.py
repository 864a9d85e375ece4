"""Where interpolated sums are compared with exact ones."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ._nodes import Box

CELLS = 144  # at most; each costs an exact sum
FINER = 4  # times as many along each axis, of which some fill the place of empty ones


def suspects(
    x: Float[Array, "n d"], gaps: Float[Array, " n"]
) -> Int[Array, " suspects"]:
    """The token of the largest gap in each cell of a box around all tokens.

    Cells lie as Chebyshev nodes do. A token that is alone between clusters has one for
    itself, and is looked at however small its gap. Where cells are empty, the tokens
    of the largest gaps in finer cells are looked at too; and where these are too few,
    that of the largest gap of all stands in their place.

    Examples:
        >>> from meanfield.measures import suspects
        >>> x, gaps = (
        ...     jnp.linspace(0, 1, 1000)[:, None],
        ...     jnp.zeros(1000).at[700].set(1.0),
        ... )
        >>> bool(jnp.any(suspects(x, gaps) == 700))
        True
    """
    n, d = x.shape
    x, gaps = jax.lax.stop_gradient((x, gaps))
    gaps = jnp.where(jnp.isnan(gaps), jnp.inf, gaps)
    side = int(CELLS ** (1 / d) + 1e-9)  # a root that is whole, but for rounding
    angles = jnp.arccos(jnp.clip(Box.around(x, d).coordinates(x), -1, 1)) / np.pi
    coarse, fine = _cells(angles, side), _cells(angles, FINER * side)
    first = _first(coarse, gaps, side**d)[coarse] == jnp.arange(n)
    indices = _first(fine, gaps, (FINER * side) ** d)
    there = jnp.minimum(indices, n - 1)
    order = jnp.where(first[there], jnp.inf, gaps[there])
    order = jnp.where(indices < n, order, -jnp.inf)
    indices = indices[jax.lax.top_k(order, side**d)[1]]
    return jnp.where(indices < n, indices, jnp.argmax(gaps))


def _cells(angles: Float[Array, "d n"], side: int) -> Int[Array, " n"]:
    """The number of each token's cell, with so many cells along each axis."""
    place = jnp.minimum((side * angles).astype(int), side - 1)
    return jnp.asarray([side**axis for axis in range(len(angles))]) @ place


def _first(
    cell: Int[Array, " n"], gaps: Float[Array, " n"], count: int
) -> Int[Array, " count"]:
    """The first token of the largest gap in each cell; `n` where there is none."""
    n = len(gaps)
    largest = jax.ops.segment_max(gaps, cell, count)
    numbers = jnp.where(gaps == largest[cell], jnp.arange(n), n)
    return jnp.minimum(jax.ops.segment_min(numbers, cell, count), n)
