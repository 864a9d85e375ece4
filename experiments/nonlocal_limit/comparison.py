r"""L2 attention at small bandwidths against the nonlocal limit of its velocity."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from experiments.heat_limit.routes import COARSER, FINE, Route
from experiments.limits.densities import PLANE, SKEWED, Mixture
from experiments.limits.dynamics import NonlocalHeat, moved, velocities
from experiments.limits.fits import neville
from experiments.nonlocal_limit.equation import HALF_WIDTH, LogDensity, nodes, solution
from meanfield.measures import FixedBox, Grid
from meanfield.measures.edges import even_edges

Q_LINE, K_LINE = np.array([[0.91]]), np.array([[1.3]])
RATIO = 0.7  # of the two: the density is read at 0.7 x
Q_PLANE = np.array([[0.7, 0.25], [-0.2, 0.6]])
K_PLANE = np.array([[1.2, 0.5], [-0.45, 1.0]])
PLANE_REACH = 4.5
PROBES = 21  # along each axis of the plane
T = 0.2
Array = np.ndarray


class Limits(NamedTuple):
    """Velocities at probes, and what they are said to tend to.

    Attributes:
        epsilons: bandwidths.
        probes: where.
        weights: of the probes in L²(μ).
        values: velocities, leading term taken away, by bandwidth.
        limit: the corrected limit.
        printed: the limit as printed.
        leading: the corrected limit of ε times the whole velocity.
        printed_leading: the same as printed.
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
        """In L²(μ), over the limit."""
        return self._norm(self.values - self.limit) / self._norm(self.limit)

    @property
    def printed_errors(self) -> Float[np.ndarray, " k"]:
        """The same, of the limit as printed."""
        return self._norm(self.values - self.printed) / self._norm(self.limit)

    @property
    def leading_errors(self) -> Float[np.ndarray, " k"]:
        r"""Of $\epsilon T^1$ against its limit, over that."""
        left = self.epsilons[:, None, None] * self.values
        return self._norm(left) / self._norm(self.leading)

    @property
    def printed_leading_errors(self) -> Float[np.ndarray, " k"]:
        """The same, of the limit as printed."""
        left = self.epsilons[:, None, None] * self.values
        gap = left + self.leading - self.printed_leading
        return self._norm(gap) / self._norm(self.leading)

    @property
    def route(self) -> Route:
        """Times which the limit is nearest to the velocities."""
        values, coarse = self._along(self.values), self._along(self.coarse)
        return Route(self.epsilons, values, coarse - values)

    def _along(self, fields: Array) -> Array:
        along = np.sum(fields * self.limit, axis=-1)
        return np.sum(self.weights * along, axis=-1) / self._norm(self.limit) ** 2

    def _norm(self, field: Array) -> Array:
        return np.sqrt(np.sum(self.weights * np.sum(field**2, axis=-1), axis=-1))


def on_the_line(epsilons: Float[np.ndarray, " k"], cells: int) -> Limits:
    """Of a skewed density on two grids, at the middles of every other cell of one."""
    meshes = [_mesh(HALF_WIDTH * wider, cells) for wider in (1, COARSER)]
    grids = [Grid.from_density((e,), SKEWED.masses(e) / np.diff(e)) for e in meshes]
    x = ((meshes[0][1:] + meshes[0][:-1]) / 2)[::2, None]
    return _limits(SKEWED, grids, NonlocalHeat(*_jax(Q_LINE, K_LINE)), epsilons, x)


def in_the_plane(epsilons: Float[np.ndarray, " k"], cells: int) -> Limits:
    """Of a mixture on two grids in the plane, W_Q and W_K not symmetric."""
    meshes = [_mesh(PLANE_REACH * wider, cells) for wider in (1, COARSER)]
    grids = [Grid.from_function((e, e), PLANE.density) for e in meshes]
    line = np.linspace(-2.5, 2.5, PROBES)
    x = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    return _limits(PLANE, grids, NonlocalHeat(*_jax(Q_PLANE, K_PLANE)), epsilons, x)


