r"""How far a flow on a grid can be trusted: by what fewer cells, smaller boxes change.

A truncated tail may be felt in no velocity of the bulk, and matter: the bulk looks at
tokens that look at others, further out. Only other runs can tell. Two steps of
coarsening and two of cutting say what is left, as the rest of a sequence whose steps
shrink as by a power of the width; where they do not shrink, or the coarser of two runs
comes to no end, what is left is said to be sixty times the last change.
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
from meanfield.flows._compiled import compiled
from meanfield.flows._flow import prepared
from meanfield.flows._integration import Problem, VectorField
from meanfield.flows.motions import Isotropic, motion_of, typed
from meanfield.flows.stepping import AbstractGridSolver, Courant, cfl
from meanfield.measures import TURN, AbstractMeasure, Grid, GridState

from ._remainder import of_box, of_cells, of_time
from ._walls import Walled, between, cleared

CUTS = 1 / 4, 1 / 2  # of the room to either side of a flow, taken away for comparison
RUNAWAY = 10.0  # times the largest size of a flow, which others of it do not pass
ROUNDED = 1e3  # units of rounding that nothing is known below


class Doubt(NamedTuple):
    r"""How far the final moments may be off, in units of the spread.

    Attributes:
        covariance: Frobenius, relative to the trace.
        mean: relative to the root of the trace.
        box: the part of `covariance` that a wider box would take away.
        cells: the part of `covariance` that more cells would take away.

    Examples:
        >>> from meanfield.flows import Doubt
        >>> Doubt(covariance=1e-4, mean=1e-6, box=4e-5, cells=6e-5).worst
        0.0001
    """

    covariance: float
    mean: float
    box: float
    cells: float

    @property
    def worst(self) -> float:
        """The larger one of the doubts about mean and covariance; NaN if either is."""
        return float(np.maximum(self.covariance, self.mean))


def doubt(
    dynamics: AbstractDynamics,
    start: Grid,
    end: Grid,
    *,
    span: tuple[float, float],
    noise: Isotropic | None = None,
    stepping: Courant | None = None,
    missed: float = 0.0,
) -> Doubt:
    """The doubts about a flow, from four others, on half of its cells or a quarter.

    Infinite where the flow on half of the cells, or in three quarters of the box, does
    not arrive. The coarser ones need not: then what is left is at most 60 times the
    last change.

    Args:
        dynamics: what moved the grid.
        start: the grid when the flow began.
        end: the grid when it ended.
        span: when that was.
        noise: that of the flow.
        stepping: that of the flow; `cfl()` if `None`.
        missed: of the covariance of the start, what the grid has not got right.

    Examples:
        >>> from meanfield import Grid, attentions, flow
        >>> from meanfield.flows import doubt
        >>> bell = lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
        >>> start, one = Grid.from_function([np.linspace(-8, 8, 65)], bell), jnp.eye(1)
        >>> softmax = attentions["softmax"](-one, one, one)
        >>> end = flow(softmax, start, [0.0, 0.5]).final
        >>> bar = doubt(softmax, start, end, span=(0.0, 0.5)).covariance
        >>> bool(abs(end.covariance[0, 0] - 1 / 2) / end.covariance[0, 0] <= bar)
        True
    """
    steps = stepping or cfl()
    changes = changed(dynamics, start, end, span=span, noise=noise, stepping=steps)
    units, begun = _Moments.of(end).units, _Moments.of(start).units
    growth = float(units[0] / begun[0])
    known = missed * max(1.0, growth) + _rounded(end) / units[1]
    known += of_time(growth, turn=steps.share * TURN, noisy=noise is not None)
    cells = [of_cells(near, far) + known for near, far, _, _ in changes]
    box = [of_box(near, far) + _lost(end) for _, _, near, far in changes]
    parts = box[0] + cells[0], box[1] + cells[1], box[0], cells[0]
    return Doubt(*map(float, parts))


def changed(
    dynamics: AbstractDynamics,
    start: Grid,
    end: Grid,
    *,
    span: tuple[float, float],
    noise: Isotropic | None,
    stepping: Courant,
) -> Float[np.ndarray, "2 4"]:
    """What covariance and mean change by, in units of the end; see `doubt`.

    From cells to twice as wide ones and to those once more; then, among the wide ones,
    from the box to three quarters of it and to a half.
    """
    bound = RUNAWAY * jnp.maximum(start.size, end.size)
    ts = np.array(span, end.state.axes.dtype)
    moved = _Flow(dynamics, ts, noise, stepping, bound)
    half, seen = coarsened(start), (start, end)
    quarter = coarsened(half)
    fine, wide = _Moments.of(end), moved(half, between(half, seen, 0.0))
    coarse = moved(quarter, between(quarter, seen, 0.0))
    # A closed box cannot be wider: then nothing is cut, and nothing in doubt.
    shares = CUTS if start.box.is_open else (0.0, 0.0)
    cut, further = (moved(half, between(half, seen, share)) for share in shares)
    pairs = (fine, wide), (wide, coarse), (wide, cut), (cut, further)
    return np.stack([a.gaps(b) for a, b in pairs], axis=1) / fine.units[:, None]


class _Moments(NamedTuple):
    """What doubts are about."""

    mean: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]

    @classmethod
    def of(cls, mu: Grid) -> "_Moments":
        return cls(np.asarray(mu.mean, float), np.asarray(mu.covariance, float))

    @property
    def units(self) -> Float[np.ndarray, "2"]:
        """Of the covariance its trace, of the mean the root of it."""
        trace = np.trace(self.covariance)
        return np.array([trace, np.sqrt(trace)])

    def gaps(self, other: "_Moments") -> Float[np.ndarray, "2"]:
        """How far others are, in covariance and mean; infinite if there are none."""
        pairs = (self.covariance, other.covariance), (self.mean, other.mean)
        sizes = np.array([np.linalg.norm(a - b) for a, b in pairs])
        return np.where(np.isfinite(sizes), sizes, np.inf)


class _Flow(NamedTuple):
    """All of a flow but where it starts, and the size that ends it."""

    dynamics: AbstractDynamics
    span: Float[np.ndarray, "2"]
    noise: Isotropic | None
    stepping: Courant
    bound: Float[Array, ""]

    def __call__(self, mu: Grid, room: Bool[Array, "..."]) -> _Moments:
        """What a grid comes to between walls; no number where it does not arrive."""
        problem, ts = prepared(
            self.dynamics,
            mu,
            self.span,
            stepping=self.stepping,
            stop=None,
            since=None,
            noise=self.noise,
        )
        state, arrived = _moved(problem, ts, self.bound, room)
        last = _Moments.of(mu.at(state))
        return last if bool(arrived) else _Moments(*(np.nan * part for part in last))


def _lost(end: Grid) -> float:
    """What has left a box, of the second moment about the mean, by its width."""
    width = float(end.reference_width * jnp.linalg.norm(end.state.axes, 2))
    return float(end.outflow) * (1 + (width / 2 / float(end.spread)) ** 2)


def _rounded(end: Grid) -> float:
    """How far off velocities and places were, for all that is known: a length."""
    least = ROUNDED * float(jnp.finfo(end.state.axes.dtype).eps)
    return 2 * float(end.state.blur) + least * float(end.spread)


class _Beyond(eqx.Module):
    """Whether a flow has come to be larger than it may be."""

    mu0: AbstractMeasure
    bound: Float[Array, ""]

    def __call__(
        self, _t: SolverTime, y: GridState, _args: None, **_: object
    ) -> Bool[Array, ""]:
        return ~(self.mu0.at(y).size <= self.bound)


@compiled
def _moved(
    problem: Problem,
    ts: Float[Array, " times"],
    bound: Float[Array, ""],
    room: Bool[Array, "..."],
) -> tuple[GridState, Bool[Array, ""]]:
    """Where a flow arrives that only its size may end, and whether it does."""
    mu0, stepping = problem.mu0, problem.stepping
    noise = typed(problem.noise, ts.dtype)
    moving = diffrax.ODETerm(VectorField(problem.dynamics, mu0, ts[-1], noise))
    motion = motion_of(mu0)
    terms, solver = motion.driven(mu0, moving, stepping.solver, noise, None)
    assert isinstance(solver, AbstractGridSolver)
    solution = diffrax.diffeqsolve(
        terms,
        Walled(solver, room),
        t0=ts[0],
        t1=ts[-1],
        dt0=None,
        y0=cleared(mu0.coordinates, room),
        saveat=diffrax.SaveAt(t1=True),
        stepsize_controller=stepping.controller(mu0, ts, problem.dynamics.jumps),
        event=diffrax.Event(_Beyond(mu0, bound)),
        max_steps=stepping.max_steps,
        throw=False,
    )
    last = jax.tree.map(lambda leaf: leaf[-1], solution.ys)
    return last, solution.result == diffrax.RESULTS.successful


def coarsened(mu: Grid) -> Grid:
    """The same measure on cells about twice as wide.

    Cells are joined two by two from either end of an axis; where their number is odd,
    one in the middle stays alone, or three become one.
    """
    masses, coarse = mu.state.masses, []
    for axis, edges in enumerate(mu.edges):
        n = edges.shape[0] - 1
        low = np.arange(0, n // 2 + 1, 2)
        kept = np.unique(np.concatenate([low, n - low]))
        masses = jnp.add.reduceat(masses, kept[:-1], axis=axis + 1)
        coarse.append(edges[kept])
    state = mu.state._replace(masses=masses)
    return Grid(state, tuple(coarse), mu.position, mu.box, mu.probe)
