"""Covariances of order two as points of the cone, sorted by how their runs end."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.lines import Line2D

from meanfield.errors import InvalidInputError

from ._data import ending, runs
from ._observables import covariance, run_moments
from ._style import ENDING_COLOURS, GREY

# Paths that blow up leave the cone's picture at this many times the largest first
# trace; it grows to hold the others, up to the second number.
_CROP_ESCAPE, _CROP = 4.0, 50.0
_ESCAPES = ("blow-up", "not-finite")


@dataclass(frozen=True)
class ConePath:
    """A path in the cone: points $(a - b, 2c, a + b)$, of shape (time, 3)."""

    points: np.ndarray
    ending: str


def cone_coordinates(covariances: np.ndarray) -> np.ndarray:
    r"""$(a - b, 2c, a + b)$ for $\begin{pmatrix} a & c \\ c & b \end{pmatrix}$.

    Positive semidefinite matrices fill the cone $z \ge \sqrt{x^2 + y^2}$: its axis is
    isotropic, its surface has rank one. Takes shape (..., 2, 2), gives (..., 3).
    """
    a, b = covariances[..., 0, 0], covariances[..., 1, 1]
    return np.stack([a - b, 2 * covariances[..., 0, 1], a + b], axis=-1)


def cone_paths(dataset: xr.Dataset, panel: str) -> list[ConePath]:
    """The paths of all runs, without frames that are not finite.

    Raises:
        InvalidInputError: if the dimension is not two, or no frame is finite.
    """
    paths = []
    for run in runs(dataset):
        Sigma = covariance(run_moments(run).factor)
        if Sigma.shape[-1] != 2:
            raise InvalidInputError(
                f"The panel `{panel}` draws covariances of dimension 2; "
                f"this run has dimension {Sigma.shape[-1]}: use `spectrum` instead."
            )
        points = cone_coordinates(Sigma)
        points = points[np.isfinite(points).all(axis=-1)]
        if len(points):
            paths.append(ConePath(points, ending(run).name))
    if not paths:
        raise InvalidInputError("No frame of this dataset is finite: nothing to draw.")
    return paths


def cone_height(paths: list[ConePath]) -> float:
    """The trace at which the picture ends: all of it, unless some paths escape."""
    first = max(path.points[0, 2] for path in paths)
    calm = [p.points[:, 2].max() for p in paths if p.ending not in _ESCAPES]
    tallest = max(path.points[:, 2].max() for path in paths)
    kept = min(max(calm, default=0.0), _CROP * first)
    height = min(tallest, max(kept, _CROP_ESCAPE * first))
    return float(1.05 * height) if height > 0 else 1.0


def below(points: np.ndarray, height: float) -> np.ndarray:
    """A path up to where it first crosses `height`, ending on the crossing."""
    above = np.flatnonzero(points[:, 2] > height)
    if above.size == 0 or above[0] == 0:
        return points
    inside, outside = points[above[0] - 1], points[above[0]]
    share = (height - inside[2]) / (outside[2] - inside[2])
    crossing = inside + share * (outside - inside)
    return np.concatenate([points[: above[0]], crossing[None]])


def shapes_of_trace_one(
    groups: dict[str, list[np.ndarray]],
) -> tuple[dict[str, list[np.ndarray]], str]:
    r"""$(x, y) / z$ along the paths where $z > 0$, and a note on frames left out.

    Raises:
        InvalidInputError: if $z = 0$ everywhere.
    """
    everything = [points for found in groups.values() for points in found]
    left_out = sum(int((points[:, 2] <= 0).sum()) for points in everything)
    shapes = {
        name: [p[p[:, 2] > 0, :2] / p[p[:, 2] > 0, 2:] for p in found]
        for name, found in groups.items()
    }
    shapes = {name: [s for s in found if len(s)] for name, found in shapes.items()}
    shapes = {name: found for name, found in shapes.items() if found}
    if not shapes:
        raise InvalidInputError("Every covariance is zero: it has no shape to draw.")
    return shapes, f"{left_out} frames of zero covariance left out" if left_out else ""


def by_ending(paths: list[ConePath]) -> dict[str, list[np.ndarray]]:
    """The points of the paths under each ending, in the order of the palette."""
    sorted_paths = {
        name: [path.points for path in paths if path.ending == name]
        for name in ENDING_COLOURS
    }
    return {name: found for name, found in sorted_paths.items() if found}


def ending_handles(groups: dict[str, list[np.ndarray]]) -> list[Line2D]:
    """Legend entries: each ending with its count, then the mark of a start."""
    handles = [
        Line2D(
            [],
            [],
            color=ENDING_COLOURS[name],
            marker="o",
            markersize=5,
            label=f"{name} ({len(found)})",
        )
        for name, found in groups.items()
    ]
    start = Line2D([], [], color=GREY, marker="o", markersize=3, linestyle="")
    start.set_label("start")
    return [*handles, start]
