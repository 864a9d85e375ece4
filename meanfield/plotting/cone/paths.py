"""Paths of 2 × 2 covariances as points of the cone, with the endings of their runs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.ticker import MaxNLocator

from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting.reading.data import NOTHING, Ending, ending, runs, values
from meanfield.plotting.reading.observables import covariance, finite, run_moments

# If paths escape, the height of the picture is `_CROP_ESCAPE` times the largest initial
# trace, or, if larger, the quantile `_CALM_SHARE` of the largest traces of the other
# paths. The quantile is ignored if it exceeds `_CROP` times the largest initial trace.
_CROP_ESCAPE, _CALM_SHARE, _CROP = 4.0, 0.95, 50.0
# Largest error of thinned paths, as a share of the picture's height. It is less than
# half a pixel.
DETAIL = 1e-3
# Where paths leave the picture, arrows have the length `_ARROW` times its height.
_ARROW = 0.1
# A flow that reached its last time is still growing if its last trace is its largest,
# and more than `_GROWTH` times the first one, which is not zero.
_GROWTH = 100.0
_GROWTH_COLOUR = "#882255"


class EndingMark(NamedTuple):
    """Name and style of an ending in a picture of paths."""

    name: str
    colour: str
    marker: str


@dataclass(frozen=True)
class CovarianceRun:
    """The covariance of one run: times, factors (k, d, r), ending, index of the run."""

    times: np.ndarray
    factor: np.ndarray
    ending: Ending
    run: int


@dataclass(frozen=True)
class ConePath:
    """One path: rows $(x, y, z, t)$ of finite frames, ending and index of the run.

    `is_cut` says whether the path continues beyond the picture.
    """

    rows: np.ndarray
    ending: Ending
    run: int
    is_growing: bool = False
    is_cut: bool = False

    @property
    def mark(self) -> EndingMark:
        """Mark of the ending; growth without a confirmed blow-up has its own marks."""
        status = self.ending.status
        if status is Status.BLOW_UP and math.isnan(self.ending.t_star):
            return EndingMark("passed the bound", _GROWTH_COLOUR, status.row.marker)
        if status is Status.FINISHED and self.is_growing:
            return EndingMark("finished, growing", _GROWTH_COLOUR, "p")
        return EndingMark(status.ending, status.row.colour, status.row.marker)

    @property
    def points(self) -> np.ndarray:
        """The points $(x, y, z)$ of the path, without the times."""
        return self.rows[:, :-1]


def cone_coordinates(covariances: np.ndarray) -> np.ndarray:
    r"""$(a - b, 2c, a + b)$ for $\begin{pmatrix} a & c \\ c & b \end{pmatrix}$.

    Positive semidefinite matrices fill the cone $z \ge \sqrt{x^2 + y^2}$, with
    isotropic ones on its axis and those of rank one on its surface. Maps shape
    (..., 2, 2) to (..., 3).

    Examples:
        >>> from meanfield.plotting import cone_coordinates
        >>> print(cone_coordinates(np.array([[2.0, 0.5], [0.5, 1.0]])))
        [1. 1. 3.]
    """
    a, b = covariances[..., 0, 0], covariances[..., 1, 1]
    return np.stack([a - b, 2 * covariances[..., 0, 1], a + b], axis=-1)


def covariance_runs(
    dataset: xr.Dataset, panel: str, dimension: int = 2
) -> list[CovarianceRun]:
    """The covariances of all runs, without frames that are not finite.

    Raises:
        InvalidInputError: if the runs have another dimension, or no frame is finite.
    """
    movers = []
    for index, run in enumerate(runs(dataset)):
        factor = run_moments(run).factor
        if factor.shape[-2] != dimension:
            raise InvalidInputError(
                f"The panel `{panel}` draws covariances of dimension {dimension}; this "
                f"run has dimension {factor.shape[-2]}. Use the panel `spectrum`."
            )
        times = np.arange(len(factor), dtype=np.float64)
        if "time" in run.variables:
            times = values(run, "time", ("time",))
        whole = np.isfinite(times) & finite(covariance(factor))
        if whole.any():
            movers.append(
                CovarianceRun(times[whole], factor[whole], ending(run), index)
            )
    if not movers:
        raise InvalidInputError(NOTHING)
    return movers


def cone_paths(dataset: xr.Dataset, panel: str) -> list[ConePath]:
    """The paths of all runs in the cone, without frames that are not finite.

    Raises:
        InvalidInputError: if the dimension is not two, or no frame is finite.
    """
    return [path_of(mover) for mover in covariance_runs(dataset, panel)]


def path_of(mover: CovarianceRun) -> ConePath:
    """The path of one run."""
    points = cone_coordinates(covariance(mover.factor))
    rows, traces = np.column_stack([points, mover.times]), points[:, 2]
    is_growing = traces[-1] == traces.max() and 0 < _GROWTH * traces[0] < traces[-1]
    return ConePath(rows, mover.ending, mover.run, bool(is_growing))


def cone_height(paths: Sequence[ConePath]) -> float:
    """The height of the picture: above all traces, or lower if paths escape."""
    first = max(path.points[0, 2] for path in paths)
    calm = [p.points[:, 2].max() for p in paths if not p.ending.status.row.leaves]
    tallest = max(path.points[:, 2].max() for path in paths)
    calm_top = np.quantile(calm, _CALM_SHARE, method="higher") if calm else 0.0
    calm_height = float(calm_top) if calm_top <= _CROP * first else 0.0
    height = min(tallest, max(calm_height, _CROP_ESCAPE * first))
    return float(1.05 * height) if height > 0 else 1.0


def ring_heights(height: float) -> list[float]:
    """The traces of the rings on the surface: round numbers, none close to the rim."""
    ticks = MaxNLocator(4).tick_values(0, height)
    return [float(z) for z in ticks if 0 < z < 0.93 * height]


def clip_path(rows: np.ndarray, height: float) -> np.ndarray:
    """The rows of a path until its third column, the trace, first crosses `height`."""
    indices = np.flatnonzero(rows[:, 2] > height)
    if indices.size == 0 or indices[0] == 0:
        return rows
    lower, upper = rows[indices[0] - 1], rows[indices[0]]
    share = (height - lower[2]) / (upper[2] - lower[2])
    crossing = lower + share * (upper - lower)
    return np.concatenate([rows[: indices[0]], crossing[None]])


def clip_paths(paths: Sequence[ConePath], height: float) -> list[ConePath]:
    """The paths up to `height`, thinned with the tolerance `DETAIL * height`."""
    lines = thin_paths(
        [clip_path(path.rows, height) for path in paths], DETAIL * height
    )
    return [
        replace(path, rows=rows, is_cut=bool(rows[-1, -1] < path.rows[-1, -1]))
        for path, rows in zip(paths, lines, strict=True)
    ]


def departures(
    paths: Sequence[np.ndarray], height: float
) -> tuple[np.ndarray, np.ndarray]:
    """The last points of paths (k, 4), and arrows along their last steps, (n, 3)."""
    feet, before = np.array([rows[[-1, -2], :-1] for rows in paths]).swapaxes(0, 1)
    steps = feet - before
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    return feet, steps * (_ARROW * height / lengths)


def shapes_of_trace_one(paths: Sequence[ConePath]) -> tuple[list[ConePath], str]:
    r"""Rows $(x / z, y / z, t)$ where $z > 0$, and a note on frames left out.

    Raises:
        InvalidInputError: if $z = 0$ everywhere.
    """
    left_out = sum(int((path.points[:, 2] <= 0).sum()) for path in paths)
    shapes = nonzero_paths(replace(path, rows=_shapes(path.rows)) for path in paths)
    return shapes, f"{left_out} frames of zero covariance left out" if left_out else ""


def nonzero_paths(paths: Iterable[ConePath]) -> list[ConePath]:
    """The paths that have rows, those of covariances that do not vanish always.

    Raises:
        InvalidInputError: if there are none.
    """
    shapes = [path for path in paths if len(path.rows)]
    if not shapes:
        raise InvalidInputError(
            "All covariances are zero, so there is no shape to draw. Start from a "
            "nonzero covariance."
        )
    return shapes


def _shapes(rows: np.ndarray) -> np.ndarray:
    x, y, z, t = rows[rows[:, 2] > 0].T
    return np.column_stack([x / z, y / z, t])


def group_by_ending(paths: Sequence[ConePath]) -> dict[EndingMark, list[ConePath]]:
    """The paths grouped by the mark of their ending, in the order of `Status`."""
    groups: dict[EndingMark, list[ConePath]] = {}
    for path in sorted(paths, key=lambda path: int(path.ending.status)):
        groups.setdefault(path.mark, []).append(path)
    return groups


def thin_paths(paths: Sequence[np.ndarray], tolerance: float) -> list[np.ndarray]:
    """The paths without rows that interpolation reproduces up to `tolerance`.

    The last column is the time, which increases. Between kept rows a path is
    interpolated linearly in time; every omitted row lies within `tolerance` of the
    interpolation at its time. This is the rule of Douglas and Peucker with distances at
    equal times, vectorised over paths: each pass keeps the farthest row of every piece.
    """
    rows = np.concatenate(paths)
    ends = np.cumsum([len(path) for path in paths])
    is_kept = np.zeros(len(rows), dtype=bool)
    is_kept[[0, *ends[:-1]]] = True
    is_kept[ends - 1] = True
    while True:
        nodes = np.flatnonzero(is_kept)
        gaps = _gaps(rows, nodes)
        farthest = np.maximum.reduceat(gaps, nodes)[np.cumsum(is_kept) - 1]
        new = (gaps > tolerance) & (gaps == farthest)
        if not new.any():
            break
        is_kept |= new
    masks = np.split(is_kept, ends[:-1])
    return [path[mask] for path, mask in zip(paths, masks, strict=True)]


def _gaps(rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Distances from rows to the linear interpolation between `nodes`."""
    positions = np.searchsorted(nodes, np.arange(len(rows)))
    right = nodes[positions]
    left = np.where(right == np.arange(len(rows)), right, nodes[positions - 1])
    span = rows[right, -1] - rows[left, -1]
    share = (rows[:, -1] - rows[left, -1]) / np.where(span > 0, span, 1.0)
    start = rows[left, :-1]
    straight = start + share[:, None] * (rows[right, :-1] - start)
    return np.linalg.norm(rows[:, :-1] - straight, axis=-1)
