r"""L2 attention at small bandwidths compared with its nonlocal limit."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from experiments.heat_limit.constants import FIT_OPTIONS, WIDTH_RATIO, Constants
from experiments.limits.densities import PLANE, SKEWED, Mixture
from experiments.limits.dynamics import NonlocalHeat, flow_to_time, velocities
from experiments.limits.fits import neville
from experiments.nonlocal_limit.equation import HALF_WIDTH, LogDensity, nodes, solution
from meanfield.measures import FixedBox, Grid
from meanfield.measures.edges import even_edges

Q_LINE, K_LINE = np.array([[0.91]]), np.array([[1.3]])
RATIO = 0.7  # this is Q_LINE / K_LINE; the limit evaluates the density at 0.7 x
Q_PLANE = np.array([[0.7, 0.25], [-0.2, 0.6]])
K_PLANE = np.array([[1.2, 0.5], [-0.45, 1.0]])
PLANE_HALF_WIDTH = 4.5
PROBES = 21  # number of points along each axis of the plane
T = 0.2
Array = np.ndarray


class LimitComparison(NamedTuple):
    """Velocities at some points, and their limits.

    Attributes:
        epsilons: bandwidths.
        probes: points at which velocities are compared.
        weights: weights of the points in L²(μ).
        values: velocities minus the leading term, by bandwidth.
        limit: the corrected limit.
        printed: the limit as printed.
        leading: the corrected limit of ε times the whole velocity.
        printed_leading: the printed limit of ε times the whole velocity.
        coarse: velocities from a coarser mesh.
    """

    epsilons: Float[np.ndarray, " k"]
    probes: Float[np.ndarray, "m d"]
    weights: Float[np.ndarray, " m"]
    values: Float[np.ndarray, "k m d"]
    limit: Float[np.ndarray, "m d"]
    printed: Float[np.ndarray, "m d"]
    leading: Float[np.ndarray, "m d"]
    printed_leading: Float[np.ndarray, "m d"]
    coarse: Float[np.ndarray, "k m d"]

    @property
    def errors(self) -> Float[np.ndarray, " k"]:
        """Relative errors of the velocities in L²(μ), at each bandwidth."""
        return self._norm(self.values - self.limit) / self._norm(self.limit)

    @property
    def printed_errors(self) -> Float[np.ndarray, " k"]:
        """Errors of the printed limit in L²(μ), relative to the corrected limit."""
        return self._norm(self.values - self.printed) / self._norm(self.limit)

    @property
    def leading_errors(self) -> Float[np.ndarray, " k"]:
        r"""Relative errors in L²(μ) of $\epsilon T^1$ with respect to its limit."""
        rest = self.epsilons[:, None, None] * self.values
        return self._norm(rest) / self._norm(self.leading)

    @property
    def printed_leading_errors(self) -> Float[np.ndarray, " k"]:
        r"""Relative errors in L²(μ) of the printed limit of $\epsilon T^1$."""
        rest = self.epsilons[:, None, None] * self.values
        difference = rest + self.leading - self.printed_leading
        return self._norm(difference) / self._norm(self.leading)

    @property
    def factors(self) -> Constants:
        """Factors by which the limit is multiplied to fit the velocities best."""
        values, coarse = self._projected(self.values), self._projected(self.coarse)
        return Constants(self.epsilons, values, coarse - values)

    def _projected(self, fields: Array) -> Array:
        """Coefficients of the orthogonal projections of fields onto the limit."""
        products = np.sum(fields * self.limit, axis=-1)
        return np.sum(self.weights * products, axis=-1) / self._norm(self.limit) ** 2

    def _norm(self, field: Array) -> Array:
        return np.sqrt(np.sum(self.weights * np.sum(field**2, axis=-1), axis=-1))


def compare_on_line(epsilons: Float[np.ndarray, " k"], cells: int) -> LimitComparison:
    """Compares velocities of a skewed density on the line with their limit.

    There are two grids; the points are the centres of every second cell of the finer
    grid.
    """
    meshes = [_edges(HALF_WIDTH * ratio, cells) for ratio in (1, WIDTH_RATIO)]
    grids = [Grid.from_density((e,), SKEWED.masses(e) / np.diff(e)) for e in meshes]
    x = ((meshes[0][1:] + meshes[0][:-1]) / 2)[::2, None]
    return _compare(SKEWED, grids, NonlocalHeat(*_jax(Q_LINE, K_LINE)), epsilons, x)


def compare_in_plane(epsilons: Float[np.ndarray, " k"], cells: int) -> LimitComparison:
    """Compares velocities in the plane with their limit, for nonsymmetric W_Q, W_K."""
    meshes = [_edges(PLANE_HALF_WIDTH * ratio, cells) for ratio in (1, WIDTH_RATIO)]
    grids = [Grid.from_function((e, e), PLANE.density) for e in meshes]
    line = np.linspace(-2.5, 2.5, PROBES)
    x = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    return _compare(PLANE, grids, NonlocalHeat(*_jax(Q_PLANE, K_PLANE)), epsilons, x)


def _edges(half_width: float, cells: int) -> Array:
    return even_edges(-half_width, half_width, cells)


def _compare(
    mixture: Mixture, grids: list[Grid], family: NonlocalHeat, epsilons: Array, x: Array
) -> LimitComparison:
    r"""Compares velocities with $-W_Q^\top W_K^{-\top}(\nabla\rho/\rho)(W_K^{-1}W_Qx)$.

    This is the corrected limit (ERRATA S3, S4).
    """
    values, coarse = (velocities(family, mu, epsilons, x).values for mu in grids)
    Q, K = np.asarray(family.Q), np.asarray(family.K)
    log_gradient = mixture.log_gradient(np.linalg.solve(K, Q @ x.T).T)
    w = mixture.density(x)
    return LimitComparison(
        epsilons,
        x,
        w / np.sum(w),
        values,
        limit=-log_gradient @ np.linalg.solve(K, Q),  # transposed for row vectors
        printed=-log_gradient @ np.linalg.solve(K.T, Q),
        leading=-x @ Q.T @ Q,
        printed_leading=-x @ K.T @ Q,
        coarse=coarse,
    )


class FlowComparison(NamedTuple):
    r"""Flows of L2 attention on a fixed grid compared with the limit equation.

    Attributes:
        edges: edges of the cells.
        masses: masses of the cells at time `T`, by bandwidth.
        limit: the solution of the limit equation at `T`.
        distances: L¹ distances between the densities and this solution.
        time_factors: $c$ for which the solution at $cT$ is closest in $L^2$.
        mass_error: largest deviation of mass plus outflow from one.
        limit_mass_error: deviation of the mass of the solution from one.
    """

    edges: Float[np.ndarray, " faces"]
    masses: Float[np.ndarray, "k cells"]
    limit: LogDensity
    distances: Float[np.ndarray, " k"]
    time_factors: Constants
    mass_error: float
    limit_mass_error: float

    @property
    def extrapolated_distance(self) -> float:
        """L¹ error of the density that is extrapolated to bandwidth zero."""
        limit = neville(self.masses)[-1]
        return float(np.sum(np.abs(limit - self.limit.masses(self.edges))))


def compare_flows(epsilons: Float[np.ndarray, " k"], cells: int) -> FlowComparison:
    """Compares flows of L2 attention with the limit, and estimates the mesh errors."""
    fine, coarse = (_compare_flows(epsilons, cells, r) for r in (1.0, WIDTH_RATIO))
    change = coarse.time_factors.values - fine.time_factors.values
    factors = fine.time_factors._replace(mesh_errors=change)
    return fine._replace(time_factors=factors)


def limit_density(t: float) -> LogDensity:
    """Solution of the limit equation at time `t`, starting at the skewed density."""
    start = np.log(SKEWED.density(HALF_WIDTH * nodes()[:, None]))
    return solution(start, RATIO, t)


def _compare_flows(epsilons: Array, cells: int, ratio: float) -> FlowComparison:
    edges = _edges(ratio * HALF_WIDTH, cells)
    density = SKEWED.masses(edges) / np.diff(edges)
    start = Grid.from_density((edges,), density, box=FixedBox())
    ends = flow_to_time(NonlocalHeat(*_jax(Q_LINE, K_LINE)), start, epsilons, T)
    masses = np.stack([np.asarray(end.masses) for end in ends])
    limit = limit_density(T)
    exact = limit.masses(edges)
    factors = np.array([_fit_time_factor(edges, row) for row in masses])
    return FlowComparison(
        edges,
        masses,
        limit,
        distances=np.sum(np.abs(masses - exact), axis=1),
        time_factors=Constants(epsilons, factors, np.zeros_like(factors)),
        mass_error=max(abs(float(end.mass + end.outflow) - 1) for end in ends),
        limit_mass_error=abs(float(np.sum(exact)) - 1),
    )


def _fit_time_factor(edges: Array, masses: Array) -> float:
    def squared_distance(c: float) -> float:
        difference = masses - limit_density(c * T).masses(edges)
        return float(np.sum(difference**2 / np.diff(edges)))

    fit: Any = minimize_scalar(
        squared_distance, bounds=(0.5, 1.5), method="bounded", options=FIT_OPTIONS
    )
    return float(fit.x)


def _jax(*matrices: Array) -> tuple[jnp.ndarray, ...]:
    return tuple(map(jnp.asarray, matrices))
