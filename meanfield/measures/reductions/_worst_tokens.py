"""Selection of the tokens at which interpolated sums are compared with exact ones."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ._nodes import Box

CELLS = 144  # maximum number of cells; each costs an exact sum
# Each cell is divided into this number of finer cells along each axis. For each empty
# cell, a token from a finer cell is selected instead.
FINER = 4


def worst_tokens(
    x: Float[Array, "n d"], gaps: Float[Array, " n"]
) -> Int[Array, " worst_tokens"]:
    """The tokens with the largest gap in each cell of a box around all tokens.

    A gap estimates the error at a token. Cells are spaced like Chebyshev nodes. An
    isolated token between clusters has a cell of its own, and is selected however small
    its gap. For each empty cell, a token with a large gap in a finer cell is selected
    instead or, if there are not enough of these, the token with the largest gap of all.

    Examples:
        >>> from meanfield.measures import worst_tokens
        >>> x, gaps = (
        ...     jnp.linspace(0, 1, 1000)[:, None],
        ...     jnp.zeros(1000).at[700].set(1.0),
        ... )
        >>> bool(jnp.any(worst_tokens(x, gaps) == 700))
        True
    """
    n, d = x.shape
    x, gaps = jax.lax.stop_gradient((x, gaps))
    gaps = jnp.where(jnp.isnan(gaps), jnp.inf, gaps)
    side = int(CELLS ** (1 / d) + 1e-9)  # rounding must not lower an integer root
    angles = jnp.arccos(jnp.clip(Box.from_vectors(x, d).coordinates(x), -1, 1)) / np.pi
    coarse, fine = _cells(angles, side), _cells(angles, FINER * side)
    first = _first(coarse, gaps, side**d)[coarse] == jnp.arange(n)
    indices = _first(fine, gaps, (FINER * side) ** d)
    safe_indices = jnp.minimum(indices, n - 1)
    order = jnp.where(first[safe_indices], jnp.inf, gaps[safe_indices])
    order = jnp.where(indices < n, order, -jnp.inf)
    indices = indices[jax.lax.top_k(order, side**d)[1]]
    return jnp.where(indices < n, indices, jnp.argmax(gaps))


def _cells(angles: Float[Array, "d n"], side: int) -> Int[Array, " n"]:
    """The index of each token's cell, with `side` cells along each axis."""
    place = jnp.minimum((side * angles).astype(int), side - 1)
    return jnp.asarray([side**axis for axis in range(len(angles))]) @ place


def _first(
    cell: Int[Array, " n"], gaps: Float[Array, " n"], count: int
) -> Int[Array, " count"]:
    """The first token with the largest gap in each cell; `n` for an empty cell."""
    n = len(gaps)
    largest = jax.ops.segment_max(gaps, cell, count)
    numbers = jnp.where(gaps == largest[cell], jnp.arange(n), n)
    return jnp.minimum(jax.ops.segment_min(numbers, cell, count), n)
