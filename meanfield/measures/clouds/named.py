"""Initial tokens by name."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._registry import Registry
from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError, UnsupportedError

BLUR_RING, BLUR_MOONS = 0.05, 0.08  # standard deviations of noise added to the curves
DEVIATION = 0.25  # standard deviation of the components of a mixture

Cloud = Callable[..., Float[Array, "n d"]]
clouds: Registry[Cloud] = Registry("initial cloud")


@clouds.register("gaussian")
def gaussian(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Independent standard normal tokens.

    Examples:
        >>> from meanfield.measures.clouds.named import gaussian
        >>> gaussian(5, 3, key=jax.random.key(0)).shape
        (5, 3)
    """
    return jax.random.normal(key, (n, d))


@clouds.register("antithetic")
def antithetic(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Standard normal tokens in pairs `x`, `-x`, so that the mean stays zero.

    If `n` is odd, the last token is the origin.

    Examples:
        >>> from meanfield.measures.clouds.named import antithetic
        >>> print(
        ...     jnp.abs(antithetic(101, 2, key=jax.random.key(0)).sum(axis=0)) < 1e-12
        ... )
        [ True  True]
    """
    half = jax.random.normal(key, (n // 2, d))
    return jnp.concatenate([half, -half, jnp.zeros((n % 2, d))])


@clouds.register("ball")
def ball(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Uniformly distributed tokens in the unit ball.

    Examples:
        >>> from meanfield.measures.clouds.named import ball
        >>> bool(
        ...     jnp.all(
        ...         jnp.linalg.norm(ball(50, 3, key=jax.random.key(0)), axis=1) <= 1
        ...     )
        ... )
        True
    """
    return jax.random.ball(key, d, shape=(n,))


@clouds.register("sphere")
def sphere(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Uniformly distributed tokens on the unit sphere.

    Examples:
        >>> from meanfield.measures.clouds.named import sphere
        >>> print(jnp.linalg.norm(sphere(3, 4, key=jax.random.key(0)), axis=1))
        [1. 1. 1.]
    """
    x = jax.random.normal(key, (n, d))
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


@clouds.register("uniform")
def uniform(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Independent tokens of the uniform distribution of a compact space.

    Raises:
        UnsupportedError: since Euclidean space has none; see `AbstractSpace.uniform`.

    Examples:
        >>> from meanfield.measures.clouds.named import uniform
        >>> uniform(5, 2, key=jax.random.key(0))
        Traceback (most recent call last):
            ...
        meanfield.errors.UnsupportedError: The cloud `uniform` needs a compact space,...
    """
    del n, d, key
    raise UnsupportedError(
        "The cloud `uniform` needs a compact space, such as `--space sphere`."
    )


@clouds.register("ring")
def ring(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Tokens on a unit circle in the first two axes, plus noise.

    The standard deviation of the noise is 0.05 along each axis.

    Examples:
        >>> from meanfield.measures.clouds.named import ring
        >>> radii = jnp.linalg.norm(ring(1000, 2, key=jax.random.key(0)), axis=1)
        >>> bool(jnp.all(jnp.abs(radii - 1) < 0.25))
        True
    """
    _check_dimension(d, "ring")
    angle_key, blur_key = jax.random.split(key)
    angle = 2 * jnp.pi * jax.random.uniform(angle_key, (n,))
    circle = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    x = jnp.zeros((n, d)).at[:, :2].set(circle)
    return x + BLUR_RING * jax.random.normal(blur_key, (n, d))


@clouds.register("moons")
def moons(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Tokens on two interleaved half circles in the first two axes, plus noise.

    The standard deviation of the noise is 0.08 along each axis.

    Examples:
        >>> from meanfield.measures.clouds.named import moons
        >>> moons(100, 2, key=jax.random.key(0)).shape
        (100, 2)
    """
    _check_dimension(d, "moons")
    angle_key, blur_key = jax.random.split(key)
    angle = jnp.pi * jax.random.uniform(angle_key, (n,))
    upper = jnp.arange(n) % 2 == 0
    first = jnp.where(upper, jnp.cos(angle), 1 - jnp.cos(angle)) - 0.5
    second = jnp.where(upper, jnp.sin(angle), 0.5 - jnp.sin(angle)) - 0.25
    x = jnp.zeros((n, d)).at[:, :2].set(jnp.stack([first, second], axis=1))
    return x + BLUR_MOONS * jax.random.normal(blur_key, (n, d))


@clouds.register("mixture")
def mixture(
    n: int, d: int, components: float = 4, *, key: PRNGKey
) -> Float[Array, "n d"]:
    """A mixture of Gaussians of standard deviation 0.25, with standard normal centres.

    Examples:
        >>> from meanfield.measures.clouds.named import mixture
        >>> mixture(100, 2, key=jax.random.key(0), components=3).shape
        (100, 2)
    """
    centre_key, blur_key = jax.random.split(key)
    count = int(components)
    if not count == components >= 1:
        raise InvalidInputError(
            f"The number of components must be whole, at least 1; got {components:g}."
        )
    centres = mixture_centres(d, count, key=centre_key)
    blur = DEVIATION * jax.random.normal(blur_key, (n, d))
    return centres[jnp.arange(n) % count] + blur


def mixture_centres(
    d: int, components: int = 4, *, key: PRNGKey
) -> Float[Array, "components d"]:
    """Centres of the components of `mixture`, which are standard normal.

    Examples:
        >>> from meanfield.measures.clouds.named import mixture_centres
        >>> mixture_centres(2, 3, key=jax.random.key(0)).shape
        (3, 2)
    """
    return jax.random.normal(key, (components, d))


def _check_dimension(d: int, name: str) -> None:
    if d < 2:
        raise InvalidInputError(f"The cloud `{name}` needs d ≥ 2; got d = {d}.")
