r"""The Wasserstein distance of two measures, however they are represented."""

import contextlib
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Points

from ._atoms import quantised
from ._programme import programme_distance
from ._quantiles import COARSER, line_distance, lines
from ._scale import beyond_rounding, power_of_two, root_mean_square

DIRECTIONS = 64


class Distance(NamedTuple):
    """A distance, how far off it may be, and how it was had.

    Attributes:
        value: in the units of the space.
        error: 0 where it is right to ten digits; of `sliced`, a standard error; NaN of
            a bound.
        how: `quantiles`, `closed form`, `linear programme`, `sliced` or `lower bound
            by moments`.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.distances import wasserstein
        >>> wasserstein(
        ...     Gaussian(jnp.zeros(1), jnp.eye(1)), Gaussian(jnp.ones(1), jnp.eye(1))
        ... )
        Distance(value=1.0, error=0.0, how='closed form')
    """

    value: float
    error: float
    how: str


def wasserstein(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    r"""$W_2(\mu, \nu)$, positions and total masses left out.

    On the line by quantile functions; of two Gaussians in closed form; else by POT's
    linear programme between atoms, `error` being what the atoms of a density leave:
    see `Atoms`.

    Raises:
        InvalidInputError: if they live in different dimensions.
        UnsupportedError: if there are more than 2000 tokens in the plane or beyond, or
            a Gaussian of rank above 3 meets another measure: use `sliced`.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import wasserstein
        >>> wasserstein(Points.uniform([[0.0], [1.0]]), Points.uniform([[3.0], [4.0]]))
        Distance(value=3.0, error=0.0, how='quantiles')
    """
    d = _common_dimension(mu, nu)
    if isinstance(mu, Gaussian) and isinstance(nu, Gaussian):
        return Distance(_between_moments(mu, nu), 0.0, "closed form")
    if d == 1:
        return _on_the_line(mu, nu)
    (x, p, first), (y, q, second) = quantised(mu), quantised(nu)
    value, error = programme_distance(x, p, y, q)
    return Distance(value, error + first + second, "linear programme")


def sliced(
    mu: AbstractMeasure,
    nu: AbstractMeasure,
    *,
    directions: int = DIRECTIONS,
    seed: int = 0,
) -> Distance:
    r"""$(d\,E_\theta W_2^2(\theta\cdot\mu, \theta\cdot\nu))^{1/2}$ over directions.

    At most $W_2$, and equal to it for translates. Exact along each direction for tokens
    and Gaussians; `error` is the standard error of the mean over directions.

    Args:
        mu: a measure.
        nu: another.
        directions: how many, uniform on the sphere.
        seed: of the directions.

    Raises:
        InvalidInputError: if they live in different dimensions.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import sliced
        >>> x = jax.random.normal(jax.random.key(0), (100, 2))
        >>> distance = sliced(
        ...     Points.uniform(x), Points.uniform(x + jnp.array([3.0, 4.0]))
        ... )
        >>> abs(distance.value - 5) < 3 * distance.error
        True
    """
    d = _common_dimension(mu, nu)
    rays = np.random.default_rng(seed).normal(size=(directions, d))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    first, second = lines(mu), lines(nu)
    each = [line_distance(first(ray), second(ray))[0] for ray in rays]
    ways, share = np.array(each), np.full(directions, 1 / directions)
    value = math.sqrt(d) * root_mean_square(ways, share)
    if d == 1 or directions == 1 or value == 0:
        return Distance(value, 0.0 if d == 1 or value == 0 else math.nan, "sliced")
    squares = d * (ways / value) ** 2
    error = value * float(np.std(squares, ddof=1)) / (2 * math.sqrt(directions))
    return Distance(value, error, "sliced")


def nearest(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    """$W_2$ where it can be had, else the sliced distance, or a bound; `how` says it.

    Raises:
        InvalidInputError: if they live in different dimensions.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import nearest
        >>> x = jax.random.normal(jax.random.key(0), (3000, 2))  # too many
        >>> nearest(Points.uniform(x), Points.uniform(x + 1)).how
        'sliced'
    """
    for measured in (wasserstein, sliced):
        with contextlib.suppress(UnsupportedError):
            return measured(mu, nu)
    return by_moments(mu, nu)


def by_moments(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    r"""The distance of the Gaussians with the moments of both: at most $W_2(\mu, \nu)$.

    Derivation: the cost of a plan depends on its second moments alone, and the Gaussian
    that has those of a plan of $\mu$ and $\nu$ is a plan of these two Gaussians.

    Raises:
        InvalidInputError: if they live in different dimensions.
    """
    _common_dimension(mu, nu)
    value = _between_moments(mu, nu)
    return Distance(value, math.nan, "lower bound by moments")


def _between_moments(mu: AbstractMeasure, nu: AbstractMeasure) -> float:
    r"""$(|\alpha - \beta|^2 + \min_R|Y - XR|^2)^{1/2}$ over rotations $R$.

    From factors, which keep the digits of directions that covariances lose, each in its
    principal axes: there the entries of $X^\top Y$ fall with its singular values, and
    small ones are as exact as large ones.
    """
    (alpha, Y), (beta, X) = _Moments()(mu), _Moments()(nu)
    scale = power_of_two(alpha - beta, X, Y)
    first, second = _principal(Y / scale), _principal(X / scale)
    U, _, W = np.linalg.svd(second.T @ first)
    parts = [(alpha - beta) / scale, (first - second @ (U @ W)).ravel()]
    gaps = np.concatenate(parts)
    return scale * root_mean_square(gaps, np.ones_like(gaps))


def _principal(Y: Float[np.ndarray, "d r"]) -> Float[np.ndarray, "d d"]:
    """The same factor in its principal axes, longest first."""
    d = len(Y)
    U, s, _ = np.linalg.svd(np.hstack([Y, np.zeros((d, d))]), full_matrices=False)
    return U * s


class _Moments(AbstractReader[tuple[np.ndarray, np.ndarray]]):
    """Mean and a factor of the covariance; nodes have those of what they integrate."""

    @override
    def of_points(self, mu: Points) -> tuple[np.ndarray, np.ndarray]:
        x, w = np.asarray(mu.counted.x, float), np.asarray(mu.probabilities, float)
        w = w / np.sum(w)
        mean = w @ x
        scaled = np.sqrt(w)[:, None] * (x - mean)
        return mean, np.asarray(np.linalg.qr(scaled, mode="r")).T

    @override
    def of_gaussian(self, mu: Gaussian) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(mu.mean, float), np.asarray(mu.factor, float)


def _on_the_line(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    one = np.ones(1)
    value, error = line_distance(lines(mu)(one), lines(nu)(one))
    coarser = line_distance(lines(mu, COARSER)(one), lines(nu, COARSER)(one))[0]
    error = beyond_rounding(max(error, abs(value - coarser)), value)
    return Distance(value, error, "quantiles")


def _common_dimension(mu: AbstractMeasure, nu: AbstractMeasure) -> int:
    d, other = mu.dimension, nu.dimension
    if d != other:
        raise InvalidInputError(
            f"Measures of different dimensions have no distance; got {d} and {other}."
        )
    return d
