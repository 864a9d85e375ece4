"""The panel `simplex`: shares of the eigenvalues of 3 × 3 covariances."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from meanfield.plotting._figure.marks import Key
from meanfield.plotting._figure.panels import registered_panel
from meanfield.plotting._figure.style import GREY, INK
from meanfield.plotting.reading.observables import covariance

from .ending_styles import draw_plane_paths, early_note, ending_handles, path_figure
from .paths import ConePath, CovarianceRun, covariance_runs, nonzero_paths

# Columns are the places of the three eigenvalues in the plane, the largest first.
_VERTICES = np.array([[1.0, -0.5, -0.5], [0.0, np.sqrt(0.75), -np.sqrt(0.75)]])
_CORNERS = {
    "isotropic": (1 / 3, 1 / 3, 1 / 3),
    "rank one": (1.0, 0.0, 0.0),
    "isotropic of rank two": (0.5, 0.5, 0.0),
}
_LOWER = ("isotropic", "rank one")  # corners with their label below
_MARGIN = 0.09  # room around the triangle for its labels


@registered_panel("simplex")
def simplex(dataset: xr.Dataset) -> Figure:
    r"""Paths of the eigenvalues of $\Sigma / \operatorname{tr}\Sigma$ for $d = 3$.

    The ordered shares $p_1 \ge p_2 \ge p_3$ fill a sixth of the simplex: a triangle
    with the isotropic covariances, those of rank one, and the isotropic ones of rank
    two as corners. Its upper side has rank two. Frames in which $\Sigma$ vanishes are
    left out.

    Raises:
        InvalidInputError: if the dimension is not three, or $\Sigma$ always vanishes.
    """
    return path_figure(dataset, (6.6, 4.6), _draw)


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


def _draw(axes: Axes, dataset: xr.Dataset) -> Key:
    paths = nonzero_paths(map(_path, covariance_runs(dataset, "simplex", 3)))
    _draw_triangle(axes)
    draw_plane_paths(axes, paths)
    return Key(ending_handles(paths), None, "", [early_note(paths)])


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
