r"""Error estimates of flows on grids, by flows with fewer cells and smaller boxes.

A truncated tail can matter although no velocity of the bulk shows it: the bulk attends
to tokens that attend to others further out. Only other runs can reveal this error. The
remaining error is extrapolated from two coarser grids and two smaller boxes, as if it
were a power of their widths. If the changes between the runs do not shrink, or the
coarsest run does not reach the end, the remaining error is taken as sixty times the
last change.
"""

from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from meanfield._typing import SolverTime
from meanfield.dynamics import AbstractDynamics
from meanfield.flows._compilation import compile_function
from meanfield.flows._flow import prepare_problem
from meanfield.flows._integration import Problem, VectorField
from meanfield.flows.motions import Isotropic, cast_noise, motion_of
from meanfield.flows.stepping import AbstractGridSolver, Courant, cfl
from meanfield.measures import MAX_TURN, AbstractMeasure, Grid, GridState

from ._remainder import box_remainder, cell_remainder, time_error
from ._walls import WalledSolver, clear_outside, wall_mask

# These fractions of the space between the means and the ends of the box are cut off.
CUTS = 1 / 4, 1 / 2
# Flows on other grids stop when their size exceeds the given flow's by this factor.
RUNAWAY = 10.0
ROUNDING_UNITS = 1e3  # smallest error of a position, in units of eps times the spread


class ErrorEstimate(NamedTuple):
    r"""Estimated errors of the final moments of a flow, in units of the spread.

    Attributes:
        covariance: error of the covariance (Frobenius), relative to its trace.
        mean: error of the mean, relative to the root of the trace.
        box: the part of `covariance` that is due to the size of the box.
        cells: the part of `covariance` that is due to the size of the cells.

    Examples:
        >>> from meanfield.flows import ErrorEstimate
        >>> ErrorEstimate(covariance=1e-4, mean=1e-6, box=4e-5, cells=6e-5).worst
        0.0001
    """

    covariance: float
    mean: float
    box: float
    cells: float

    @property
    def worst(self) -> float:
        """The larger of the errors of mean and covariance; NaN if either is NaN."""
        return float(np.maximum(self.covariance, self.mean))


def error_estimate(
    dynamics: AbstractDynamics,
    start: Grid,
    end: Grid,
    *,
    span: tuple[float, float],
    noise: Isotropic | None = None,
    stepping: Courant | None = None,
    start_error: float = 0.0,
) -> ErrorEstimate:
    """Error estimate of a flow on a grid, by four flows on coarser or smaller grids.

    The estimate is infinite if the flow on half of the cells, or in three quarters of
    the box, does not reach the end. If the flow on a quarter of the cells, or in half
    of the box, does not reach it, the error is taken as 60 times the last change.

    Args:
        dynamics: the dynamics of the flow.
        start: the grid at the beginning of the flow.
        end: the grid at its end.
        span: the times of the beginning and the end.
        noise: the noise of the flow.
        stepping: the stepping of the flow; `cfl()` if `None`.
        start_error: relative difference between the covariances of `start` and of the
            initial measure that `start` represents.

    Examples:
        >>> from meanfield import Grid, attentions, flow
        >>> from meanfield.flows import error_estimate
        >>> bell = lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
        >>> start, one = Grid.from_function([np.linspace(-8, 8, 65)], bell), jnp.eye(1)
        >>> softmax = attentions["softmax"](-one, one, one)
        >>> end = flow(softmax, start, [0.0, 0.5]).final
        >>> bar = error_estimate(softmax, start, end, span=(0.0, 0.5)).covariance
        >>> bool(abs(end.covariance[0, 0] - 1 / 2) / end.covariance[0, 0] <= bar)
        True
    """
    steps = stepping or cfl()
    changes = moment_changes(
        dynamics, start, end, span=span, noise=noise, stepping=steps
    )
    units, start_units = _Moments.from_grid(end).units, _Moments.from_grid(start).units
    growth = float(units[0] / start_units[0])
    base_error = start_error * max(1.0, growth) + _rounding_error(end) / units[1]
    base_error += time_error(
        growth, turn=steps.share * MAX_TURN, has_noise=noise is not None
    )
    cells = [
        cell_remainder(fine, coarse) + base_error for fine, coarse, _, _ in changes
    ]
    box = [
        box_remainder(fine, coarse) + _outflow_error(end)
        for _, _, fine, coarse in changes
    ]
    parts = box[0] + cells[0], box[1] + cells[1], box[0], cells[0]
    return ErrorEstimate(*map(float, parts))


def moment_changes(
    dynamics: AbstractDynamics,
    start: Grid,
    end: Grid,
    *,
    span: tuple[float, float],
    noise: Isotropic | None,
    stepping: Courant,
) -> Float[np.ndarray, "2 4"]:
    """Changes in covariance and mean due to coarser cells or a smaller box.

    The rows are the covariance, in units of its final trace, and the mean, in units of
    the root of that trace. The columns are four changes: from all cells to half
    of them, from half to a quarter, and then, with half of the cells, from the whole
    box to three quarters of it and from there to half of it.
    """
    bound = RUNAWAY * jnp.maximum(start.size, end.size)
    ts = np.array(span, end.state.axes.dtype)
    integrate = _Flow(dynamics, ts, noise, stepping, bound)
    half, grids = coarsen(start), (start, end)
    quarter = coarsen(half)
    fine, wide = _Moments.from_grid(end), integrate(half, wall_mask(half, grids, 0.0))
    coarse = integrate(quarter, wall_mask(quarter, grids, 0.0))
    # A closed box is the whole space: nothing is cut off, so its size causes no error.
    shares = CUTS if start.box.is_open else (0.0, 0.0)
    cut, further = (integrate(half, wall_mask(half, grids, share)) for share in shares)
    pairs = (fine, wide), (wide, coarse), (wide, cut), (cut, further)
    return np.stack([a.gaps(b) for a, b in pairs], axis=1) / fine.units[:, None]