def _mesh(reach: float, cells: int) -> Array:
    return even_edges(-reach, reach, cells)


def _limits(
    mixture: Mixture, grids: list[Grid], family: NonlocalHeat, epsilons: Array, x: Array
) -> Limits:
    r"""$-W_Q^\top W_K^{-\top}(\nabla\rho/\rho)(W_K^{-1}W_Qx)$: ERRATA S3, S4."""
    values, coarse = (velocities(family, mu, epsilons, x).values for mu in grids)
    Q, K = np.asarray(family.Q), np.asarray(family.K)
    slope = mixture.slope(np.linalg.solve(K, Q @ x.T).T)
    w = mixture.density(x)
    return Limits(
        epsilons,
        x,
        w / np.sum(w),
        values,
        limit=-slope @ np.linalg.solve(K, Q),  # rows, so transposed
        printed=-slope @ np.linalg.solve(K.T, Q),
        leading=-x @ Q.T @ Q,
        printed_leading=-x @ K.T @ Q,
        coarse=coarse,
    )


class Flown(NamedTuple):
    r"""Flows of L2 attention on a fixed grid, against the limit equation.

    Attributes:
        edges: of the cells.
        masses: in the cells at time `T`, by bandwidth.
        limit: the solution of the limit equation at `T`.
        distances: in L¹ from it.
        route: the constant by which the clock of the limit must run.
        mass: how far mass and outflow are from one, at most.
        leaked: how far the mass of the limit is from one.
    """

    edges: Float[np.ndarray, " faces"]
    masses: Float[np.ndarray, "k cells"]
    limit: LogDensity
    distances: Float[np.ndarray, " k"]
    route: Route
    mass: float
    leaked: float

    @property
    def extrapolated(self) -> float:
        """The distance in L¹ that Neville's scheme leaves of these densities."""
        limit = neville(self.masses)[-1]
        return float(np.sum(np.abs(limit - self.limit.masses(self.edges))))


def flown(epsilons: Float[np.ndarray, " k"], cells: int) -> Flown:
    """On two meshes, of as many cells, the second wider."""
    fine, coarse = (_flown(epsilons, cells, r) for r in (1.0, COARSER))
    change = coarse.route.constants - fine.route.constants
    return fine._replace(route=fine.route._replace(resolution=change))


def limit_density(t: float) -> LogDensity:
    """Of the limit equation from the skewed density."""
    start = np.log(SKEWED.density(HALF_WIDTH * nodes()[:, None]))
    return solution(start, RATIO, t)


def _flown(epsilons: Array, cells: int, wider: float) -> Flown:
    edges = _mesh(wider * HALF_WIDTH, cells)
    density = SKEWED.masses(edges) / np.diff(edges)
    start = Grid.from_density((edges,), density, box=FixedBox())
    ends = moved(NonlocalHeat(*_jax(Q_LINE, K_LINE)), start, epsilons, T)
    masses = np.stack([np.asarray(end.masses) for end in ends])
    limit = limit_density(T)
    exact = limit.masses(edges)
    clocks = np.array([_clock(edges, row) for row in masses])
    return Flown(
        edges,
        masses,
        limit,
        np.sum(np.abs(masses - exact), axis=1),
        Route(epsilons, clocks, np.zeros_like(clocks)),
        max(abs(float(end.mass + end.outflow) - 1) for end in ends),
        abs(float(np.sum(exact)) - 1),
    )


def _clock(edges: Array, masses: Array) -> float:
    def gap(c: float) -> float:
        rest = masses - limit_density(c * T).masses(edges)
        return float(np.sum(rest**2 / np.diff(edges)))

    fit: Any = minimize_scalar(gap, bounds=(0.5, 1.5), method="bounded", options=FINE)
    return float(fit.x)


def _jax(*matrices: Array) -> tuple[jnp.ndarray, ...]:
    return tuple(map(jnp.asarray, matrices))
