r"""Four ways to the constant $c$ of $\partial_t\rho = c\Delta\rho$, by bandwidth."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from experiments.limits.densities import TWO_PEAKS, edged
from experiments.limits.dynamics import Heat, moved, velocities
from experiments.limits.fits import Estimate, extrapolated, neville
from meanfield.fields import Affine
from meanfield.measures import Gaussian, Grid, Points
from meanfield.measures.edges import even_edges

ONE = Heat(jnp.eye(1), jnp.eye(1))
REACH = 6.0  # of boxes: 2e-10 of the mass of two peaks lies beyond
COARSER = 1.5  # a second mesh: as many cells, on a box so many times as wide
FINE = {"xatol": 1e-10}  # of the constant that is fitted
ROUNDING = 1e2 * np.finfo(float).eps  # of differences of places, then over ε
T = 0.2  # heat adds 0.2 to a variance of 1.6


class Route(NamedTuple):
    """The constant by bandwidth along one way, and what is known of its errors.

    Attributes:
        epsilons: bandwidths, each half of the last.
        constants: $c$ at each.
        resolution: how much they change with the mesh, or with the number of tokens.
    """

    epsilons: Float[np.ndarray, " k"]
    constants: Float[np.ndarray, " k"]
    resolution: Float[np.ndarray, " k"]

    @property
    def limit(self) -> Estimate:
        """The constant in the limit.

        Errors of the single constants count with the weights of the extrapolation,
        none cancelling another.
        """
        value, change = extrapolated(self.constants)
        weights = np.abs(neville(np.eye(len(self.constants)))[-1])
        errors = np.abs(self.resolution) + ROUNDING / self.epsilons
        return Estimate(value, change + float(weights @ errors))


class Fields(NamedTuple):
    r"""Velocities on a mesh against $-\frac12\nabla\rho/\rho$.

    Attributes:
        route: $c = -\langle v, \rho'/\rho\rangle/|\rho'/\rho|^2$ in $L^2(\mu)$.
        errors: in $L^2(\mu)$, over the limit.
        residual: of Sinkhorn's iteration, over its tolerance.
    """

    route: Route
    errors: Float[np.ndarray, " k"]
    residual: float


def by_fields(epsilons: Float[np.ndarray, " k"], n: int) -> Fields:
    """Two peaks, as weighted tokens at the middles of cells, on two meshes."""
    fine, coarse = (_peaks(epsilons, n, r) for r in (REACH, COARSER * REACH))
    return fine._replace(route=_with_resolution(fine.route, coarse.route))


def with_edges(epsilons: Float[np.ndarray, " k"], n: int) -> Fields:
    """A density that vanishes at the ends of its support like the fourth power."""
    x = middles(1.0, n)
    return _against(epsilons, x, *edged(x))


def _peaks(epsilons: np.ndarray, n: int, reach: float) -> Fields:
    x = middles(reach, n)
    rho, slope = TWO_PEAKS.density(x[:, None]), TWO_PEAKS.slope(x[:, None])[:, 0]
    return _against(epsilons, x, rho, slope)


def _against(
    epsilons: np.ndarray, x: np.ndarray, rho: np.ndarray, slope: np.ndarray
) -> Fields:
    mu = Points.weighted(x[:, None], rho)
    field = velocities(ONE, mu, epsilons, x[:, None])
    v, w = field.values[..., 0], rho / np.sum(rho)
    square = w @ slope**2
    constants = -(v * slope) @ w / square
    errors = np.sqrt((v + slope / 2) ** 2 @ w / (square / 4))
    route = Route(epsilons, constants, np.zeros_like(constants))
    return Fields(route, errors, field.residual)


class Densities(NamedTuple):
    r"""A flow on a grid to `T` against heat.

    Attributes:
        by_variance: $c$ from the growth of the variance.
        by_fit: $c$ whose heat is nearest to the density in $L^2$.
        distances: in $L^1$ from heat with $c = \frac12$.
        edges: of the cells, by bandwidth.
        density: in the cells, by bandwidth.
        mass: how far the mass on the grid and the outflow are from one, at most.
    """

    by_variance: Route
    by_fit: Route
    distances: Float[np.ndarray, " k"]
    edges: Float[np.ndarray, "k faces"]
    density: Float[np.ndarray, "k cells"]
    mass: float


def by_grid(epsilons: Float[np.ndarray, " k"], cells: int) -> Densities:
    """Two peaks on two meshes."""
    fine, coarse = (_flown(epsilons, cells, r) for r in (REACH, COARSER * REACH))
    return fine._replace(
        by_variance=_with_resolution(fine.by_variance, coarse.by_variance),
        by_fit=_with_resolution(fine.by_fit, coarse.by_fit),
    )


def _flown(epsilons: np.ndarray, cells: int, reach: float) -> Densities:
    edges = even_edges(-reach, reach, cells)
    start = Grid.from_density((edges,), TWO_PEAKS.masses(edges) / np.diff(edges))
    ends = moved(ONE, start, epsilons, T)
    grown = [float(_variance(end) - _variance(start)) / (2 * T) for end in ends]
    places = np.stack([_edges(end) for end in ends])
    masses = np.stack([np.asarray(end.masses) for end in ends])
    pairs = list(zip(places, masses, strict=True))
    fitted = np.array([_nearest_heat(*pair) for pair in pairs])
    half = [_distance(*pair) for pair in pairs]
    none = np.zeros_like(epsilons)
    lost = max(abs(float(end.mass + end.outflow) - 1) for end in ends)
    return Densities(
        Route(epsilons, np.array(grown), none),
        Route(epsilons, fitted, none),
        np.array(half),
        places,
        masses / np.diff(places),
        lost,
    )


def _nearest_heat(edges: np.ndarray, masses: np.ndarray) -> float:
    def gap(c: float) -> float:
        rest = masses - TWO_PEAKS.heated(2 * c * T).masses(edges)
        return float(np.sum(rest**2 / np.diff(edges)))

    fit: Any = minimize_scalar(gap, bounds=(0, 2), method="bounded", options=FINE)
    return float(fit.x)


def _distance(edges: np.ndarray, masses: np.ndarray) -> float:
    return float(np.sum(np.abs(masses - TWO_PEAKS.heated(T).masses(edges))))


def _edges(grid: Grid) -> np.ndarray:
    chart = grid.chart
    return np.asarray(chart.origin[0] + chart.axes[0, 0] * chart.edges[0])


def _variance(mu: Grid | Points) -> float:
    return float(mu.covariance[0, 0])


def _with_resolution(fine: Route, coarse: Route) -> Route:
    return fine._replace(resolution=coarse.constants - fine.constants)


def by_quantiles(epsilons: Float[np.ndarray, " k"], n: int) -> Route:
    r"""Flows of n quantiles, of a half and a quarter as many, extrapolated in $1/n$."""
    flows = [_quantiles_flown(epsilons, n // k, n) for k in (4, 2, 1)]
    _, before, last = neville(np.stack(flows))
    return Route(epsilons, last, before - last)


def _quantiles_flown(epsilons: np.ndarray, n: int, room: int) -> np.ndarray:
    """The constants from variances; tokens of no weight make up the numbers."""
    x = np.zeros((room, 1))
    x[:n] = TWO_PEAKS.quantiles(n)
    mu = Points.weighted(x, np.arange(room) < n)
    ends = moved(ONE, mu, epsilons, T)
    return np.array([_variance(end) - _variance(mu) for end in ends]) / (2 * T)


def by_gaussian(epsilons: Float[np.ndarray, " k"], d: int, seed: int) -> Route:
    r"""$c = \mathrm{tr}\,\Sigma'/2d$ in closed form, $W_Q$ unlike $W_K$."""
    rng = np.random.default_rng([seed, d])
    A, Sigma = (_positive(rng, d) for _ in range(2))
    K = rng.normal(size=(d, d)) + 2 * np.eye(d)
    family = Heat(jnp.asarray(np.linalg.solve(K.T, A)), jnp.asarray(K))
    mu = Gaussian.from_moments(rng.normal(size=d), Sigma)
    constants = []
    for epsilon in epsilons:
        field = family.at(jnp.asarray(epsilon)).field(0.0, mu)
        assert isinstance(field, Affine)
        rate = np.asarray(field.covariance_rate(mu.covariance))
        constants.append(np.trace(rate) / (2 * d))
    return Route(epsilons, np.array(constants), np.zeros_like(epsilons))


def _positive(rng: np.random.Generator, d: int) -> np.ndarray:
    B = rng.normal(size=(d, d))
    return B @ B.T / d + 0.5 * np.eye(d)


def middles(reach: float, n: int) -> Float[np.ndarray, " n"]:
    """Of n cells on an interval around zero."""
    return (np.arange(n) + 0.5) * 2 * reach / n - reach
