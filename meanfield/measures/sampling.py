"""Where a flow starts: draws, Gauss–Hermite nodes, and named initial clouds."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._registry import Registry
from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError

from ._gaussian import Gaussian
from ._points import Points
from ._quadrature import Tensor
from .reductions import AbstractReduction, Blocked

BLUR_RING, BLUR_MOONS = 0.05, 0.08  # deviations of what is added to curves
DEVIATION = 0.25  # of the components of a mixture

Cloud = Callable[..., Float[Array, "n d"]]
clouds: Registry[Cloud] = Registry("initial cloud")


def gaussian_draw(
    gaussian: Gaussian,
    n: int,
    *,
    reduction: AbstractReduction = Blocked(),
    key: PRNGKey,
) -> Points:
    """`n` independent tokens of a Gaussian."""
    z = jax.random.normal(key, (n, gaussian.factor.shape[1]), gaussian.factor.dtype)
    return Points.uniform(
        gaussian.mean[None, :] + z @ gaussian.factor.T, reduction=reduction
    )


def gauss_hermite(
    gaussian: Gaussian, *, order: int, reduction: AbstractReduction = Blocked()
) -> Points:
    """Weighted tokens that integrate polynomials against `gaussian` exactly.

    A tensor grid of `order` nodes along each column of the factor: exact up to degree
    `2 order - 1` in each, and exponentially accurate for entire functions.

    Raises:
        InvalidInputError: if `order < 1` or the grid passes two million nodes.
    """
    z, weights = Tensor(order).along(gaussian.factor)
    x = gaussian.mean[None, :] + z @ gaussian.factor.T
    return Points.weighted(x, weights, reduction=reduction)


@clouds.register("gaussian")
def gaussian(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Independent standard normal tokens."""
    return jax.random.normal(key, (n, d))


@clouds.register("antithetic")
def antithetic(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Standard normal tokens in pairs `x`, `-x`: the mean is zero, and stays zero.

    An odd token out sits at the origin.
    """
    half = jax.random.normal(key, (n // 2, d))
    return jnp.concatenate([half, -half, jnp.zeros((n % 2, d))])


@clouds.register("ball")
def ball(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Tokens uniform in the unit ball."""
    return jax.random.ball(key, d, shape=(n,))


@clouds.register("sphere")
def sphere(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Tokens uniform on the unit sphere."""
    x = jax.random.normal(key, (n, d))
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


@clouds.register("ring")
def ring(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Tokens on a unit circle in the first two axes, blurred by 0.05."""
    _at_least_two(d, "ring")
    angle_key, blur_key = jax.random.split(key)
    angle = 2 * jnp.pi * jax.random.uniform(angle_key, (n,))
    circle = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    x = jnp.zeros((n, d)).at[:, :2].set(circle)
    return x + BLUR_RING * jax.random.normal(blur_key, (n, d))


@clouds.register("moons")
def moons(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Two interleaved half circles in the first two axes, blurred by 0.08, centred."""
    _at_least_two(d, "moons")
    angle_key, blur_key = jax.random.split(key)
    angle = jnp.pi * jax.random.uniform(angle_key, (n,))
    upper = jnp.arange(n) % 2 == 0
    first = jnp.where(upper, jnp.cos(angle), 1 - jnp.cos(angle)) - 0.5
    second = jnp.where(upper, jnp.sin(angle), 0.5 - jnp.sin(angle)) - 0.25
    x = jnp.zeros((n, d)).at[:, :2].set(jnp.stack([first, second], axis=1))
    return x + BLUR_MOONS * jax.random.normal(blur_key, (n, d))


@clouds.register("mixture")
def mixture(
    n: int, d: int, *, key: PRNGKey, components: int = 4
) -> Float[Array, "n d"]:
    """Equal Gaussians of deviation 0.25 with standard normal centres, 4 by default."""
    centre_key, blur_key = jax.random.split(key)
    centres = mixture_centres(d, components, key=centre_key)
    blur = DEVIATION * jax.random.normal(blur_key, (n, d))
    return centres[jnp.arange(n) % components] + blur


def mixture_centres(
    d: int, components: int = 4, *, key: PRNGKey
) -> Float[Array, "components d"]:
    """Where the Gaussians of a mixture are: standard normal."""
    return jax.random.normal(key, (components, d))


def _at_least_two(d: int, name: str) -> None:
    if d < 2:
        raise InvalidInputError(f"The cloud `{name}` needs d ≥ 2; got d = {d}.")
