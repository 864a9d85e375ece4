"""Tokens on their way, or a moving Gaussian: in one, two, three or more dimensions."""

from itertools import islice

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec

from meanfield.plotting._figure.look import look_of, options_for
from meanfield.plotting._figure.marks import Key, colour_scale, fitting, legend
from meanfield.plotting._figure.panels import (
    annotate,
    ending_note,
    panel,
    panels,
    titled_figure,
)
from meanfield.plotting.reading.data import Cloud, Track, cloud, runs

from .colours import refuse_colours
from .line import draw_line
from .picture import draw_paths
from .views import projection

# Runs of an ensemble shown side by side.
_SHOWN, _COLUMNS = 6, 3


@panels.register("tokens")
@panel(*options_for("tokens"))
def tokens(dataset: xr.Dataset) -> Figure:
    """Paths of the tokens, with ellipses of two standard deviations at several times.

    Against time if $d = 1$, in the plane or in space if $d = 2, 3$, and otherwise in
    the plane of the two main axes. Dashed ellipses are the Gaussian closure's, if the
    dataset carries it. The first runs of an ensemble, up to six, stand side by side.

    Raises:
        InvalidInputError: if the dataset holds no tokens and no Gaussian.
    """
    clouds = [cloud(run) for run in islice(runs(dataset), _SHOWN)]
    if "run" in dataset.dims:
        return _several(dataset, clouds)
    figure = titled_figure(dataset, (6.6, 6.0))
    axes, key = _draw(figure, figure.add_gridspec(1, 1)[0, 0], clouds[0])
    legend(axes, [*key.handles, *key.clusters], len(key.handles))
    annotate(figure, *key.notes, ending_note(clouds[0].ending))
    return figure


def _several(dataset: xr.Dataset, clouds: list[Cloud]) -> Figure:
    """Runs side by side, each with its number and ending; one legend on top."""
    columns = min(len(clouds), look_of(dataset).columns(_COLUMNS))
    rows = -(-len(clouds) // columns)
    figure = titled_figure(dataset, (4.0 * columns, 3.7 * rows + 0.9))
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[0.08] + rows * [1.0])
    notes: list[str] = []
    for index, one in enumerate(clouds):
        cell = grid[1 + index // columns, index % columns]
        axes, key = _draw(figure, cell, one)
        axes.set_title(f"run {index}: {one.ending.status}", fontsize="small")
        notes += [note for note in key.notes if note not in notes]
        if index == 0:
            top = figure.add_subplot(grid[0, :])
            top.axis("off")
            entries = fitting(top, key.handles, len(key.handles))
            top.legend(handles=key.handles, loc="center", ncols=entries)
    total = dataset.sizes["run"]
    shown = f"first {len(clouds)} of {total} runs" if total > len(clouds) else ""
    annotate(figure, shown, *notes)
    return figure


def _draw(figure: Figure, cell: SubplotSpec, one: Cloud) -> tuple[Axes, Key]:
    """One run in one cell of the figure."""
    if isinstance(one.state, Track):
        refuse_colours(one)
    seen = projection(one, 3 if one.dimension == 3 else 2)
    in_space = one.dimension == 3
    axes = figure.add_subplot(cell, projection="3d" if in_space else None)
    draw = draw_line if one.dimension == 1 else draw_paths
    key = draw(axes, seen.cloud, seen.labels)
    colour_scale(axes, key, pad=0.11 if in_space else 0.02)
    return axes, key._replace(notes=[seen.note, *key.notes])
