"""Wasserstein distances along arcs of a sphere, by POT."""

import math

import numpy as np

from meanfield._pot import ot
from meanfield.errors import UnsupportedError
from meanfield.measures import Points
from meanfield.spaces import Sphere

from ._distance import DIRECTIONS, Distance, common_dimension


def spherical_wasserstein(
    mu: Points,
    nu: Points,
    *,
    directions: int = DIRECTIONS,
    seed: int = 0,
) -> Distance:
    r"""Distance $W_2$ of tokens on one sphere, where lengths are those of arcs.

    On a circle it is $W_2$ itself (Delon, Salomon and Sobolevski 2010). On other
    spheres it is the mean over random great circles, $(E\,W_2^2)^{1/2}$ of the nearest
    points on them (Bonet et al. 2023), with `error` the standard error.

    Args:
        mu: tokens on a `Sphere`.
        nu: tokens on the same sphere.
        directions: number of random great circles.
        seed: seed of the random circles.

    Raises:
        InvalidInputError: if the dimensions differ.
        UnsupportedError: unless both are tokens on the same sphere.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import spherical_wasserstein
        >>> from meanfield.spaces import Sphere
        >>> pole = jnp.array([[1.0, 0.0]])
        >>> here, opposite = (Points.uniform(x, space=Sphere()) for x in (pole, -pole))
        >>> spherical_wasserstein(here, opposite).value
        3.1415...
    """
    common_dimension(mu, nu)
    if not isinstance(mu.space, Sphere) or mu.space != nu.space:
        raise UnsupportedError(
            "A spherical distance needs tokens on one `Sphere`; got the spaces "
            f"{mu.space} and {nu.space}. Use `wasserstein` elsewhere."
        )
    p, q = (np.asarray(part.probabilities, float) for part in (mu, nu))
    x, y = (np.asarray(part.safe_tokens.x, float) for part in (mu, nu))
    radius = mu.space.radius
    if x.shape[1] == 2:
        return Distance(radius * _circle_distance(x, y, p, q), 0.0, "circle")
    rng, d = np.random.default_rng(seed), x.shape[1]
    frames = np.linalg.qr(rng.normal(size=(directions, d, 2)))[0]
    ways = np.array([_circle_distance(x @ U, y @ U, p, q) for U in frames])
    value = math.sqrt(float(np.mean(ways**2)))
    spread = float(np.std(ways**2, ddof=1)) if directions > 1 else math.nan
    error = spread / (2 * value * math.sqrt(directions)) if value else 0.0
    return Distance(radius * value, radius * error, "great circles")


def _circle_distance(
    x: np.ndarray, y: np.ndarray, p: np.ndarray, q: np.ndarray
) -> float:
    """The distance of the directions of plane vectors along the unit circle."""
    u, v = (np.arctan2(z[:, 1], z[:, 0]) / (2 * np.pi) % 1.0 for z in (x, y))
    cost = ot.wasserstein_circle(u, v, p, q, p=2, eps=1e-14)
    return 2 * math.pi * math.sqrt(max(np.asarray(cost).item(), 0.0))