class _Moments(NamedTuple):
    """The mean and covariance of a grid, for which errors are estimated."""

    mean: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]

    @classmethod
    def from_grid(cls, mu: Grid) -> "_Moments":
        return cls(np.asarray(mu.mean, float), np.asarray(mu.covariance, float))

    @property
    def units(self) -> Float[np.ndarray, "2"]:
        """Units of the covariance (its trace) and of the mean (root of the trace)."""
        trace = np.trace(self.covariance)
        return np.array([trace, np.sqrt(trace)])

    def gaps(self, other: "_Moments") -> Float[np.ndarray, "2"]:
        """Distances from the covariance and mean of `other`; infinite if undefined."""
        pairs = (self.covariance, other.covariance), (self.mean, other.mean)
        sizes = np.array([np.linalg.norm(a - b) for a, b in pairs])
        return np.where(np.isfinite(sizes), sizes, np.inf)


class _Flow(NamedTuple):
    """A flow that stops when its size exceeds `bound`, as a function of its start."""

    dynamics: AbstractDynamics
    span: Float[np.ndarray, "2"]
    noise: Isotropic | None
    stepping: Courant
    bound: Float[Array, ""]

    def __call__(self, mu: Grid, mask: Bool[Array, "..."]) -> _Moments:
        """Final moments of a flow between walls; NaN if it does not reach the end."""
        problem, ts = prepare_problem(
            self.dynamics,
            mu,
            self.span,
            stepping=self.stepping,
            stop=None,
            run_start=None,
            noise=self.noise,
        )
        state, is_complete = _final_state(problem, ts, self.bound, mask)
        last = _Moments.from_grid(mu.replace_coordinates(state))
        return (
            last if bool(is_complete) else _Moments(*(np.nan * part for part in last))
        )


def _outflow_error(end: Grid) -> float:
    """Relative second moment that the outflow would have at the ends of the box."""
    width = float(end.reference_width * jnp.linalg.norm(end.state.axes, 2))
    return float(end.outflow) * (1 + (width / 2 / float(end.spread)) ** 2)


def _rounding_error(end: Grid) -> float:
    """Error of positions due to interpolation and rounding, as a length."""
    least = ROUNDING_UNITS * float(jnp.finfo(end.state.axes.dtype).eps)
    return 2 * float(end.state.blur) + least * float(end.spread)


class _SizeLimit(eqx.Module):
    """An event that stops a flow when its size exceeds a bound."""

    mu0: AbstractMeasure
    bound: Float[Array, ""]

    def __call__(
        self, _t: SolverTime, y: GridState, _args: None, **_: object
    ) -> Bool[Array, ""]:
        return ~(self.mu0.replace_coordinates(y).size <= self.bound)


@compile_function
def _final_state(
    problem: Problem,
    ts: Float[Array, " times"],
    bound: Float[Array, ""],
    mask: Bool[Array, "..."],
) -> tuple[GridState, Bool[Array, ""]]:
    """The final state of a flow with a size limit, and whether it reached the end."""
    mu0, stepping = problem.mu0, problem.stepping
    noise = cast_noise(problem.noise, ts.dtype)
    transport = diffrax.ODETerm(VectorField(problem.dynamics, mu0, ts[-1], noise))
    motion = motion_of(mu0)
    terms, solver = motion.add_noise(mu0, transport, stepping.solver, noise, None)
    assert isinstance(solver, AbstractGridSolver)
    solution = diffrax.diffeqsolve(
        terms,
        WalledSolver(solver, mask),
        t0=ts[0],
        t1=ts[-1],
        dt0=None,
        y0=clear_outside(mu0.coordinates, mask),
        saveat=diffrax.SaveAt(t1=True),
        stepsize_controller=stepping.controller(mu0, ts, problem.dynamics.jumps),
        event=diffrax.Event(_SizeLimit(mu0, bound)),
        max_steps=stepping.max_steps,
        throw=False,
    )
    last = jax.tree.map(lambda leaf: leaf[-1], solution.ys)
    return last, solution.result == diffrax.RESULTS.successful


def coarsen(mu: Grid) -> Grid:
    """The measure on a grid whose cells are about twice as wide.

    Cells are merged in pairs from both ends of an axis. If their number is odd, one
    cell in the middle stays as it is, or three are merged.
    """
    masses, coarse = mu.state.masses, []
    for axis, edges in enumerate(mu.edges):
        n = edges.shape[0] - 1
        low = np.arange(0, n // 2 + 1, 2)
        indices = np.unique(np.concatenate([low, n - low]))
        masses = jnp.add.reduceat(masses, indices[:-1], axis=axis + 1)
        coarse.append(edges[indices])
    state = mu.state._replace(masses=masses)
    return Grid(state, tuple(coarse), mu.position, mu.box, mu.probe)
