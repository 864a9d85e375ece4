"""The panel `tokens`: paths of tokens or of a Gaussian, in any dimension."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from mpl_toolkits.mplot3d import Axes3D

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.joint import Runs, common_run, joint_panel
from meanfield.plotting._figure.look import look_of, options_for
from meanfield.plotting._figure.marks import (
    Key,
    colour_bar,
    colour_scale,
    legend_row,
    square_legend,
)
from meanfield.plotting._figure.panels import (
    annotate,
    ending_note,
    registered_panel,
    titled_figure,
)
from meanfield.plotting.reading.data import Cloud, Track, cloud, runs
from meanfield.plotting.reading.labels import unlabelled_note

from .colours import check_no_colours, default_colouring
from .line import draw_line
from .picture import draw_paths
from .views import Projection, projection
from .words import write_word_labels

# A figure shows at most `_MAX_RUNS` runs of an ensemble, at most `_COLUMNS` in each
# row.
_MAX_RUNS, _COLUMNS = 6, 3


@registered_panel("tokens")
def tokens(dataset: xr.Dataset) -> Figure:
    """Paths of the tokens, with ellipses of two standard deviations at several times.

    They are drawn over time if $d = 1$, in the plane or in space if $d = 2, 3$, and
    otherwise in the plane of the two main axes. Dashed ellipses show the Gaussian
    closure, if the dataset contains it. Of an ensemble, the first six runs are drawn.

    Raises:
        InvalidInputError: if the dataset contains neither tokens nor a Gaussian.
    """
    clouds = [cloud(run) for run in islice(runs(dataset), _MAX_RUNS)]
    if "run" in dataset.dims:
        return _draw_runs(dataset, clouds)
    figure = titled_figure(dataset, (6.6, 6.0))
    axes, key = _draw(figure, figure.add_gridspec(1, 1)[0, 0], clouds[0])
    _colour_scale(axes, key)
    square_legend(axes, [*key.handles, *key.clusters], len(key.handles))
    annotate(figure, *key.notes, ending_note(clouds[0].ending))
    annotate(figure, write_word_labels(axes, _image(clouds[0]).cloud))
    return figure


@joint_panel("tokens", *options_for("tokens"))
def joint_tokens(labelled_runs: Runs) -> Figure:
    """Paths of the tokens of several runs, in a grid; of an ensemble, the first run.

    If different colours suit the runs, all are coloured by where tokens started.
    """
    clouds = {
        f"{label}: {member.ending.status}": member
        for label, run in labelled_runs.items()
        for member in [cloud(next(runs(run)))]
    }
    if len({_default_colouring(member) for member in clouds.values()}) > 1:
        looks = {k: replace(v.look, colour="start") for k, v in clouds.items()}
        clouds = {k: replace(v, look=looks[k]) for k, v in clouds.items()}
    note = unlabelled_note(labelled_runs)
    return _draw_grid(common_run(labelled_runs, "tokens"), clouds, note)


def _default_colouring(member: Cloud) -> str | None:
    """The colouring that the look leaves to the tokens; empty for a Gaussian."""
    look = member.look
    is_chosen = any(name is not None for name in (look.colour, look.link, look.metric))
    if is_chosen or isinstance(member.state, Track):
        return ""
    return default_colouring(member, member.state)


def _draw_runs(dataset: xr.Dataset, clouds: list[Cloud]) -> Figure:
    """Draw runs of an ensemble in a grid, each with its number and ending."""
    total = dataset.sizes["run"]
    runs_note = f"first {len(clouds)} of {total} runs" if total > len(clouds) else ""
    titles = [f"run {i}: {member.ending.status}" for i, member in enumerate(clouds)]
    return _draw_grid(dataset, dict(zip(titles, clouds, strict=True)), runs_note)


def _draw_grid(
    dataset: xr.Dataset, clouds: Mapping[str, Cloud], note: str = ""
) -> Figure:
    """Draw runs in a grid, each with its title, with one legend on top."""
    columns = min(len(clouds), look_of(dataset).columns(_COLUMNS))
    rows = -(-len(clouds) // columns)
    figure = titled_figure(dataset, (4.0 * columns, 3.7 * rows + 0.9))
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[0.08] + rows * [1.0])
    notes: list[str] = []
    parts: list[tuple[Axes, Key]] = []
    for index, (title, member) in enumerate(clouds.items()):
        cell = grid[1 + index // columns, index % columns]
        axes, key = _draw(figure, cell, member)
        axes.set_title(title, fontsize="small")
        notes += [note for note in key.notes if note not in notes]
        parts.append((axes, key))
    _colour_scales(parts)
    legend_row(figure, grid[0, :], parts[0][1].handles)
    annotate(figure, note, *notes)
    for (axes, _), member in zip(parts, clouds.values(), strict=True):
        annotate(figure, write_word_labels(axes, _image(member).cloud))
    return figure


def _colour_scales(parts: list[tuple[Axes, Key]]) -> None:
    """Add colour bars: a common one if all runs have the same scale."""
    scales = [key.scale for _, key in parts if key.scale is not None]
    kinds = {(type(scale.norm), scale.get_clim()) for scale in scales}
    labels = {key.label for _, key in parts}
    if len(scales) == len(parts) and len(kinds) == len(labels) == 1:
        colour_bar([axes for axes, _ in parts], scales[0], parts[0][1].label)
        return
    for axes, key in parts:
        _colour_scale(axes, key)


def _colour_scale(axes: Axes, key: Key) -> None:
    colour_scale(axes, key, pad=0.11 if isinstance(axes, Axes3D) else 0.02)


def _draw(figure: Figure, cell: SubplotSpec, member: Cloud) -> tuple[Axes, Key]:
    """Draw one run in one cell of the figure."""
    if isinstance(member.state, Track):
        check_no_colours(member)
    image, is_3d = _image(member), member.dimension == 3
    if member.look.camera is not None and not is_3d:
        raise InvalidInputError(
            "`camera` is for tokens or a Gaussian in three dimensions; this run has "
            f"{member.dimension}. Leave it out."
        )
    axes = figure.add_subplot(cell, projection="3d" if is_3d else None)
    draw = draw_line if member.dimension == 1 else draw_paths
    key = draw(axes, image.cloud, image.labels)
    return axes, key._replace(notes=[image.note, *key.notes])


def _image(member: Cloud) -> Projection:
    """A run in the coordinates of its picture."""
    return projection(member, 3 if member.dimension == 3 else 2)
