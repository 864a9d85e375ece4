"""Initial tokens: random draws, Gauss–Hermite nodes, and clouds by name."""

import inspect
import math

import jax
from jaxtyping import Array, Float

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError

from ._gaussian import Gaussian
from ._points import Points
from ._quadrature import Tensor
from .clouds import sphere as sphere
from .clouds.named import clouds as clouds
from .reductions import AbstractReduction, Blocked


def gaussian_draw(
    gaussian: Gaussian,
    n: int,
    *,
    reduction: AbstractReduction = Blocked(),
    key: PRNGKey,
) -> Points:
    """Draws `n` independent tokens from a Gaussian.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.measures.sampling import gaussian_draw
        >>> mu = Gaussian(jnp.zeros(2), jnp.eye(2))
        >>> gaussian_draw(mu, 100, key=jax.random.key(0)).tokens.x.shape
        (100, 2)
    """
    z = jax.random.normal(key, (n, gaussian.factor.shape[1]), gaussian.factor.dtype)
    return Points.uniform(
        gaussian.mean[None, :] + z @ gaussian.factor.T, reduction=reduction
    )


def gauss_hermite(
    gaussian: Gaussian, *, order: int, reduction: AbstractReduction = Blocked()
) -> Points:
    """Weighted tokens that integrate polynomials exactly with respect to `gaussian`.

    The nodes are a tensor grid with `order` nodes along each column of the factor. They
    are exact up to degree `2 order - 1` along each column, and exponentially accurate
    for entire functions.

    Raises:
        InvalidInputError: if `order < 1` or the grid exceeds two million nodes.

    Examples:
        >>> from meanfield import Gaussian, gauss_hermite
        >>> nodes = gauss_hermite(Gaussian(jnp.ones(1), 2 * jnp.eye(1)), order=5)
        >>> print(nodes.tokens.n, nodes.mean, nodes.covariance)
        5 [1.] [[4.]]
    """
    z, weights = Tensor(order).factor_nodes(gaussian.factor)
    x = gaussian.mean[None, :] + z @ gaussian.factor.T
    return Points.weighted(x, weights, reduction=reduction)


def draw_cloud(text: str, n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """Tokens of the cloud `NAME`, or `NAME:NUMBER` with its numbers, such as `vmf:5`.

    Raises:
        InvalidInputError: if there are too many numbers, or one is invalid.
        UnknownNameError: if there is no such cloud.

    Examples:
        >>> from meanfield.measures.sampling import draw_cloud
        >>> draw_cloud("mixture:2", 5, 3, key=jax.random.key(0)).shape
        (5, 3)
    """
    name, *numbers = text.split(":")
    cloud = clouds[name]
    parameters = inspect.signature(cloud).parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][2:]
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        values = [math.nan]
    if len(values) > len(names) or not all(map(math.isfinite, values)):
        form = ":".join([name, *map(str.upper, names)])
        raise InvalidInputError(f"The cloud must be written `{form}`; got `{text}`.")
    return cloud(n, d, *values, key=key)
