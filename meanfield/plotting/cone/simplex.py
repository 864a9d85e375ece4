"""The panel `simplex`: shares of the eigenvalues of 3 × 3 covariances."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import options_for
from meanfield.plotting._figure.marks import square_legend
from meanfield.plotting._figure.panels import annotate, panel, panels, titled_figure
from meanfield.plotting._figure.style import GREY, INK
from meanfield.plotting.reading.observables import covariance

from .ending_styles import (
    RASTER_POINTS,
    draw_path_lines,
    draw_tips,
    early_note,
    ending_handles,
    retitle_covariance,
    single_ending,
)
from .paths import DETAIL, ConePath, CovarianceRun, covariance_runs
from .thinning import thin_paths

# Columns are the places of the three eigenvalues in the plane, the largest first.
_VERTICES = np.array([[1.0, -0.5, -0.5], [0.0, np.sqrt(0.75), -np.sqrt(0.75)]])
_CORNERS = {
    "isotropic": (1 / 3, 1 / 3, 1 / 3),
    "rank one": (1.0, 0.0, 0.0),
    "isotropic of rank two": (0.5, 0.5, 0.0),
}
_LOWER = ("isotropic", "rank one")  # corners with their label below
_MARGIN = 0.09  # room around the triangle for its labels


@panels.register("simplex")
@panel(*options_for("simplex"))
def simplex(dataset: xr.Dataset) -> Figure:
    r"""Paths of the eigenvalues of $\Sigma / \operatorname{tr}\Sigma$ for $d = 3$.

    The ordered shares $p_1 \ge p_2 \ge p_3$ fill a sixth of the simplex: a triangle
    with the isotropic covariances, those of rank one, and the isotropic ones of rank
    two as corners. Its upper side has rank two. Frames in which $\Sigma$ vanishes are
    left out.

    Raises:
        InvalidInputError: if the dimension is not three, or $\Sigma$ always vanishes.
    """
    runs = covariance_runs(dataset, "simplex", 3)
    paths = [path for path in map(_path, runs) if len(path.rows)]
    if not paths:
        raise InvalidInputError(
            "All covariances are zero, so there is no shape to draw. Start from a "
            "nonzero covariance."
        )
    figure = titled_figure(retitle_covariance(dataset), (6.6, 4.6))
    axes = figure.add_subplot()
    _draw_triangle(axes)
    _draw_paths(axes, paths)
    handles = ending_handles(paths)
    square_legend(axes, handles, min(len(handles), 4))
    annotate(figure, early_note(paths), single_ending(dataset))
    return figure


def simplex_coordinates(covariances: np.ndarray) -> np.ndarray:
    r"""$(p_1 - \tfrac12(p_2 + p_3), \tfrac{\sqrt3}{2}(p_2 - p_3))$, of shape (..., 2).

    Here $p_1 \ge p_2 \ge p_3$ are the eigenvalues of a nonzero covariance, divided by
    their sum. `covariances` has shape (..., 3, 3).

    Examples:
        >>> from meanfield.plotting.cone.simplex import simplex_coordinates
        >>> print(simplex_coordinates(np.diag([2.0, 0.0, 0.0])))
        [1. 0.]
    """
    eigenvalues = np.maximum(np.linalg.eigvalsh(covariances)[..., ::-1], 0.0)
    return eigenvalues / eigenvalues.sum(axis=-1, keepdims=True) @ _VERTICES.T


def _path(run: CovarianceRun) -> ConePath:
    """The path of one run, without frames in which the covariance vanishes."""
    covariances = covariance(run.factor)
    is_there = np.trace(covariances, axis1=1, axis2=2) > 0
    points = simplex_coordinates(covariances[is_there])
    rows = np.column_stack([points, run.times[is_there]])
    return ConePath(rows, run.ending, run.run)


def _draw_triangle(axes: Axes) -> None:
    corners = {name: _VERTICES @ shares for name, shares in _CORNERS.items()}
    axes.add_patch(
        Polygon([*corners.values()], facecolor="#f6f8fa", edgecolor=GREY, zorder=0)
    )
    for name, (x, y) in corners.items():
        edge, shift = ("top", -6) if name in _LOWER else ("bottom", 6)
        place = {"xytext": (0, shift), "textcoords": "offset points"}
        axes.annotate(name, (x, y), **place, ha="center", va=edge, color=INK)
    height = max(y for _, y in corners.values())
    axes.set(xlim=(-_MARGIN, 1 + _MARGIN), ylim=(-_MARGIN, height + _MARGIN))
    axes.set_aspect("equal")
    axes.axis("off")


def _draw_paths(axes: Axes, paths: Sequence[ConePath]) -> None:
    lines = [rows[:, :2] for rows in thin_paths([path.rows for path in paths], DETAIL)]
    is_large = sum(len(line) for line in lines) > RASTER_POINTS
    draw_path_lines(axes, lines, paths, len(paths)).set_rasterized(is_large)
    draw_tips(axes, paths, paths, areas=(7.0, 24.0), zorder=4)
