r"""Wasserstein distances between two measures in any representation."""

import contextlib
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Points

from ._atoms import quantise
from ._programme import programme_distance
from ._quantiles import COARSER, line_distance, line_marginals
from ._scale import power_of_two, root_mean_square, significant_error

DIRECTIONS = 64


class Distance(NamedTuple):
    """A distance between two measures, with its error estimate and its method.

    Attributes:
        value: the distance, in the units of the space.
        error: error estimate, which is 0 if the value is accurate to ten digits, a
            standard error for `sliced`, and NaN for a bound.
        method: `quantiles`, `closed form`, `linear programme`, `sliced`, `lower bound
            by moments`, or for arcs `circle` or `great circles`.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.distances import wasserstein
        >>> wasserstein(
        ...     Gaussian(jnp.zeros(1), jnp.eye(1)), Gaussian(jnp.ones(1), jnp.eye(1))
        ... )
        Distance(value=1.0, error=0.0, method='closed form')
    """

    value: float
    error: float
    method: str


def wasserstein(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    r"""Wasserstein distance $W_2(\mu, \nu)$; positions and total masses are ignored.

    It is computed in closed form for two Gaussians, from quantile functions on the
    line, and otherwise by POT's linear programme between atoms. In the last case
    `error` includes the quantisation error of a density or a Gaussian; see `Atoms`.
    Distances of tokens on spheres are those of the surrounding space; arcs are measured
    by `spherical_wasserstein`.

    Raises:
        InvalidInputError: if the dimensions differ.
        UnsupportedError: for more than 2000 tokens in dimension two or higher, or for a
            Gaussian of rank above 3 and another measure; use `sliced_wasserstein`.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import wasserstein
        >>> wasserstein(Points.uniform([[0.0], [1.0]]), Points.uniform([[3.0], [4.0]]))
        Distance(value=3.0, error=0.0, method='quantiles')
    """
    d = common_dimension(mu, nu)
    if isinstance(mu, Gaussian) and isinstance(nu, Gaussian):
        return Distance(_moment_distance(mu, nu), 0.0, "closed form")
    if d == 1:
        return _line_wasserstein(mu, nu)
    (x, p, first), (y, q, second) = quantise(mu), quantise(nu)
    value, error = programme_distance(x, p, y, q)
    return Distance(value, error + first + second, "linear programme")


def sliced_wasserstein(
    mu: AbstractMeasure,
    nu: AbstractMeasure,
    *,
    directions: int = DIRECTIONS,
    seed: int = 0,
) -> Distance:
    r"""Sliced distance $(d\,E_\theta W_2^2(\theta\cdot\mu, \theta\cdot\nu))^{1/2}$.

    The sliced distance is at most $W_2$, and equal to $W_2$ if one measure is a
    translate of the other. For tokens and Gaussians, the distance along each direction
    is exact. The `error` is the standard error of the mean over directions.

    Args:
        mu: a measure.
        nu: another measure.
        directions: number of random directions, which are uniform on the sphere.
        seed: seed of the random directions.

    Raises:
        InvalidInputError: if the dimensions differ.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import sliced_wasserstein
        >>> x = jax.random.normal(jax.random.key(0), (100, 2))
        >>> distance = sliced_wasserstein(
        ...     Points.uniform(x), Points.uniform(x + jnp.array([3.0, 4.0]))
        ... )
        >>> abs(distance.value - 5) < 3 * distance.error
        True
    """
    d = common_dimension(mu, nu)
    rays = np.random.default_rng(seed).normal(size=(directions, d))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    first, second = line_marginals(mu), line_marginals(nu)
    distances = [line_distance(first(ray), second(ray))[0] for ray in rays]
    ways, share = np.array(distances), np.full(directions, 1 / directions)
    value = math.sqrt(d) * root_mean_square(ways, share)
    if d == 1 or directions == 1 or value == 0:
        return Distance(value, 0.0 if d == 1 or value == 0 else math.nan, "sliced")
    squares = d * (ways / value) ** 2
    error = value * float(np.std(squares, ddof=1)) / (2 * math.sqrt(directions))
    return Distance(value, error, "sliced")


def best_distance(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    """$W_2$ if it can be computed; otherwise the sliced distance, or a lower bound.

    Raises:
        InvalidInputError: if the dimensions differ.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import best_distance
        >>> x = jax.random.normal(jax.random.key(0), (3000, 2))  # too many
        >>> best_distance(Points.uniform(x), Points.uniform(x + 1)).method
        'sliced'
    """
    for function in (wasserstein, sliced_wasserstein):
        with contextlib.suppress(UnsupportedError):
            return function(mu, nu)
    return moment_bound(mu, nu)


def moment_bound(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    r"""Lower bound of $W_2(\mu, \nu)$, from the Gaussians with the same moments.

    Derivation: the cost of a plan depends only on its moments up to second order. The
    Gaussian with the same moments as a plan between $\mu$ and $\nu$ is a plan between
    the two Gaussians, with the same cost. For covariances alone, it is known as the
    Bures distance.

    Raises:
        InvalidInputError: if the dimensions differ.

    Examples:
        >>> from meanfield import Gaussian, Points
        >>> from meanfield.distances import moment_bound
        >>> two = Points.uniform([[-1.0], [1.0]])
        >>> print(moment_bound(two, Gaussian(jnp.zeros(1), 3 * jnp.eye(1))).value)
        2.0
    """
    common_dimension(mu, nu)
    value = _moment_distance(mu, nu)
    return Distance(value, math.nan, "lower bound by moments")


def _moment_distance(mu: AbstractMeasure, nu: AbstractMeasure) -> float:
    r"""Distance of Gaussians, $(|\alpha - \beta|^2 + \min_R|Y - XR|^2)^{1/2}$.

    The minimum is over rotations $R$. It is computed from factors along principal axes.
    Unlike covariances, factors resolve directions with little variance. Along principal
    axes, the entries of $X^\top Y$ decrease along rows and columns about as fast as its
    singular values, so small singular values are as accurate, relative to their size,
    as large ones.
    """
    (alpha, Y), (beta, X) = _Moments()(mu), _Moments()(nu)
    scale = power_of_two(alpha - beta, X, Y)
    first, second = _principal(Y / scale), _principal(X / scale)
    U, _, W = np.linalg.svd(second.T @ first)
    parts = [(alpha - beta) / scale, (first - second @ (U @ W)).ravel()]
    gaps = np.concatenate(parts)
    return scale * root_mean_square(gaps, np.ones_like(gaps))


def _principal(Y: Float[np.ndarray, "d r"]) -> Float[np.ndarray, "d d"]:
    """Factor of the same covariance, with a column for each principal axis."""
    d = len(Y)
    U, s, _ = np.linalg.svd(np.hstack([Y, np.zeros((d, d))]), full_matrices=False)
    return U * s


class _Moments(AbstractReader[tuple[np.ndarray, np.ndarray]]):
    """Reader that returns the mean and a factor of the covariance of a measure."""

    @override
    def read_points(self, mu: Points) -> tuple[np.ndarray, np.ndarray]:
        x, w = np.asarray(mu.safe_tokens.x, float), np.asarray(mu.probabilities, float)
        w = w / np.sum(w)
        mean = w @ x
        deviations = np.sqrt(w)[:, None] * (x - mean)
        return mean, np.asarray(np.linalg.qr(deviations, mode="r")).T

    @override
    def read_gaussian(self, mu: Gaussian) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(mu.mean, float), np.asarray(mu.factor, float)


def _line_wasserstein(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    unit = np.ones(1)
    value, error = line_distance(line_marginals(mu)(unit), line_marginals(nu)(unit))
    coarser = line_distance(
        line_marginals(mu, COARSER)(unit), line_marginals(nu, COARSER)(unit)
    )[0]
    error = significant_error(max(error, abs(value - coarser)), value)
    return Distance(value, error, "quantiles")


def common_dimension(mu: AbstractMeasure, nu: AbstractMeasure) -> int:
    """The dimension of two measures.

    Raises:
        InvalidInputError: if they differ.
    """
    d, d_nu = mu.dimension, nu.dimension
    if d != d_nu:
        raise InvalidInputError(
            f"The measures must have the same dimension; got {d} and {d_nu}."
        )
    return d
