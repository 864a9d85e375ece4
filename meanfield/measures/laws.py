"""Densities of the named initial clouds, for grids."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
import scipy
from jaxtyping import Float

from meanfield._registry import Registry
from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError

from .clouds.named import BLUR_MOONS, BLUR_RING, DEVIATION, clouds, mixture_centres

Values = Float[np.ndarray, " m"]
FAR = 12.0  # half-width for d = 1, in standard deviations; softmax amplifies tails
TAILS = 8.0  # standard deviations beyond which a Gaussian has a mass of 1e-15
ARC = 96  # nodes along a half circle; the error of the blurred density is then 1e-13


class Law(NamedTuple):
    """A probability density with its first moments.

    Attributes:
        density: function from points (m, d) to m values.
        mean: mean of the density.
        covariance: covariance of the density.
        half_width: half-width of a box around the mean, in standard deviations along
            each axis. The density has room to change its shape inside the box.

    Examples:
        >>> from meanfield.measures.laws import normal
        >>> law = normal(1)
        >>> print(law.density(np.zeros((1, 1))), 1 / np.sqrt(2 * np.pi), law.half_width)
        [0.3989] 0.39894... 12.0
    """

    density: Callable[[Float[np.ndarray, "m d"]], Values]
    mean: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]
    half_width: float


laws: Registry[Callable[..., Law]] = Registry("initial density")


@laws.register("gaussian")
@laws.register("antithetic")
def gaussian(d: int, *, key: PRNGKey) -> Law:
    """The standard normal density.

    Examples:
        >>> from meanfield.measures.laws import gaussian
        >>> print(gaussian(2, key=jax.random.key(0)).covariance)
        [[1. 0.]
         [0. 1.]]
    """
    del key
    return normal(d)


@laws.register("ball")
def ball(d: int, *, key: PRNGKey) -> Law:
    """The uniform density on the unit ball.

    Examples:
        >>> from meanfield.measures.laws import ball
        >>> law = ball(2, key=jax.random.key(0))
        >>> print(law.density(np.array([[0.0, 0.5], [2.0, 0.0]])), 1 / np.pi)
        [0.3183 0.    ] 0.31830...
    """
    del key
    volume = np.exp(d / 2 * np.log(np.pi) - scipy.special.gammaln(d / 2 + 1))
    density = lambda x: (np.sum(x**2, axis=1) < 1) / volume
    return Law(density, np.zeros(d), np.eye(d) / (d + 2), 2 * np.sqrt(d + 2))


@laws.register("ring")
def ring(d: int, *, key: PRNGKey) -> Law:
    r"""A Gaussian-blurred circle, $(2\pi b^2)^{-1}e^{-(r^2+1)/2b^2}I_0(r/b^2)$.

    Examples:
        >>> from meanfield.measures.laws import ring
        >>> print(ring(2, key=jax.random.key(0)).covariance)
        [[0.5025 0.    ]
         [0.     0.5025]]
    """
    del key
    _check_plane(d, "ring")

    def density(x: np.ndarray) -> np.ndarray:
        r = np.hypot(x[:, 0], x[:, 1])
        bell = np.exp(-((r - 1) ** 2) / (2 * BLUR_RING**2))
        return (
            bell * scipy.special.ive(0, r / BLUR_RING**2) / (2 * np.pi * BLUR_RING**2)
        )

    covariance = (0.5 + BLUR_RING**2) * np.eye(2)
    return Law(density, np.zeros(2), covariance, 2.5)


@laws.register("moons")
def moons(d: int, *, key: PRNGKey) -> Law:
    """Two blurred half circles, as a mixture of Gaussians at nodes along them.

    Examples:
        >>> from meanfield.measures.laws import moons
        >>> print(np.abs(moons(2, key=jax.random.key(0)).mean) < 1e-12)
        [ True  True]
    """
    del key
    _check_plane(d, "moons")
    nodes, weights = np.polynomial.legendre.leggauss(ARC)
    angle = np.pi * (nodes + 1) / 2
    arc = np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25], axis=1)
    return _mixture_law(
        np.concatenate([arc, -arc]), np.tile(weights, 2), BLUR_MOONS, 3.5
    )


@laws.register("mixture")
def mixture(d: int, *, key: PRNGKey) -> Law:
    """Gaussians of equal weight at the centres of the cloud `mixture` with this key.

    Examples:
        >>> from meanfield.measures.laws import mixture
        >>> from meanfield.measures.clouds.named import mixture_centres
        >>> key = jax.random.key(0)
        >>> centres = mixture_centres(2, key=jax.random.split(key)[0])
        >>> print(np.allclose(mixture(2, key=key).mean, centres.mean(axis=0)))
        True
    """
    centre_key, _ = jax.random.split(key)
    centres = np.asarray(mixture_centres(d, key=centre_key), float)
    return _mixture_law(centres, np.ones(len(centres)), DEVIATION, 6.0)


def normal(d: int) -> Law:
    """The standard normal law.

    Examples:
        >>> from meanfield.measures.laws import normal
        >>> print(normal(2).mean, normal(2).half_width)
        [0. 0.] 8.0
    """
    reach = FAR if d == 1 else TAILS
    return Law(lambda x: _normal(x, 1.0), np.zeros(d), np.eye(d), reach)


def law(name: str, d: int, *, key: PRNGKey) -> Law:
    """The density from which the cloud `name` is drawn if it is given this key.

    Raises:
        InvalidInputError: if the cloud has no density.
        UnknownNameError: if the cloud is not registered.

    Examples:
        >>> from meanfield.measures.laws import law
        >>> print(law("ball", 2, key=jax.random.key(0)).covariance)
        [[0.25 0.  ]
         [0.   0.25]]
    """
    if name not in laws:
        clouds[name]  # raises UnknownNameError for an unknown cloud
        raise InvalidInputError(
            f"The cloud `{name}` has no density on a grid. Use one of "
            f"{', '.join(laws)}."
        )
    return laws[name](d, key=key)


def _mixture_law(
    centres: Float[np.ndarray, "k d"], weights: np.ndarray, blur: float, width: float
) -> Law:
    """A mixture of isotropic Gaussians of equal width with weighted centres."""
    shares = weights / np.sum(weights)
    mean = shares @ centres
    z = centres - mean
    covariance = (shares[:, None] * z).T @ z + blur**2 * np.eye(len(mean))

    def density(x: np.ndarray) -> np.ndarray:
        total = np.zeros(len(x))
        for share, centre in zip(shares, centres, strict=True):
            total += share * _normal(x - centre, blur)
        return total

    return Law(density, mean, covariance, width)


def _normal(x: Float[np.ndarray, "m d"], deviation: float) -> Values:
    norm = (2 * np.pi * deviation**2) ** (x.shape[1] / 2)
    return np.exp(-np.sum(x**2, axis=1) / (2 * deviation**2)) / norm


def _check_plane(d: int, name: str) -> None:
    if d != 2:
        raise InvalidInputError(
            f"The cloud `{name}` has a density only in the plane (d = 2); got d = {d}."
        )
