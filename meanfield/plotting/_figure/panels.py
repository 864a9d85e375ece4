"""The registry of panels, and what every figure has: a title, notes, an ending."""

import textwrap
from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._registry import Registry
from meanfield.endings import Status
from meanfield.plotting._runs.data import Ending
from meanfield.plotting._runs.described import described

from .style import GREY

Panel = Callable[[xr.Dataset], Figure]

panels: Registry[Panel] = Registry("panel")
attention_panels: Registry[Panel] = Registry("panel of attention matrices")

_LETTERS = 15  # of the small print in an inch


def attention_panel(name: str) -> Callable[[Panel], Panel]:
    """Registers a panel that draws `attention`, which a dataset then carries.

    Its dims are `snapshot`, `head`, `query` and `token`.
    """

    def add(panel: Panel) -> Panel:
        return panels.register(name)(attention_panels.register(name)(panel))

    return add


def titled_figure(dataset: xr.Dataset, size: tuple[float, float]) -> Figure:
    """An empty figure of `size` inches, with the dataset's title if it has one.

    What was run stands first in the small print, if the dataset says it.
    """
    figure = Figure(figsize=size, layout="constrained")
    title = str(dataset.attrs.get("title") or "")
    if title:
        figure.suptitle(title, parse_math=False)
    annotate(figure, described(dataset))
    return figure


def annotate(figure: Figure, *notes: str) -> None:
    """Add small print under the figure; empty notes are left out."""
    letters = int(_LETTERS * figure.get_figwidth())
    folded = [textwrap.wrap(note, letters, break_on_hyphens=False) for note in notes]
    lines = [line for note in folded for line in note]
    if lines:
        text = "\n".join([*filter(None, [figure.get_supxlabel()]), *lines])
        figure.supxlabel(text, color=GREY, fontsize=8.5, linespacing=1.35)


def ending_note(ending: Ending) -> str:
    """How a run ended, in words: `ended: blow-up, t* = 1.32 ± 0.01`."""
    if np.isfinite(ending.t_star):
        error = ending.t_star_error
        bar = f" ± {error:.2g}" if np.isfinite(error) else ""
        return f"ended: {ending.status}, t* = {ending.t_star:.5g}{bar}"
    at = f" at t = {ending.stop_time:.4g}" if np.isfinite(ending.stop_time) else ""
    return f"ended: {ending.status}{at}"


def mark_blow_up(axes: Axes, ending: Ending) -> None:
    """Draw a dotted line at the blow-up time of a run, if it is not far away."""
    low, high = axes.get_xlim()
    if low <= ending.t_star <= high + (high - low) / 2:
        axes.set_xlim(low, max(high, ending.t_star + 0.03 * (high - low)))
        colour = Status.BLOW_UP.row.colour
        axes.axvline(ending.t_star, color=colour, linestyle=":", linewidth=1.2)
        axes.annotate(
            "$t^*$",
            (ending.t_star, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-3, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            color=colour,
        )
