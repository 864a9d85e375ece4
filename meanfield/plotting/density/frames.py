"""Densities of two coordinates at several times: a plane, or positions and states."""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.marks import fitting
from meanfield.plotting._figure.style import CYCLE, INK
from meanfield.plotting._runs.data import Swarm
from meanfield.plotting._runs.density import Density, holding_levels, quantiles
from meanfield.plotting._runs.observables import even_frames

from .views import (
    Extent,
    box_corners,
    framed,
    scale,
)

SHARES = [0.99, 0.9, 0.5]
TOKENS = 400
_FRAMES, _COLUMNS = 6, 3
_MAGNIFIED = "each frame at its own magnification: mind the scales"
_CONTOUR, _BOX = CYCLE[5], CYCLE[2]


def frames_size(n_frames: int, look: Look) -> tuple[float, float]:
    """The size of the figure of so many frames, in inches."""
    columns = look.columns(_COLUMNS)
    rows = 2 if columns == _COLUMNS else -(-min(n_frames, _FRAMES) // columns)
    return 3.2 * columns, 2.7 * rows + 1.4


def draw_frames(figure: Figure, run: Density, look: Look) -> list[str]:
    """Draw a run at up to six times; returns notes."""
    sample = run.at(even_frames(len(run.times), _FRAMES))
    sample, view, notes = framed(sample, _MAGNIFIED)
    shades = scale(sample.laws, look)
    grid = _grid(figure, sample, look.columns(_COLUMNS))
    for index, axes in enumerate(grid.ravel()[: len(sample.times)]):
        draw_frame(axes, sample, index, shades)
        _limits(axes, sample, view, index)
        axes.set_title(f"$t$ = {sample.times[index]:.4g}")
    _labels(grid, sample)
    _colour_bar(figure, grid, shades, height_label(sample))
    return notes


def _grid(figure: Figure, run: Density, most: int) -> np.ndarray:
    """Axes for the frames, below a strip that holds the legend."""
    columns = min(most, len(run.times))
    rows = -(-len(run.times) // columns)
    cells = figure.add_gridspec(rows + 1, columns, height_ratios=[0.1] + rows * [1.0])
    top = figure.add_subplot(cells[0, :])
    top.axis("off")
    handles = _handles(run)
    entries = fitting(top, handles, len(handles))
    top.legend(handles=handles, loc="center", ncols=entries)
    places = [(row, column) for row in range(rows) for column in range(columns)]
    panels = [figure.add_subplot(cells[row + 1, column]) for row, column in places]
    for empty in panels[len(run.times) :]:
        empty.axis("off")
    return np.array(panels).reshape(rows, columns)


def height_label(run: Density) -> str:
    """The name of what colours show."""
    return r"density $\rho$" if run.position is None else r"density $\rho(x\,|\,s)$"


def draw_frame(axes: Axes, run: Density, frame: int, shades: ScalarMappable) -> None:
    """One frame with everything on it."""
    if run.dimension == 1:
        _layers(axes, run, frame, shades)
        return
    heights = run.density[frame, 0]
    X, Y = np.moveaxis(run.places(frame, *run.edges), -1, 0)
    colours = {"cmap": shades.cmap, "norm": shades.norm}
    axes.pcolormesh(X, Y, heights, **colours, rasterized=True)
    levels = np.unique(holding_levels(heights, run.mass[frame, 0], SHARES))
    x, y = np.moveaxis(run.places(frame, *run.middles), -1, 0)
    if heights.max() > levels[0] > 0:
        axes.contour(x, y, heights, levels, colors=_CONTOUR, linewidths=0.9)
    corners = box_corners(run, frame)
    axes.plot(*corners[[0, 1, 2, 3, 0]].T, color=_BOX, linewidth=1.1)
    axes.set_aspect("equal")
    if run.tokens is not None:
        _tokens(axes, run.tokens, frame)


def _layers(axes: Axes, run: Density, frame: int, shades: ScalarMappable) -> None:
    """States against positions, with the median and the middle half of each law."""
    assert run.position is not None
    faces = run.places(frame, run.edges[0])[:, 0]
    columns = layer_edges(run.position)
    heights = run.laws[frame].T
    colours = {"cmap": shades.cmap, "norm": shades.norm}
    axes.pcolormesh(columns, faces, heights, **colours, rasterized=True)
    instant = run.at(np.array([frame]))
    for level, pattern in ((0.25, "--"), (0.5, "-"), (0.75, "--")):
        path = [
            quantiles(_layer(instant, i), np.array([level]))[0, 0]
            for i in range(run.position.size)
        ]
        axes.plot(run.position, path, pattern, color=_CONTOUR, linewidth=1.1)
    for end in faces[[0, -1]]:
        axes.axhline(end, color=_BOX, linewidth=1.1)
    if run.tokens is not None and run.tokens.position is not None:
        x = run.tokens.x[frame, :, 0]
        axes.plot(run.tokens.position, x, ".", color=INK, markersize=2)


def _layer(run: Density, index: int) -> Density:
    return replace(run, mass=run.mass[:, index : index + 1], position=None)


def layer_edges(position: np.ndarray) -> np.ndarray:
    """Where the column of each position begins and ends, within [0, 1]."""
    middles = (position[1:] + position[:-1]) / 2
    return np.concatenate([[0.0], middles, [1.0]])


def _tokens(axes: Axes, tokens: Swarm, frame: int) -> None:
    indices = even_frames(tokens.x.shape[1], TOKENS)
    axes.plot(
        *tokens.x[frame, indices].T, ".", color=INK, markersize=2.2, markeredgewidth=0
    )


def _limits(axes: Axes, run: Density, view: Extent, index: int) -> None:
    low, high = view.low[index], view.high[index]
    pad = 0.02 * (high - low)
    low, high = low - pad, high + pad
    if run.dimension == 1:
        axes.set(ylim=(low[0], high[0]))
    else:
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def _labels(grid: np.ndarray, run: Density) -> None:
    across, up = ("$x_1$", "$x_2$") if run.dimension == 2 else ("position $s$", "$x$")
    for axes in grid[-1]:
        axes.set_xlabel(across)
    for axes in grid[:, 0]:
        axes.set_ylabel(up)


def _colour_bar(
    figure: Figure, grid: np.ndarray, shades: ScalarMappable, label: str
) -> None:
    suffix = ", logarithmic" if isinstance(shades.norm, LogNorm) else ""
    bar = figure.colorbar(
        shades, ax=list(grid.flat), aspect=36, pad=0.02, label=label + suffix
    )
    bar.outline.set_visible(False)


def _handles(run: Density) -> list[Line2D]:
    if run.dimension == 1:
        inside = Line2D([], [], color=_CONTOUR, label="median, 25 and 75 %")
    else:
        inside = Line2D([], [], color=_CONTOUR, label="hold 50, 90, 99 % of the mass")
    handles = [inside, Line2D([], [], color=_BOX, label="box of the grid")]
    if run.tokens is not None:
        handles.append(Line2D([], [], color=INK, marker=".", ls="", label="tokens"))
    return handles
