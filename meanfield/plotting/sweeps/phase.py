"""The panel `phase`: endings of the cells of a sweep, coloured by a quantity."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.bands import spans_decades
from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import colour_bar, legend, legend_columns
from meanfield.plotting._figure.panels import annotate, registered_panel, titled_figure
from meanfield.plotting._figure.style import GREY, INK, number_map, paper

from .cells import (
    LATER,
    SIZES,
    Cells,
    key_label,
    number_label,
    number_shown,
    set_axis,
    short,
)

_PANELS = 9  # largest number of maps in one figure
_TINT = 0.25  # share of the ending's colour in the tint of cells without a value
# Arrows mark flows without a blow-up, at the time up to which they were integrated.
_MARK = {"linestyle": "", "markersize": 5}
_ARROW = {"marker": LATER, "markersize": 9}


@registered_panel("phase")
def phase(dataset: xr.Dataset) -> Figure:
    """Phase diagram of a sweep: the ending of each cell, coloured by a quantity.

    The `colour` of the look names the quantity; by default it is the blow-up time if
    there is one, else the effective rank, else the trace. With `ending`, only endings
    are drawn. Cells without the quantity have a pale shade and the hatching of their
    ending; the other cells are hatched only if their endings differ. A third axis with
    up to nine values gives a map for each value; a single axis gives a curve.

    Raises:
        InvalidInputError: if the dataset is not a sweep, has too many axes, or has no
            such quantity.
    """
    name = number_shown(dataset, "phase")
    if dataset["ending"].ndim == 1:
        return curve(dataset, name)
    return _maps(dataset, name)


def _maps(dataset: xr.Dataset, name: str) -> Figure:
    """Draw a map for each value of a third axis, if any, with a common colour scale."""
    layers = list(_layers(dataset))
    n_columns = look_of(dataset).columns(math.ceil(math.sqrt(len(layers))))
    n_rows = math.ceil(len(layers) / n_columns)
    figure = _empty_figure(dataset, n_rows, n_columns)
    grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    cells = Cells(dataset)
    mapping, hatches = _mapping(cells, name), _hatch_names(cells, name)
    for axes in grid.flat[len(layers) :]:
        axes.set_axis_off()
    for index, (label, layer) in enumerate(layers):
        axes = grid.flat[index]
        _map(axes, Cells(layer), name, mapping=mapping, hatches=hatches)
        axes.set_title(label)
        if index % n_columns > 0:
            axes.set_ylabel("")
        if index + n_columns < len(layers):
            axes.set_xlabel("")
        else:
            axes.tick_params(labelbottom=True)
    if mapping is not None:
        colour_bar(list(grid.flat), mapping, number_label(name), aspect=30)
    _explain(figure, dataset, _patches(cells, name))
    annotate(figure, *_notes(cells, name))
    return figure


def _empty_figure(dataset: xr.Dataset, n_rows: int, n_columns: int) -> Figure:
    """An empty figure for the maps; the legend of several maps contains the title."""
    if dataset["ending"].ndim == 2:
        return titled_figure(dataset, (6.6, 5.6))
    size = (1.4 + 3 * n_columns, 1.6 + 2.7 * n_rows)
    return titled_figure(dataset.assign_attrs(title=""), size)


def _explain(figure: Figure, dataset: xr.Dataset, handles: list[Artist]) -> None:
    """Add a legend above the only map, or one legend above all maps."""
    if dataset["ending"].ndim == 2:
        legend(figure.axes[0], handles, min(len(handles), 4))
        return
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=legend_columns(figure.axes[0], handles, min(len(handles), 4)),
        title=str(dataset.attrs.get("title") or ""),
        title_fontsize="x-large",
    )


def _layers(dataset: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """Pairs of a title and a two-dimensional slice of a sweep.

    Raises:
        InvalidInputError: if there are too many axes; the message names one to remove.
    """
    dims = Cells(dataset).axes
    if len(dims) == 2:
        yield "", dataset
        return
    shortest = min(dims, key=lambda dim: dataset.sizes[dim])
    if len(dims) > 3 or dataset.sizes[shortest] > _PANELS:
        sizes = ", ".join(f"{dim}: {dataset.sizes[dim]}" for dim in dims)
        raise InvalidInputError(
            f"The panel `phase` takes 2 axes, or 3 if one has up to {_PANELS} values; "
            f"got {len(dims)} axes ({sizes}). Sweep without `{shortest}`, or select "
            f"one of its values with `meanfield.open(SWEEP).isel({{'{shortest}': 0}})`."
        )
    for index in range(dataset.sizes[shortest]):
        part = dataset.isel({shortest: index})
        yield f"{key_label(shortest)} = {short(part[shortest].item())}", part


def _hatch_names(cells: Cells, name: str) -> set[str]:
    """The endings of cells that have the quantity; empty if all endings agree."""
    names = cells.endings[np.isfinite(cells.numbers(name))]
    endings = set(names.tolist())
    return endings if len(endings) > 1 else set()


def _map(
    axes: Axes,
    cells: Cells,
    name: str,
    *,
    mapping: ScalarMappable | None,
    hatches: set[str],
) -> None:
    """Draw coloured cells and borders between endings.

    Endings in `hatches` are also hatched in cells that have the quantity.
    """
    x, y = map(cells.scale, cells.axes)
    endings, numbers = cells.endings, cells.numbers(name)
    bare = np.isnan(numbers)
    for ending in np.unique(endings):
        mask = endings == ending
        region, face = _outline(x.edges, y.edges, mask & bare), _face(str(ending), name)
        axes.add_patch(PathPatch(region, facecolor=face, edgecolor="none"))
        _hatch(axes, region, str(ending), INK)
        if ending in hatches:
            _hatch(axes, _outline(x.edges, y.edges, mask & ~bare), str(ending), "white")
    if mapping is not None:
        colours = np.ma.masked_invalid(numbers.T)
        mesh = axes.pcolormesh(
            x.edges, y.edges, colours, cmap=mapping.cmap, rasterized=True
        )
        mesh.set_norm(mapping.norm)
    borders = list(_borders(x.edges, y.edges, endings))
    axes.add_collection(LineCollection(borders, colors=INK, linewidths=1.1, zorder=4))
    set_axis(axes, "x", x)
    set_axis(axes, "y", y)


def _hatch(axes: Axes, region: Path, ending: str, colour: str) -> None:
    marks = PathPatch(region, facecolor="none", edgecolor=colour, linewidth=0)
    marks.set(hatch=Status.from_name(ending).row.hatch, alpha=0.5, zorder=3)
    axes.add_patch(marks)


def _mapping(cells: Cells, name: str) -> ScalarMappable | None:
    """The colour scale of the quantity; None if no cell has it."""
    numbers = cells.numbers(name)
    finite = numbers[np.isfinite(numbers)]
    if finite.size == 0:
        return None
    log = spans_decades(finite) and finite.min() > 0
    norm = (LogNorm if log else Normalize)(finite.min(), finite.max())
    return ScalarMappable(norm, number_map(look_of(cells.dataset)))


def _patches(cells: Cells, name: str) -> list[Artist]:
    """Legend entries of the endings, drawn like their cells, with counts."""
    endings, numbers = cells.endings, cells.numbers(name)
    hatches, middle = _hatch_names(cells, name), number_map(look_of(cells.dataset))(0.5)
    patches: list[Artist] = []
    for ending, count in cells.counts.items():
        bare = np.isnan(numbers[endings == ending]).any()
        face = _face(ending, name) if bare else middle
        label = f"{cells.label(ending)} ({count})"
        patch = Patch(facecolor=face, edgecolor=INK, linewidth=0.7, label=label)
        if bare or ending in hatches:
            patch.set_hatch(Status.from_name(ending).row.hatch)
        patches.append(patch)
    return patches


def _notes(cells: Cells, name: str) -> tuple[str, ...]:
    infinite = name.startswith(SIZES) and Status.BLOW_UP.ending in cells.endings
    bare = np.isnan(cells.numbers(name)) & (name != "ending")
    if name == "t_star":
        bare &= ~cells.survivals  # the legend explains cells without a blow-up
    label = number_label(name)
    return (
        f"pale cells have no {label}" if bare.any() and not infinite else "",
        f"pale cells blow up: {label} is infinite" if infinite else "",
    )


def _face(ending: str, name: str) -> tuple[float, float, float]:
    """The colour of cells without the quantity: pale, unless only endings are drawn."""
    share = 0.75 if name == "ending" else _TINT
    full, blank = to_rgb(Status.from_name(ending).row.colour), paper()
    red, green, blue = (p - share * (p - c) for p, c in zip(blank, full, strict=True))
    return red, green, blue


def _outline(x: np.ndarray, y: np.ndarray, mask: np.ndarray) -> Path:
    """One path around all cells in `mask`, so that hatching is continuous."""
    i, j = np.nonzero(mask)
    left, right, low, high = x[i], x[i + 1], y[j], y[j + 1]
    corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
    points = np.moveaxis(np.array(corners), -1, 0).reshape(-1, 2)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(points, codes * len(i))


def _borders(x: np.ndarray, y: np.ndarray, endings: np.ndarray) -> Iterator[list]:
    """The edges between cells of different endings."""
    for i, j in np.argwhere(endings[1:] != endings[:-1]):
        yield [(x[i + 1], y[j]), (x[i + 1], y[j + 1])]
    for i, j in np.argwhere(endings[:, 1:] != endings[:, :-1]):
        yield [(x[i], y[j + 1]), (x[i + 1], y[j + 1])]


def curve(dataset: xr.Dataset, name: str) -> Figure:
    """Draw a quantity along the only axis of a sweep; markers show the endings."""
    name = "stop_time" if name == "ending" else name
    figure = titled_figure(dataset, (6.6, 4.4))
    axes, cells = figure.add_subplot(), Cells(dataset)
    x, numbers = cells.scale(cells.axes[0]), cells.numbers(name)
    if spans_decades(numbers) and np.nanmin(numbers) > 0:
        axes.set_yscale("log")
    if x.kind != "list":
        axes.plot(x.centres, numbers, color=GREY, linewidth=1)
    handles = [_draw_ending(axes, cells, name, ending) for ending in cells.counts]
    set_axis(axes, "x", x)
    axes.set_ylabel(number_label(name))
    axes.grid(visible=True, axis="y")
    legend(axes, handles, min(len(handles), 4))
    annotate(figure, *_curve_notes(cells, name))
    return figure


def _draw_ending(axes: Axes, cells: Cells, name: str, ending: str) -> Line2D:
    """Draw the markers of the cells with this ending; return their legend entry."""
    row, mask = Status.from_name(ending).row, cells.endings == ending
    look: dict[str, Any] = {**_MARK, "color": row.colour, "marker": row.marker}
    numbers, centres = cells.numbers(name), cells.scale(cells.axes[0]).centres
    axes.plot(centres[mask], numbers[mask], **look)
    missing = mask & ~np.isfinite(numbers)
    if name == "t_star" and row.survives:
        look |= _ARROW
        axes.plot(centres[missing], cells.numbers("stop_time")[missing], **look)
    else:
        low, foot = axes.get_xaxis_transform(), np.full(missing.sum(), 0.03)
        axes.plot(centres[missing], foot, transform=low, alpha=0.5, **look)
    label = f"{cells.label(ending)} ({mask.sum()})"
    return Line2D([], [], label=label, **look)


def _curve_notes(cells: Cells, name: str) -> Iterator[str]:
    missing = np.isnan(cells.numbers(name))
    is_censored = missing & cells.survivals & (name == "t_star")
    if np.any(is_censored):
        yield "arrows: no blow-up before this time, later perhaps, or never"
    if np.any(missing & ~is_censored):
        yield "pale marks at the foot: no such number"
