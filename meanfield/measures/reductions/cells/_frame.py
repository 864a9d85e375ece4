r"""The axes along which queries and keys are cut into cells.

An inner product is $q\cdot k = (Lq)\cdot(L^{-\top}k)$ for every invertible $L$. Of
these, one gives two clouds of points, one on either side, the same diagonal covariance:
its axes are those of their canonical correlations, the singular ones of a bilinear
score for isotropic tokens; and it stays the same if they change places.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST

_FLAT = 1e-6  # of the largest variance, added to all: what rounding is magnified by


class Side(NamedTuple):
    """One side along the axes, within `half` of where it is measured from.

    Attributes:
        x: vectors less `middle`, (n, k).
        middle: what they are measured from.
        half: of the width of a box around `middle`; a constant for derivatives.
    """

    x: Float[Array, "n k"]
    middle: Float[Array, " k"]
    half: Float[Array, " k"]


def framed(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"]
) -> tuple[Side, Side]:
    """Both sides along axes common to them, from the middles of their boxes."""
    L, M = axes(*jax.lax.stop_gradient((queries, keys)))
    q, k = along(queries, L), along(keys, M)
    return boxed(q, _middle(q)), boxed(k, _middle(k))


def axes(
    q: Float[Array, "m k"], k: Float[Array, "n k"]
) -> tuple[Float[Array, "k k"], Float[Array, "k k"]]:
    r"""$L$ and $L^{-\top}$, with which both have the same diagonal covariance."""
    (D, sizes), (E, others) = _root(q), _root(k)
    between = jnp.matmul(D.T, E, precision=HIGHEST)
    U, scales, W = jnp.linalg.svd(sizes[:, None] * between * others[None])
    root = jnp.sqrt(scales)[:, None]
    whitened = lambda turned, sizes, directions: jnp.matmul(
        turned / sizes[None], directions.T, precision=HIGHEST
    )
    return root * whitened(U.T, sizes, D), root * whitened(W, others, E)


def along(x: Float[Array, "n k"], matrix: Float[Array, "k k"]) -> Float[Array, "n k"]:
    """Vectors along axes."""
    return jnp.matmul(x, matrix.T, precision=HIGHEST)


def boxed(x: Float[Array, "n k"], middle: Float[Array, " k"]) -> Side:
    """Vectors from a middle, in a box around it."""
    moved = x - middle[None]
    half = jnp.max(jnp.abs(jax.lax.stop_gradient(moved)), axis=0)
    # A box without width has one value; any width gives it.
    return Side(moved, middle, jnp.where(half > 0, half, 1))


def _middle(x: Float[Array, "n k"]) -> Float[Array, " k"]:
    x = jax.lax.stop_gradient(x)
    return (jnp.min(x, axis=0) + jnp.max(x, axis=0)) / 2


def _root(x: Float[Array, "n k"]) -> tuple[Float[Array, "k k"], Float[Array, " k"]]:
    """Directions and deviations along them; none is left without a width."""
    centred = x - jnp.mean(x, axis=0)[None]
    covariance = jnp.matmul(centred.T, centred, precision=HIGHEST) / len(x)
    variances, directions = jnp.linalg.eigh(covariance)
    largest = jnp.where(variances[-1] > 0, variances[-1], 1)
    return directions, jnp.sqrt(jnp.maximum(variances, 0) + _FLAT * largest)
