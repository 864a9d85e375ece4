"""Lines of a sweep: a number along one axis, over seeds, for values of another."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield._registry import suggestion
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.bands import spans_decades
from meanfield.plotting._figure.look import look_of, options_for
from meanfield.plotting._figure.marks import colour_bar, legend
from meanfield.plotting._figure.panels import annotate, panel, panels, titled_figure
from meanfield.plotting._figure.style import CYCLE, number_map

from .averages import Average, average
from .cells import (
    LATER,
    SIZES,
    Scale,
    counts_of,
    ending_label,
    endings_of,
    key_label,
    number_label,
    number_shown,
    numbers_of,
    scale_of,
    set_axis,
    survivals_of,
)

SEED = "seed"
_NAMED = len(CYCLE)  # lines that get a name each
_APART = 0.08  # between the marks of two lines at one word, in words


class _Lines(NamedTuple):
    """The cells, of dims (line, x, seed): what is shown, and where they stopped."""

    cells: xr.Dataset
    x: str
    by: str | None
    numbers: np.ndarray
    stops: np.ndarray


class _Look(NamedTuple):
    """The colour of a line, what bounds it from above, its shift between words."""

    colour: str
    ceiling: np.ndarray
    shift: float


@panels.register("lines")
@panel(*options_for("lines"))
def lines(dataset: xr.Dataset) -> Figure:
    """A number of a sweep along one axis, over its seeds, a line for each value.

    The `colour` of the look names the number, as in the panel `phase`, and `x` the
    axis, by default the first that is no seed. The values of another axis have a line
    each. A line is the mean over seeds in a band of its standard error; if a flow has
    no blow-up time, or no finite size, its number is larger than any, and the line is
    the median in a band of quartiles.

    Raises:
        InvalidInputError: if the dataset is no sweep, has too many axes, or has no such
            number or axis.
    """
    name = number_shown(dataset, "lines")
    name = "stop_time" if name == "ending" else name
    parts = _parted(dataset, name)
    over, x = average(parts.numbers), scale_of(parts.cells, parts.x)
    figure = titled_figure(dataset, (6.6, 4.6))
    axes = figure.add_subplot()
    finite = over.middle[np.isfinite(over.middle)]
    if spans_decades(finite) and finite.min() > 0:
        axes.set_yscale("log")
    colours = _coloured(axes, parts)
    ceiling = _ceiling(parts, name)
    shifts = _APART * (np.arange(len(colours)) - (len(colours) - 1) / 2)
    for place, colour in enumerate(colours):
        line = Average(over.middle[place], over.low[place], over.high[place], over.note)
        _line(axes, x, line, _Look(colour, ceiling[place], shifts[place]))
    set_axis(axes, "x", x)
    axes.set_ylabel(number_label(name))
    axes.grid(visible=True, axis="y")
    annotate(figure, *_notes(parts, name, over))
    return figure


def _parted(dataset: xr.Dataset, name: str) -> _Lines:
    """The cells with a line first, then x, then seeds, each of length one if absent.

    Raises:
        InvalidInputError: if there is no such axis, or there are too many.
    """
    dims = [str(dim) for dim in dataset["ending"].dims]
    others = [dim for dim in dims if dim != SEED]
    x = look_of(dataset).x or next(iter(others), SEED)
    if x not in dims:
        raise InvalidInputError(f"The sweep has no axis `{x}`; {suggestion(x, dims)}")
    by = [dim for dim in others if dim != x]
    if len(by) > 1:
        sizes = ", ".join(f"{dim}: {dataset.sizes[dim]}" for dim in dims)
        raise InvalidInputError(
            "Lines go along one axis, over seeds, and there is one for each value of "
            f"another; this sweep has {len(dims)} axes ({sizes}): fix one, in Python "
            f"by `meanfield.open(SWEEP).isel({{'{by[-1]}': 0}})`."
        )
    order = [*by, x, *([SEED] if SEED in dims and x != SEED else [])]
    cells = dataset.transpose(*order, ...)
    shape = (
        dataset.sizes[by[0]] if by else 1,
        dataset.sizes[x],
        dataset.sizes[SEED] if SEED in order[1:] and x != SEED else 1,
    )
    numbers = _with_larger(cells, name).reshape(shape)
    stops = numbers_of(cells, "stop_time").reshape(shape)
    return _Lines(cells, x, by[0] if by else None, numbers, stops)


def _with_larger(cells: xr.Dataset, name: str) -> np.ndarray:
    """The numbers, infinite where a flow outlived its time, or has grown beyond all."""
    numbers = numbers_of(cells, name)
    if name == "t_star":
        beyond = survivals_of(cells)
    elif name.startswith(SIZES):
        beyond = endings_of(cells) == Status.BLOW_UP.ending
    else:
        return numbers
    return np.where(beyond & ~np.isfinite(numbers), np.inf, numbers)


def _ceiling(parts: _Lines, name: str) -> np.ndarray:
    """Where what is larger begins, for each line and x; NaN if that is nowhere."""
    if name == "t_star":
        return np.fmax.reduce(parts.stops, axis=-1)
    return np.full(parts.stops.shape[:2], np.nan)


def _line(axes: Axes, x: Scale, over: Average, look: _Look) -> None:
    """One line and its band, with arrows where its middle is larger than any number."""

    def bound(part: np.ndarray) -> np.ndarray:
        return np.where(np.isposinf(part), look.ceiling, part)

    shown = np.where(np.isfinite(over.middle), over.middle, np.nan)
    low, high = bound(over.low), bound(over.high)
    if x.kind == "list":
        places = x.centres + look.shift
        axes.vlines(places, low, high, look.colour, linewidth=1.2)
        axes.plot(places, shown, "o", color=look.colour, markersize=5)
    else:
        places = x.centres
        axes.fill_between(places, low, high, color=look.colour, alpha=0.2, linewidth=0)
        axes.plot(places, shown, "o-", color=look.colour, markersize=3)
    later = np.isposinf(over.middle)
    arrow = {"color": look.colour, "marker": LATER, "linestyle": "", "markersize": 9}
    timed = later & np.isfinite(look.ceiling)
    axes.plot(places[timed], look.ceiling[timed], **arrow)
    sized, top = places[later & ~timed], axes.get_xaxis_transform()
    axes.plot(sized, np.full(sized.size, 0.96), transform=top, **arrow)


def _coloured(axes: Axes, parts: _Lines) -> list[str]:
    """A colour for each line, in a legend, or on a scale if they are many.

    Raises:
        InvalidInputError: if many lines have no order.
    """
    if parts.by is None:
        return [CYCLE[0]]
    scale = scale_of(parts.cells, parts.by)
    shades = number_map(look_of(parts.cells))
    labels = scale.labels or [f"{value:.4g}" for value in scale.centres]
    if len(labels) <= _NAMED:
        colours: list[str] = [*CYCLE[: len(labels)]]
        if scale.kind != "list":
            places = np.linspace(0, 1, len(labels))
            colours = [to_hex(colour) for colour in shades(places)]
        head = key_label(parts.by)
        handles = [
            Line2D([], [], color=colour, label=f"{head} = {label}")
            for colour, label in zip(colours, labels, strict=True)
        ]
        legend(axes, handles, min(len(handles), 4))
        return colours
    if scale.kind == "list":
        raise InvalidInputError(
            f"Up to {_NAMED} lines can be told apart by their names, and `{parts.by}` "
            f"has {len(labels)} values: choose it as `x`."
        )
    norm = (LogNorm if scale.kind == "log" else Normalize)(
        scale.centres.min(), scale.centres.max()
    )
    mapping = ScalarMappable(norm, shades)
    colour_bar(axes, mapping, key_label(parts.by), aspect=30)
    return [to_hex(colour) for colour in mapping.to_rgba(scale.centres)]


def _notes(parts: _Lines, name: str, over: Average) -> Iterator[str]:
    endings = endings_of(parts.cells)
    if parts.numbers.shape[-1] > 1:
        yield over.note
    counts = counts_of(endings)
    yield "cells: " + ", ".join(
        f"{ending_label(parts.cells, ending)} ({count})"
        for ending, count in counts.items()
    )
    larger = int(np.isposinf(parts.numbers).sum())
    if larger and name == "t_star":
        yield f"{larger} without a blow-up count as later; arrows: so is the median"
    elif larger:
        yield (
            f"{larger} that blew up count as infinite; arrows: so is the median; no "
            "band where a quartile is"
        )
    missing = int(np.isnan(parts.numbers).sum())
    if missing:
        yield f"{missing} without such a number are left out"
