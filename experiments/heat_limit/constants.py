r"""The constant $c$ of $\partial_t\rho = c\Delta\rho$, measured in four ways."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from experiments.limits.densities import TWO_PEAKS, density_with_edges
from experiments.limits.dynamics import Heat, flow_to_time, velocities
from experiments.limits.fits import Estimate, extrapolate_to_zero, neville
from meanfield.fields import Affine
from meanfield.measures import Gaussian, Grid, Points
from meanfield.measures.edges import even_edges

UNIT_HEAT = Heat(jnp.eye(1), jnp.eye(1))
HALF_WIDTH = 6.0  # half-width of boxes; the two peaks have a mass of 2e-10 outside
WIDTH_RATIO = 1.5  # ratio of the widths of two meshes with the same number of cells
FIT_OPTIONS = {"xatol": 1e-10}  # absolute tolerance of the fitted constant
ROUNDING_ERROR = 1e2 * np.finfo(float).eps  # rounding error of c, multiplied by ε
T = 0.2  # final time; the heat flow with c = ½ raises the variance from 1.6 to 1.8


class Constants(NamedTuple):
    """The constant at each bandwidth, measured by one method.

    Attributes:
        epsilons: bandwidths, each half of the one before.
        values: $c$ at each bandwidth.
        mesh_errors: change of the values with the mesh or the number of tokens.
    """

    epsilons: Float[np.ndarray, " k"]
    values: Float[np.ndarray, " k"]
    mesh_errors: Float[np.ndarray, " k"]

    @property
    def limit(self) -> Estimate:
        """The constant extrapolated to bandwidth zero.

        The error is the last change of the extrapolation, plus the errors of the values
        that enter it. These errors are added with the absolute values of their weights,
        so that none of them cancel.
        """
        value, change = extrapolate_to_zero(self.values)
        weights = np.abs(neville(np.eye(len(self.values)))[-1])
        errors = np.abs(self.mesh_errors) + ROUNDING_ERROR / self.epsilons
        return Estimate(value, change + float(weights @ errors))


class VelocityComparison(NamedTuple):
    r"""Velocities on a mesh compared with their limit $-\frac12\nabla\rho/\rho$.

    Attributes:
        constants: $c = -\langle v, \rho'/\rho\rangle/|\rho'/\rho|^2$ in $L^2(\mu)$.
        errors: relative errors in $L^2(\mu)$.
        residual: residual of Sinkhorn's iteration divided by its tolerance.
    """

    constants: Constants
    errors: Float[np.ndarray, " k"]
    residual: float


def measure_velocities(epsilons: Float[np.ndarray, " k"], n: int) -> VelocityComparison:
    """Compares the velocities of a two-peaked density with their limit.

    Tokens at the centres of `n` cells represent the density. A second, coarser mesh
    gives the errors due to the mesh.
    """
    fine, coarse = (
        _compare_two_peaks(epsilons, n, width)
        for width in (HALF_WIDTH, WIDTH_RATIO * HALF_WIDTH)
    )
    constants = _with_mesh_errors(fine.constants, coarse.constants)
    return fine._replace(constants=constants)


def measure_velocities_with_edges(
    epsilons: Float[np.ndarray, " k"], n: int
) -> VelocityComparison:
    """Compares velocities with their limit, for a density that vanishes at two ends.

    The density has quartic zeros, and is given by tokens at the centres of `n` cells.
    """
    x = cell_centres(1.0, n)
    return _compare_with_limit(epsilons, x, *density_with_edges(x))


def _compare_two_peaks(
    epsilons: np.ndarray, n: int, half_width: float
) -> VelocityComparison:
    x = cell_centres(half_width, n)
    rho = TWO_PEAKS.density(x[:, None])
    return _compare_with_limit(
        epsilons, x, rho, TWO_PEAKS.log_gradient(x[:, None])[:, 0]
    )


def _compare_with_limit(
    epsilons: np.ndarray, x: np.ndarray, rho: np.ndarray, log_gradient: np.ndarray
) -> VelocityComparison:
    mu = Points.weighted(x[:, None], rho)
    field = velocities(UNIT_HEAT, mu, epsilons, x[:, None])
    v, w = field.values[..., 0], rho / np.sum(rho)
    square = w @ log_gradient**2
    values = -(v * log_gradient) @ w / square
    errors = np.sqrt((v + log_gradient / 2) ** 2 @ w / (square / 4))
    constants = Constants(epsilons, values, np.zeros_like(values))
    return VelocityComparison(constants, errors, field.residual)


class DensityComparison(NamedTuple):
    r"""Densities on a grid at time `T` compared with the heat flow.

    Attributes:
        by_variance: $c$ from the growth of the variance.
        by_fit: $c$ of the heat flow closest to the density in $L^2$.
        distances: distances in $L^1$ to the heat flow with $c = \frac12$.
        edges: edges of the cells at each bandwidth.
        density: density in the cells at each bandwidth.
        mass_error: largest deviation of mass plus outflow from one.
    """

    by_variance: Constants
    by_fit: Constants
    distances: Float[np.ndarray, " k"]
    edges: Float[np.ndarray, "k faces"]
    density: Float[np.ndarray, "k cells"]
    mass_error: float


def measure_densities(
    epsilons: Float[np.ndarray, " k"], cells: int
) -> DensityComparison:
    """Compares flows of a two-peaked density with the heat flow, on two meshes."""
    fine, coarse = (
        _compare_densities(epsilons, cells, width)
        for width in (HALF_WIDTH, WIDTH_RATIO * HALF_WIDTH)
    )
    return fine._replace(
        by_variance=_with_mesh_errors(fine.by_variance, coarse.by_variance),
        by_fit=_with_mesh_errors(fine.by_fit, coarse.by_fit),
    )


def _compare_densities(
    epsilons: np.ndarray, cells: int, half_width: float
) -> DensityComparison:
    edges = even_edges(-half_width, half_width, cells)
    start = Grid.from_density((edges,), TWO_PEAKS.masses(edges) / np.diff(edges))
    ends = flow_to_time(UNIT_HEAT, start, epsilons, T)
    by_variance = [(_variance(end) - _variance(start)) / (2 * T) for end in ends]
    edges_at_end = np.stack([_edges(end) for end in ends])
    masses = np.stack([np.asarray(end.masses) for end in ends])
    pairs = list(zip(edges_at_end, masses, strict=True))
    by_fit = np.array([_fit_constant(*pair) for pair in pairs])
    zeros = np.zeros_like(epsilons)
    return DensityComparison(
        by_variance=Constants(epsilons, np.array(by_variance), zeros),
        by_fit=Constants(epsilons, by_fit, zeros),
        distances=np.array([_distance_to_heat(*pair) for pair in pairs]),
        edges=edges_at_end,
        density=masses / np.diff(edges_at_end),
        mass_error=max(abs(float(end.mass + end.outflow) - 1) for end in ends),
    )


def _fit_constant(edges: np.ndarray, masses: np.ndarray) -> float:
    """The constant of the heat flow that is closest to the masses in $L^2$."""

    def squared_distance(c: float) -> float:
        difference = masses - TWO_PEAKS.heated(2 * c * T).masses(edges)
        return float(np.sum(difference**2 / np.diff(edges)))

    fit: Any = minimize_scalar(
        squared_distance, bounds=(0, 2), method="bounded", options=FIT_OPTIONS
    )
    return float(fit.x)


def _distance_to_heat(edges: np.ndarray, masses: np.ndarray) -> float:
    return float(np.sum(np.abs(masses - TWO_PEAKS.heated(T).masses(edges))))


def _edges(grid: Grid) -> np.ndarray:
    chart = grid.chart
    return np.asarray(chart.origin[0] + chart.axes[0, 0] * chart.edges[0])


def _variance(mu: Grid | Points) -> float:
    return float(mu.covariance[0, 0])


def _with_mesh_errors(fine: Constants, coarse: Constants) -> Constants:
    return fine._replace(mesh_errors=coarse.values - fine.values)


def measure_quantiles(epsilons: Float[np.ndarray, " k"], n: int) -> Constants:
    r"""Constants from flows of n/4, n/2 and n quantiles, extrapolated to 1/n = 0."""
    flows = [_flow_quantiles(epsilons, n // k, n) for k in (4, 2, 1)]
    _, linear, quadratic = neville(np.stack(flows))
    return Constants(epsilons, quadratic, linear - quadratic)


def _flow_quantiles(epsilons: np.ndarray, n: int, padded: int) -> np.ndarray:
    """Constants from the growth of the variance of `n` quantiles.

    Tokens of weight 0 pad all flows to one shape.
    """
    x = np.zeros((padded, 1))
    x[:n] = TWO_PEAKS.quantiles(n)
    mu = Points.weighted(x, np.arange(padded) < n)
    ends = flow_to_time(UNIT_HEAT, mu, epsilons, T)
    return np.array([_variance(end) - _variance(mu) for end in ends]) / (2 * T)


def measure_gaussian(epsilons: Float[np.ndarray, " k"], d: int, seed: int) -> Constants:
    r"""Closed form $c = \mathrm{tr}\,\Sigma'/2d$ for Gaussians, with $W_Q \neq W_K$."""
    rng = np.random.default_rng([seed, d])
    A, Sigma = (_positive_definite(rng, d) for _ in range(2))
    K = rng.normal(size=(d, d)) + 2 * np.eye(d)
    family = Heat(jnp.asarray(np.linalg.solve(K.T, A)), jnp.asarray(K))
    mu = Gaussian.from_moments(rng.normal(size=d), Sigma)
    values = []
    for epsilon in epsilons:
        field = family.at(jnp.asarray(epsilon)).field(0.0, mu)
        assert isinstance(field, Affine)
        rate = np.asarray(field.covariance_rate(mu.covariance))
        values.append(np.trace(rate) / (2 * d))
    return Constants(epsilons, np.array(values), np.zeros_like(epsilons))


def _positive_definite(rng: np.random.Generator, d: int) -> np.ndarray:
    B = rng.normal(size=(d, d))
    return B @ B.T / d + 0.5 * np.eye(d)


def cell_centres(half_width: float, n: int) -> Float[np.ndarray, " n"]:
    """Centres of `n` cells on an interval around zero."""
    return (np.arange(n) + 0.5) * 2 * half_width / n - half_width
