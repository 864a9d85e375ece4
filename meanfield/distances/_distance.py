r"""The Wasserstein distance of two measures, however they are represented."""

import contextlib
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield._pot import ot
from meanfield.energies import bures_squared
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Points

from ._atoms import quantised
from ._quantiles import lines, squared

DIRECTIONS = 64
MOST_PIVOTS = 10_000_000


class Distance(NamedTuple):
    """A distance, how far off it may be, and how it was had.

    Attributes:
        value: in the units of the space.
        error: 0 where it is exact; of `sliced`, a standard error; NaN of a bound.
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
        bures = float(bures_squared(mu.covariance, nu.covariance))
        shift = np.asarray(mu.mean, float) - np.asarray(nu.mean, float)
        return Distance(float(np.sqrt(shift @ shift + bures)), 0.0, "closed form")
    if d == 1:
        one = np.ones(1)
        total = squared(lines(mu)(one), lines(nu)(one))
        return Distance(float(np.sqrt(total)), 0.0, "quantiles")
    return _programme(mu, nu)


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
    each = d * np.array([squared(first(ray), second(ray)) for ray in rays])
    value = float(np.sqrt(np.mean(each)))
    spread = float(np.std(each, ddof=1) / np.sqrt(directions)) if d > 1 else 0.0
    return Distance(value, spread / (2 * value) if value > 0 else 0.0, "sliced")


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
    (alpha, Sigma), (beta, S) = _Moments()(mu), _Moments()(nu)
    shift = np.asarray(alpha, float) - np.asarray(beta, float)
    bures = float(bures_squared(Sigma, S))
    value = float(np.sqrt(shift @ shift + bures))
    return Distance(value, float("nan"), "lower bound by moments")


class _Moments(AbstractReader[tuple[Array, Array]]):
    """Mean and covariance; nodes have those of what they integrate."""

    @override
    def of_points(self, mu: Points) -> tuple[Array, Array]:
        return mu.mean, mu.covariance

    @override
    def of_gaussian(self, mu: Gaussian) -> tuple[Array, Array]:
        return mu.mean, mu.covariance


def _common_dimension(mu: AbstractMeasure, nu: AbstractMeasure) -> int:
    d, other = mu.dimension, nu.dimension
    if d != other:
        raise InvalidInputError(
            f"Measures of different dimensions have no distance; got {d} and {other}."
        )
    return d


def _programme(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    (x, v, first), (y, w, second) = quantised(mu), quantised(nu)
    centre = np.mean(x, axis=0)  # costs far from the origin would cancel
    cost = ot.dist(x - centre, y - centre)
    total: Any = ot.emd2(v, w, cost, numItermax=MOST_PIVOTS)
    value = float(np.sqrt(max(float(total), 0.0)))
    return Distance(value, first + second, "linear programme")
