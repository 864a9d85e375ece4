r"""The axes along which queries and keys are cut into cells.

An inner product is $q\cdot k = (Lq)\cdot(L^{-\top}k)$ for every invertible $L$. Of
these, the one for which both have the same diagonal covariance makes cells fewest: its
axes are those of the canonical correlations, the singular ones of a bilinear score for
isotropic tokens; and it stays the same if queries and keys change places.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST

_FLAT = 1e-6  # of the largest variance, added to all: what rounding is magnified by


class Side(NamedTuple):
    """One side in the frame: centred, within `half` of the origin, and from where.

    Attributes:
        x: vectors less `middle`, (n, k).
        middle: of the box around all.
        half: half of its widths.
    """

    x: Float[Array, "n k"]
    middle: Float[Array, " k"]
    half: Float[Array, " k"]


def framed(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"]
) -> tuple[Side, Side]:
    """Both sides along the axes; frame and boxes are constants for derivatives."""
    q, k = jax.lax.stop_gradient((queries, keys))
    F, G = _factor(q), _factor(k)
    U, scales, W = jnp.linalg.svd(jnp.matmul(F.T, G, precision=HIGHEST))
    root = jnp.sqrt(scales)
    L = root[:, None] * jnp.linalg.solve(F.T, U).T
    M = root[:, None] * jnp.linalg.solve(G.T, W.T).T
    return _boxed(queries, L), _boxed(keys, M)


def _factor(x: Float[Array, "n k"]) -> Float[Array, "k k"]:
    """A root of the covariance, no direction of which is left without a width."""
    centred = x - jnp.mean(x, axis=0)[None]
    covariance = jnp.matmul(centred.T, centred, precision=HIGHEST) / len(x)
    variances, axes = jnp.linalg.eigh(covariance)
    largest = jnp.where(variances[-1] > 0, variances[-1], 1)
    return axes * jnp.sqrt(jnp.maximum(variances, 0) + _FLAT * largest)[None]


def _boxed(x: Float[Array, "n k"], matrix: Float[Array, "k k"]) -> Side:
    along = jnp.matmul(x, matrix.T, precision=HIGHEST)
    low, high = jnp.min(along, axis=0), jnp.max(along, axis=0)
    low, high = jax.lax.stop_gradient((low, high))
    half, middle = (high - low) / 2, (low + high) / 2
    # A box without width has one value; any width gives it.
    return Side(along - middle[None], middle, jnp.where(half > 0, half, 1))
