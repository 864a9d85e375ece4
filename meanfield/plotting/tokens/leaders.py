"""The panel `leaders`: the regions of the plane in which each token leads."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.marks import dot_entry, square_legend
from meanfield.plotting._figure.panels import (
    annotate,
    ending_note,
    registered_panel,
    titled_figure,
)
from meanfield.plotting._figure.parts import draw_dots
from meanfield.plotting._figure.style import CYCLE, INK
from meanfield.plotting.reading.data import Cloud, Swarm, cloud, runs
from meanfield.plotting.reading.description import spec_of

from .picture import frame_plane, name_axes
from .views import Window

_PIXELS = 400  # number of points along each side, at which the leader is found
_OPACITY = 0.28  # of the colours of regions
_ROOM = 1.15  # half-width of the picture, relative to the farthest token


@registered_panel("leaders")
def leaders(dataset: xr.Dataset) -> Figure:
    r"""Leaders under hardmax at the last frame: which $x_j \cdot Ax$ is the largest.

    The regions are sectors, as scores are linear in $x$. A token has the colour of its
    leader; a ring marks tokens that lead some part of the plane.

    Raises:
        InvalidInputError: unless the dataset has tokens in the plane, and its score
            matrix is a number or a 2 × 2 matrix.
    """
    run = cloud(next(runs(dataset)))
    state, A = run.state, _score_matrix(dataset)
    if not isinstance(state, Swarm) or run.dimension != len(A):
        raise InvalidInputError(
            "The panel `leaders` needs tokens in the plane; use the panel `tokens`."
        )
    figure = titled_figure(dataset, (6.0, 6.4), "leaders")
    axes = figure.add_subplot()
    key = _draw(axes, run, state.x[-1][state.weights > 0], A)
    square_legend(axes, key, len(key))
    annotate(figure, ending_note(run.ending))
    return figure


def leader_indices(x: np.ndarray, points: np.ndarray, A: np.ndarray) -> np.ndarray:
    """The token of `x`, (n, 2), with the largest score for each of `points`, (m, 2)."""
    return np.argmax(points @ A.T @ x.T, axis=1)


def _score_matrix(dataset: xr.Dataset) -> np.ndarray:
    spec = spec_of(dataset)
    value = spec.A if spec is not None and spec.Q is None else ""
    if isinstance(value, float | int | None):
        return np.eye(2) * (1.0 if value is None else value)
    if isinstance(value, str) or np.shape(value) != (2, 2):
        raise InvalidInputError(
            "The panel `leaders` needs a run whose `A` is a number or a 2 × 2 matrix."
        )
    return np.asarray(value, float)


def _draw(axes: Axes, run: Cloud, x: np.ndarray, A: np.ndarray) -> list[Line2D]:
    """Draw the regions and the tokens; return the legend."""
    half = _ROOM * float(np.abs(x).max()) or 1.0
    sides = (np.arange(_PIXELS) + 0.5) / _PIXELS * 2 * half - half
    grid = np.stack(np.meshgrid(sides, sides), axis=-1).reshape(-1, 2)
    regions = leader_indices(x, grid, A)
    token_leaders = leader_indices(x, x, A)
    names = np.union1d(regions, token_leaders)
    numbers = np.searchsorted(names, regions)
    colours = np.array([to_rgb(CYCLE[k % len(CYCLE)]) for k in range(len(names))])
    shades = np.insert(colours, 3, _OPACITY, axis=1)
    image = shades[numbers].reshape(_PIXELS, _PIXELS, 4)
    frame_plane(axes, Window(np.zeros(2), half, ""))
    axes.grid(visible=False)
    axes.imshow(image, extent=(-half, half, -half, half), origin="lower", zorder=0)
    places = np.searchsorted(names, token_leaders)
    draw_dots(axes, x, 26.0, c=colours[places], edgecolors="white", zorder=3)
    rings = draw_dots(axes, x[names], 90.0, c="none", edgecolors=INK, zorder=4)
    rings.set(linewidths=1.2)
    name_axes(axes, run.names or ("$x_1$", "$x_2$"))
    ring = {"markersize": 9, "markerfacecolor": "none"}
    return [dot_entry("leads a region", INK, **ring)]
