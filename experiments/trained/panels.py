"""Panels for comparisons of trained networks."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.trained.comparison import WITHDRAWN
from meanfield.plotting import style
from meanfield.reproduce import Findings

PALETTE = "#4477aa", "#cc6677", "#228833", "#ccbb44", "#aa3377", "#66ccee"
LINEAR_BELOW = 1e-3  # the axis of column errors is linear up to this value
SPREAD = 0.66  # total width of the points of one condition; conditions are 1 apart


class Axis(NamedTuple):
    """Labels of the axes for conditions, scores and paired differences."""

    conditions: str
    scores: str
    gains: str


def colours(names: Any) -> dict[str, str]:
    """Colour of each variant, which is the same in all panels."""
    return dict(zip(names, PALETTE, strict=False))


Panel = Callable[[Axes, xr.Dataset, Axis], None]


def make_draw(axis: Axis, *panels: Panel) -> Callable[[Findings], Figure]:
    """Function that draws scores, paired differences and other panels of a campaign."""

    @style()
    def draw(findings: Findings) -> Figure:
        data, n = findings.data["networks"], 2 + len(panels)
        figure = Figure(figsize=(3.0 + 3.0 * n, 4.0), layout="constrained")
        first, second, *others = figure.subplots(1, n)
        _scores(first, data, axis)
        _gains(second, findings.numbers["verdicts"], axis)
        for axes, panel in zip(others, panels, strict=True):
            panel(axes, data, axis)
        return figure

    return draw


def _scores(axes: Axes, data: xr.Dataset, axis: Axis) -> None:
    """Draws a point for each network, and a bar at the median."""
    names = list(data["variant"].values)
    for i, (name, colour) in enumerate(colours(names).items()):
        values = data["score"].sel(variant=name).values
        for position, seeds in enumerate(values):
            x = position + _offset(i, len(names))
            jitter = np.linspace(-0.05, 0.05, len(seeds))
            axes.plot(x + jitter, seeds, ".", color=colour, alpha=0.6)
            median = np.median(seeds)
            axes.plot([x - 0.08, x + 0.08], [median, median], color=colour)
        axes.plot([], [], ".", color=colour, label=name)
    _conditions(axes, list(data["condition"].values), axis)
    axes.set_ylabel(axis.scores)
    axes.legend()


def _gains(axes: Axes, verdicts: Mapping[str, Any], axis: Axis) -> None:
    """Draws the mean paired difference of each claim with its 95 % interval."""
    for i, (claim, outcomes) in enumerate(verdicts.items()):
        colour = PALETTE[(i + 1) % len(PALETTE)]
        for position, outcome in enumerate(outcomes.values()):
            x = position + _offset(i, len(verdicts))
            is_withdrawn = outcome["conclusion"] == WITHDRAWN
            width, fill = (1, "white") if is_withdrawn else (3, colour)
            axes.plot([x, x], outcome["interval"], color=colour, linewidth=width)
            axes.plot(x, outcome["mean"], "o", color=colour, markerfacecolor=fill)
        fill = "white" if _has_withdrawn(outcomes) else colour
        axes.plot([], [], "o", color=colour, markerfacecolor=fill, label=claim)
    if any(map(_has_withdrawn, verdicts.values())):
        axes.set_title(f"hollow: {WITHDRAWN}", size="medium")
    axes.axhline(0, color="0.5", linewidth=1)
    _conditions(axes, list(next(iter(verdicts.values()))), axis)
    axes.set_ylabel(axis.gains)
    axes.legend()


def _has_withdrawn(outcomes: Mapping[str, Any]) -> bool:
    return any(outcome["conclusion"] == WITHDRAWN for outcome in outcomes.values())


def draw_column_errors(axes: Axes, data: xr.Dataset, axis: Axis) -> None:
    """Draws column errors under the last condition: median and quartiles over seeds."""
    last = data["rms"].isel(condition=-1)
    for name, colour in colours(data["variant"].values).items():
        curves = last.sel(variant=name).values
        epochs = data["epoch"].values
        low, median, high = np.quantile(curves, (0.25, 0.5, 0.75), axis=0)
        axes.plot(epochs, median, color=colour, label=name)
        axes.fill_between(epochs, low, high, color=colour, alpha=0.2)
    axes.set_yscale("symlog", linthresh=LINEAR_BELOW)
    axes.set_ylim(0, None)
    axes.set_xlabel("epoch")
    condition = str(data["condition"].values[-1])
    axes.set_ylabel(f"rms of column sums - 1 ({axis.conditions}: {condition})")


def draw_by_length(axes: Axes, data: xr.Dataset, axis: Axis) -> None:
    """Draws the accuracy at each length of the sequence, over all seeds."""
    del axis
    for name, colour in colours(data["variant"].values).items():
        axes.plot(data["length"], data["accuracy"].sel(variant=name), "-", color=colour)
    axes.set_ylim(-3, 103)
    axes.set_xlabel("length of the sequence")
    axes.set_ylabel("exact match, %")


def _offset(i: int, n: int) -> float:
    """Horizontal offset of the i-th of `n` variants from the tick of its condition."""
    return SPREAD * ((i + 0.5) / n - 0.5)


def _conditions(axes: Axes, names: list[str], axis: Axis) -> None:
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xlabel(axis.conditions)
