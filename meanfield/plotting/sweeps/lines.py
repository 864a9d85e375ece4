"""The panel `lines`: a quantity along one axis of a sweep, averaged over seeds."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, to_hex
from matplotlib.figure import Figure

from meanfield._registry import suggestion
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.bands import spans_decades
from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import colour_bar, entry, legend
from meanfield.plotting._figure.panels import annotate, registered_panel, titled_figure
from meanfield.plotting._figure.style import CYCLE, number_map

from .averages import Average, average
from .cells import (
    LATER,
    SIZES,
    TIME,
    Cells,
    Scale,
    cells_over_time,
    key_label,
    number_label,
    number_shown,
    set_axis,
)

SEED = "seed"
_N_NAMES = len(CYCLE)  # largest number of lines that each have a legend entry
_MARK_SHIFT = 0.08  # shift between the markers of two lines at the same value


class _Lines(NamedTuple):
    """Cells (line, x, seed) of a sweep, with a quantity and the stopping times."""

    cells: Cells
    x: str
    group: str | None
    numbers: np.ndarray
    stops: np.ndarray


@registered_panel("lines")
def lines(dataset: xr.Dataset) -> Figure:
    """A quantity along one axis of a sweep, averaged over seeds.

    The `colour` of the look names the quantity, as in the panel `phase`. Its `x` names
    the axis, by default the first other than the seed; it may be `time` if the sweep
    observed numbers over time. Each value of another axis has
    its own line. A line is the mean over seeds, with a band of its standard error. If
    some values are infinite, because a flow has no blow-up time or no finite size, the
    line is the median, with a band between the quartiles.

    Raises:
        InvalidInputError: if the dataset is not a sweep, has too many axes, or has no
            such quantity or axis.
    """
    is_over_time = look_of(dataset).x == TIME
    dataset = cells_over_time(dataset) if is_over_time else dataset
    name = number_shown(dataset, "lines")
    if name == "ending":
        name = str(next(iter(dataset.data_vars))) if is_over_time else "stop_time"
    parts = _split_lines(dataset, name)
    band, x = average(parts.numbers), parts.cells.scale(parts.x)
    label = number_label(name)
    label = label.removeprefix("final ") if is_over_time else label
    figure = titled_figure(dataset, (6.6, 4.6), label)
    axes = figure.add_subplot()
    finite = band.middle[np.isfinite(band.middle)]
    if spans_decades(finite) and finite.min() > 0:
        axes.set_yscale("log")
    colours = _line_colours(axes, parts)
    # Infinite values are drawn at the upper edge, but blow-up times at the last time.
    ceilings = np.full(parts.stops.shape[:2], np.nan)
    if name == "t_star":
        ceilings = np.fmax.reduce(parts.stops, axis=-1)
    shifts = _MARK_SHIFT * (np.arange(len(colours)) - (len(colours) - 1) / 2)
    for place, (colour, shift) in enumerate(zip(colours, shifts, strict=True)):
        line = Average(band.middle[place], band.low[place], band.high[place], band.note)
        _line(axes, x, line, colour=colour, ceiling=ceilings[place], shift=shift)
    set_axis(axes, "x", x)
    axes.set_ylabel(label)
    axes.grid(visible=True, axis="y")
    annotate(figure, *_notes(parts, name, band))
    return figure


def _split_lines(dataset: xr.Dataset, name: str) -> _Lines:
    """The cells with axes (line, x, seed); missing axes have length one.

    Raises:
        InvalidInputError: if the axis `x` does not exist, or there are too many axes.
    """
    dims = Cells(dataset).axes
    free_dims = [dim for dim in dims if dim != SEED]
    x = look_of(dataset).x or next(iter(free_dims), SEED)
    if x not in dims:
        raise InvalidInputError(f"The sweep has no axis `{x}`; {suggestion(x, dims)}")
    line_dims = [dim for dim in free_dims if dim != x]
    if len(line_dims) > 1:
        sizes = ", ".join(f"{dim}: {dataset.sizes[dim]}" for dim in dims)
        raise InvalidInputError(
            "The panel `lines` takes a sweep with at most two axes other than `seed`; "
            f"got {len(dims)} axes ({sizes}). Select one value of an axis, as in "
            f"`meanfield.open(SWEEP).isel({{'{line_dims[-1]}': 0}})`."
        )
    order = [*line_dims, x, *([SEED] if SEED in dims and x != SEED else [])]
    cells, group = Cells(dataset.transpose(*order, ...)), next(iter(line_dims), None)
    n_lines = 1 if group is None else dataset.sizes[group]
    shape = (n_lines, dataset.sizes[x], -1)
    numbers = _extended_numbers(cells, name).reshape(shape)
    stops = cells.numbers("stop_time").reshape(shape)
    return _Lines(cells, x, group, numbers, stops)


def _extended_numbers(cells: Cells, name: str) -> np.ndarray:
    """The quantity; sizes at a blow-up and blow-up times not reached are infinite."""
    numbers = cells.numbers(name)
    if name == "t_star":
        is_infinite = cells.survivals
    elif name.startswith(SIZES):
        is_infinite = cells.endings == Status.BLOW_UP.ending
    else:
        return numbers
    return np.where(is_infinite & ~np.isfinite(numbers), np.inf, numbers)


def _line(
    axes: Axes,
    x: Scale,
    band: Average,
    *,
    colour: str,
    ceiling: np.ndarray,
    shift: float,
) -> None:
    """Draw a line and its band, with arrows where its middle is infinite.

    Arrows and infinite bounds are drawn at the heights `ceiling`; where these are NaN,
    arrows are drawn at the upper edge.
    """
    middles = np.where(np.isfinite(band.middle), band.middle, np.nan)
    bounds = np.stack([band.low, band.high])
    low, high = np.where(np.isposinf(bounds), ceiling, bounds)
    if x.kind == "list":
        places = x.centres + shift
        axes.vlines(places, low, high, colour, linewidth=1.2)
        axes.plot(places, middles, "o", color=colour, markersize=5)
    else:
        places = x.centres
        axes.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(places, middles, "o-", color=colour, markersize=3)
    later = np.isposinf(band.middle)
    arrow = {"color": colour, "marker": LATER, "linestyle": "", "markersize": 9}
    has_ceiling = later & np.isfinite(ceiling)
    axes.plot(places[has_ceiling], ceiling[has_ceiling], **arrow)
    infinite_places, top = places[later & ~has_ceiling], axes.get_xaxis_transform()
    heights = np.full(infinite_places.size, 0.96)
    axes.plot(infinite_places, heights, transform=top, **arrow)


def _line_colours(axes: Axes, parts: _Lines) -> list[str]:
    """A colour for each line, with a legend, or with a colour bar if there are many.

    Raises:
        InvalidInputError: if there are too many unordered lines for a legend.
    """
    if parts.group is None:
        return [CYCLE[0]]
    scale = parts.cells.scale(parts.group)
    shades = number_map(look_of(parts.cells.dataset))
    labels = scale.labels or [f"{value:.4g}" for value in scale.centres]
    if len(labels) <= _N_NAMES:
        colours: list[str] = [*CYCLE[: len(labels)]]
        if scale.kind != "list":
            places = np.linspace(0, 1, len(labels))
            colours = [to_hex(colour) for colour in shades(places)]
        head = key_label(parts.group)
        handles = [
            entry(f"{head} = {label}", colour)
            for colour, label in zip(colours, labels, strict=True)
        ]
        legend(axes, handles, min(len(handles), 4))
        return colours
    if scale.kind == "list":
        raise InvalidInputError(
            f"A legend can have at most {_N_NAMES} lines; `{parts.group}` has "
            f"{len(labels)} values. Use this axis as `x`."
        )
    norm = LogNorm if scale.kind == "log" else Normalize
    mapping = ScalarMappable(norm(scale.centres.min(), scale.centres.max()), shades)
    colour_bar(axes, mapping, key_label(parts.group), aspect=30)
    return [to_hex(colour) for colour in mapping.to_rgba(scale.centres)]


def _notes(parts: _Lines, name: str, band: Average) -> Iterator[str]:
    first = Cells(parts.cells.dataset.isel({TIME: 0}, missing_dims="ignore"))
    if parts.numbers.shape[-1] > 1:
        yield band.note
    counts = [f"{parts.cells.label(e)} ({count})" for e, count in first.counts.items()]
    yield f"cells: {', '.join(counts)}"
    when = "" if parts.x != TIME else " at some times"
    larger = _count_flows(np.isposinf(parts.numbers), parts.x)
    if larger and name == "t_star":
        yield f"{larger} without a blow-up count as later; arrows: so is the median"
    elif larger:
        yield (
            f"{larger} that blew up count as infinite; arrows: so is the median; no "
            "band where a quartile is"
        )
    missing = _count_flows(np.isnan(parts.numbers), parts.x)
    if missing:
        yield f"{missing} without such a number{when} are left out"


def _count_flows(mask: np.ndarray, x: str) -> int:
    """The number of flows that a mask (line, x, seed) marks, perhaps at some times."""
    return int((mask.any(axis=1) if x == TIME else mask).sum())
