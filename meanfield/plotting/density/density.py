"""The panel `density`: a density over time, or in two dimensions at several times."""

from dataclasses import replace

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.plotting._figure.look import Look, look_of
from meanfield.plotting._figure.marks import colour_bar, entry, legend_row
from meanfield.plotting._figure.panels import (
    annotate,
    ending_note,
    registered_panel,
    titled_figure,
)
from meanfield.plotting._figure.style import CYCLE
from meanfield.plotting.reading.data import runs
from meanfield.plotting.reading.density import (
    Density,
    density_run,
    holding_levels,
    quantiles,
)
from meanfield.plotting.reading.observables import even_frames

from .angles import draw_angles, is_on_sphere
from .line import draw_line
from .scenes import TOKENS, MapScene, axis_names, height_label
from .views import Extent, map_view, mass_note, scale

_SHARES = np.array([0.99, 0.9, 0.5])
_FRAMES, _COLUMNS = 6, 3
_SCALE_NOTE = "each frame at its own magnification: mind the scales"
_CONTOUR, _BOX = CYCLE[5], CYCLE[2]


@registered_panel("density")
def density(dataset: xr.Dataset) -> Figure:
    r"""The density $\rho(t, x)$, with the box of its grid and with quantiles.

    In one dimension it is drawn over time, with paths of quantiles; in two dimensions
    as maps of at most six frames, with contours that contain 50, 90 and 99 % of the
    mass. Densities of (position, state) are also drawn as maps of at most six frames.
    The colour scale is logarithmic if the peaks span decades. Tokens in the dataset are
    drawn on top. Of an ensemble, the first run is drawn.

    On a circle or sphere the density is drawn over time and angle, above its order
    parameters.

    Raises:
        InvalidInputError: if the dataset contains no density.
    """
    if is_on_sphere(dataset):
        figure = titled_figure(dataset, (7.2, 5.6))
        annotate(figure, ending_note(draw_angles(figure, next(runs(dataset)))))
        return figure
    run = density_run(next(runs(dataset)))
    several = dataset.sizes.get("run", 1)
    first = f"the first of {several} runs" if several > 1 else ""
    if run.dimension == 1 and run.position is None:
        figure = titled_figure(dataset, (7.2, 4.9))
        notes = draw_line(figure, run)
    else:
        look = look_of(dataset)
        figure = titled_figure(dataset, frames_size(len(run.times), look))
        notes = draw_frames(figure, run, look)
    annotate(figure, first, *notes, mass_note(run), ending_note(run.ending))
    return figure


def frames_size(n_frames: int, look: Look) -> tuple[float, float]:
    """The size in inches of a figure of `n_frames` frames."""
    columns = look.columns(_COLUMNS)
    rows = 2 if columns == _COLUMNS else -(-min(n_frames, _FRAMES) // columns)
    return 3.2 * columns, 2.7 * rows + 1.4


def draw_frames(figure: Figure, run: Density, look: Look) -> list[str]:
    """Draw at most six frames of a run; return notes."""
    sample = run.take(even_frames(len(run.times), _FRAMES))
    sample, view, notes = map_view(sample, _SCALE_NOTE)
    shades = scale(sample.laws, look)
    grid = _grid(figure, sample, look.columns(_COLUMNS))
    for index, axes in enumerate(grid.ravel()[: len(sample.times)]):
        MapScene(axes, sample, view, shades).show(index)
        _overlay(axes, sample, index)
        _limits(axes, sample, view, index)
        axes.set_title(f"$t$ = {sample.times[index]:.4g}")
    _labels(grid, sample)
    suffix = ", logarithmic" if isinstance(shades.norm, LogNorm) else ""
    colour_bar(list(grid.flat), shades, height_label(sample) + suffix, aspect=36)
    return notes


def _grid(figure: Figure, run: Density, max_columns: int) -> np.ndarray:
    """Axes for the frames, below a row for the legend."""
    columns = min(max_columns, len(run.times))
    rows = -(-len(run.times) // columns)
    cells = figure.add_gridspec(rows + 1, columns, height_ratios=[0.1] + rows * [1.0])
    legend_row(figure, cells[0, :], _handles(run))
    places = np.ndindex(rows, columns)
    panels = [figure.add_subplot(cells[row + 1, column]) for row, column in places]
    for empty in panels[len(run.times) :]:
        empty.axis("off")
    return np.array(panels).reshape(rows, columns)


def _overlay(axes: Axes, run: Density, frame: int) -> None:
    """Draw contours around most of the mass, or quantiles of each layer, on a map."""
    if run.dimension == 1:
        _quantiles(axes, run, frame)
        return
    heights = run.density[frame, 0]
    levels = np.unique(holding_levels(heights, run.mass[frame, 0], _SHARES))
    x, y = np.moveaxis(run.places(frame, *run.middles), -1, 0)
    if heights.max() > levels[0] > 0:
        axes.contour(x, y, heights, levels, colors=_CONTOUR, linewidths=0.9)


def _quantiles(axes: Axes, run: Density, frame: int) -> None:
    """Draw the median and the quartiles of the state in each layer."""
    assert run.position is not None
    instant = run.take(np.array([frame]))
    layers = [
        replace(instant, mass=instant.mass[:, i : i + 1], position=None)
        for i in range(run.position.size)
    ]
    for level, pattern in ((0.25, "--"), (0.5, "-"), (0.75, "--")):
        path = [quantiles(layer, np.array([level]))[0, 0] for layer in layers]
        axes.plot(run.position, path, pattern, color=_CONTOUR, linewidth=1.1)


def _limits(axes: Axes, run: Density, view: Extent, index: int) -> None:
    low, high = view.low[index], view.high[index]
    pad = 0.02 * (high - low)
    low, high = low - pad, high + pad
    if run.dimension == 1:
        axes.set(ylim=(low[0], high[0]))
    else:
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def _labels(grid: np.ndarray, run: Density) -> None:
    x_name, y_name = axis_names(run)
    for axes in grid[-1]:
        axes.set_xlabel(x_name)
    for axes in grid[:, 0]:
        axes.set_ylabel(y_name)


def _handles(run: Density) -> list[Line2D]:
    layers, plane = "median, 25 and 75 %", "hold 50, 90, 99 % of the mass"
    contour = entry(layers if run.dimension == 1 else plane, _CONTOUR)
    tokens = [] if run.tokens is None else [TOKENS]
    return [contour, entry("box of the grid", _BOX), *tokens]
