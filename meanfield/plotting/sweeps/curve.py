"""A number of the cells of a sweep with one axis, in marks that tell the ending."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.endings import Status
from meanfield.plotting._figure.bands import spans_decades
from meanfield.plotting._figure.marks import legend
from meanfield.plotting._figure.panels import annotate, titled_figure
from meanfield.plotting._figure.style import GREY

from .cells import (
    LATER,
    counts_of,
    ending_label,
    endings_of,
    number_label,
    numbers_of,
    scale_of,
    set_axis,
    survivals_of,
)

# Of a flow without a blow-up, at the time to which it was followed.
_ARROW = {"marker": LATER, "markersize": 9}


def curve(dataset: xr.Dataset, name: str) -> Figure:
    """A number along one axis, in marks that tell the ending."""
    name = "stop_time" if name == "ending" else name
    figure = titled_figure(dataset, (6.6, 4.4))
    axes = figure.add_subplot()
    x = scale_of(dataset, str(dataset["ending"].dims[0]))
    endings, numbers = endings_of(dataset), numbers_of(dataset, name)
    if spans_decades(numbers) and np.nanmin(numbers) > 0:
        axes.set_yscale("log")
    if x.kind != "list":
        axes.plot(x.centres, numbers, color=GREY, linewidth=1)
    handles = []
    for ending, count in counts_of(endings).items():
        look = _mark(ending)
        mask = endings == ending
        axes.plot(x.centres[mask], numbers[mask], **look)
        missing = mask & ~np.isfinite(numbers)
        if name == "t_star" and Status.named(ending).row.survives:
            stops = numbers_of(dataset, "stop_time")[missing]
            axes.plot(x.centres[missing], stops, **look | _ARROW)
            look |= _ARROW
        else:
            low, foot = axes.get_xaxis_transform(), np.full(missing.sum(), 0.03)
            axes.plot(x.centres[missing], foot, transform=low, alpha=0.5, **look)
        label = f"{ending_label(dataset, ending)} ({count})"
        handles.append(Line2D([], [], label=label, **look))
    set_axis(axes, "x", x)
    axes.set_ylabel(number_label(name))
    axes.grid(visible=True, axis="y")
    legend(axes, handles, min(len(handles), 4))
    annotate(figure, *_curve_notes(dataset, name))
    return figure


def _curve_notes(dataset: xr.Dataset, name: str) -> Iterator[str]:
    missing = np.isnan(numbers_of(dataset, name))
    censored = missing & survivals_of(dataset) & (name == "t_star")
    if np.any(censored):
        yield "arrows: no blow-up before this time, later perhaps, or never"
    if np.any(missing & ~censored):
        yield "pale marks at the foot: no such number"


def _mark(ending: str) -> dict[str, Any]:
    row = Status.named(ending).row
    look = {"color": row.colour, "marker": row.marker}
    return {**look, "linestyle": "", "markersize": 5}
