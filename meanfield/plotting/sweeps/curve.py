"""A quantity of a sweep with one axis, as a curve whose markers show the endings."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.endings import Status
from meanfield.plotting._figure.bands import spans_decades
from meanfield.plotting._figure.marks import legend
from meanfield.plotting._figure.panels import annotate, titled_figure
from meanfield.plotting._figure.style import GREY

from .cells import LATER, Cells, number_label, set_axis

# Arrows mark flows without a blow-up, at the time up to which they were integrated.
_MARK = {"linestyle": "", "markersize": 5}
_ARROW = {"marker": LATER, "markersize": 9}


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
