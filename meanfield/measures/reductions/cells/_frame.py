r"""The axes along which queries and keys are divided into cells.

An inner product is $q\cdot k = (Lq)\cdot(L^{-\top}k)$ for every invertible $L$. One
choice of $L$ gives queries and keys the same diagonal covariance, like the balancing of
a control system. For isotropic tokens, the axes are then the singular vectors of the
bilinear score. The choice is symmetric in queries and keys.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._lapack import svd
from meanfield.linalg import HIGHEST, eigh

# This share of the largest variance is added to every variance, which limits rounding
# errors.
_FLAT = 1e-6


class Side(NamedTuple):
    """Queries or keys along the axes, in a box around their centre.

    Attributes:
        x: the vectors minus `middle`.
        middle: centre of the box.
        half: half-widths of the box; derivatives treat them as constants.
    """

    x: Float[Array, "n k"]
    middle: Float[Array, " k"]
    half: Float[Array, " k"]


def frame_sides(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"]
) -> tuple[Side, Side]:
    """Queries and keys along common axes, each relative to the centre of its box."""
    L, M = axes(*jax.lax.stop_gradient((queries, keys)))
    q, k = project(queries, L), project(keys, M)
    return make_side(q, _middle(q)), make_side(k, _middle(k))


def axes(
    q: Float[Array, "m k"], k: Float[Array, "n k"]
) -> tuple[Float[Array, "k k"], Float[Array, "k k"]]:
    r"""The $L$ and $L^{-\top}$ that give both sides the same diagonal covariance."""
    (D, sizes), (E, key_sizes) = _root(q), _root(k)
    overlap = jnp.matmul(D.T, E, precision=HIGHEST)
    U, scales, W = svd(sizes[:, None] * overlap * key_sizes[None])
    root = jnp.sqrt(scales)[:, None]
    whiten = lambda rotation, sizes, directions: jnp.matmul(
        rotation / sizes[None], directions.T, precision=HIGHEST
    )
    return root * whiten(U.T, sizes, D), root * whiten(W, key_sizes, E)


def project(x: Float[Array, "n k"], matrix: Float[Array, "k k"]) -> Float[Array, "n k"]:
    """Projects vectors onto the axes."""
    return jnp.matmul(x, matrix.T, precision=HIGHEST)


def make_side(x: Float[Array, "n k"], middle: Float[Array, " k"]) -> Side:
    """The vectors relative to `middle`, with a box around `middle` that holds them."""
    offsets = x - middle[None]
    half = jnp.max(jnp.abs(jax.lax.stop_gradient(offsets)), axis=0)
    # If all vectors coincide along an axis, any positive half-width is valid.
    return Side(offsets, middle, jnp.where(half > 0, half, 1))


def _middle(x: Float[Array, "n k"]) -> Float[Array, " k"]:
    x = jax.lax.stop_gradient(x)
    return (jnp.min(x, axis=0) + jnp.max(x, axis=0)) / 2


def _root(x: Float[Array, "n k"]) -> tuple[Float[Array, "k k"], Float[Array, " k"]]:
    """Principal directions, and standard deviations along them, which are positive."""
    centred_x = x - jnp.mean(x, axis=0)[None]
    covariance = jnp.matmul(centred_x.T, centred_x, precision=HIGHEST) / len(x)
    variances, directions = eigh(covariance)
    largest = jnp.where(variances[-1] > 0, variances[-1], 1)
    return directions, jnp.sqrt(jnp.maximum(variances, 0) + _FLAT * largest)
