"""Panels for comparisons of trained networks."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.attention_styles import attention_styles
from experiments.trained.verdicts import EARNED
from meanfield.plotting import style
from meanfield.reproduce import Findings

INK = "#222222"  # differences never have the colour of an attention
CLAIM_MARKERS = "osD^vP"
LINEAR_BELOW = 1e-3  # the axis of column errors is linear up to this value
SPREAD = 0.66  # total width of the points of one condition; conditions are 1 apart


class Axis(NamedTuple):
    """Title of the figure, and labels for conditions, scores and paired differences."""

    title: str
    conditions: str
    scores: str
    gains: str


Panel = Callable[[Axes, xr.Dataset, Axis], None]


def make_draw(axis: Axis, *panels: Panel) -> Callable[[Findings], Figure]:
    """Function that draws scores, paired differences and other panels of a campaign."""

    @style()
    def draw(findings: Findings) -> Figure:
        data, n = findings.data["networks"], 2 + len(panels)
        figure = Figure(figsize=(3.0 + 3.0 * n, 4.6), layout="constrained")
        figure.suptitle(axis.title)
        first, second, *others = figure.subplots(1, n)
        _scores(first, data, axis)
        _gains(second, findings.numbers["verdicts"], axis)
        for axes, panel in zip(others, panels, strict=True):
            panel(axes, data, axis)
        return figure

    return draw


def _scores(axes: Axes, data: xr.Dataset, axis: Axis) -> None:
    """Draws a point for each network, and a bar at the median."""
    styles = attention_styles(map(str, data["variant"].values))
    for i, (name, look) in enumerate(styles.items()):
        values = data["score"].sel(variant=name).values
        for position, seeds in enumerate(values):
            x = position + _offset(i, len(styles))
            jitter = np.linspace(-0.05, 0.05, len(seeds))
            axes.plot(x + jitter, seeds, markersize=4, alpha=0.6, **look.points)
            median = np.median(seeds)
            axes.plot([x - 0.08, x + 0.08], [median, median], color=look.colour)
        axes.plot([], [], label=look.label, **look.points)
    _conditions(axes, list(data["condition"].values), axis)
    axes.set_ylabel(axis.scores)
    _set_legend(axes)


def _gains(axes: Axes, verdicts: Mapping[str, Any], axis: Axis) -> None:
    """Draws the mean paired difference of each claim with its 95 % interval."""
    for i, (claim, outcomes) in enumerate(verdicts.items()):
        for position, outcome in enumerate(outcomes.values()):
            x = position + _offset(i, len(verdicts))
            fill = INK if outcome["conclusion"] in EARNED else "white"
            axes.plot([x, x], outcome["interval"], color=INK, linewidth=1.5)
            axes.plot(
                x, outcome["mean"], CLAIM_MARKERS[i], color=INK, markerfacecolor=fill
            )
        axes.plot([], [], CLAIM_MARKERS[i], color=INK, label=claim)
    words = [o["conclusion"] for row in verdicts.values() for o in row.values()]
    if not set(words) <= {*EARNED}:
        axes.set_title("hollow: no verdict", size="medium")
    axes.axhline(0, color="0.5", linewidth=1)
    _conditions(axes, list(next(iter(verdicts.values()))), axis)
    axes.set_ylabel(axis.gains)
    _set_legend(axes)


def draw_column_errors(axes: Axes, data: xr.Dataset, axis: Axis) -> None:
    """Draws column errors under the last condition: median and quartiles over seeds."""
    last = data["rms"].isel(condition=-1)
    for name, look in attention_styles(map(str, data["variant"].values)).items():
        curves = last.sel(variant=name).values
        epochs = data["epoch"].values
        low, median, high = np.quantile(curves, (0.25, 0.5, 0.75), axis=0)
        axes.plot(epochs, median, color=look.colour, label=look.label)
        axes.fill_between(epochs, low, high, color=look.colour, alpha=0.2)
    axes.set_yscale("symlog", linthresh=LINEAR_BELOW)
    axes.set_ylim(0, None)
    axes.set_xlabel("epoch")
    axes.set_ylabel("rms of column sums - 1")
    _set_condition_title(axes, data, axis)


def draw_perplexities(axes: Axes, data: xr.Dataset, axis: Axis) -> None:
    """Draws scores under the last condition by the perplexity of rows after training.

    The perplexity is divided by the number of keys.
    """
    last = data.isel(condition=-1)
    ends = last["relative_perplexity"].isel(epoch=-1)
    for name, look in attention_styles(map(str, data["variant"].values)).items():
        scores = last["score"].sel(variant=name)
        axes.plot(ends.sel(variant=name), scores, markersize=4, **look.points)
    axes.set_xlim(0, 1.05)
    axes.set_xlabel("relative perplexity of rows (1: uniform)")
    axes.set_ylabel(axis.scores)
    _set_condition_title(axes, data, axis)


def draw_by_length(axes: Axes, data: xr.Dataset, axis: Axis) -> None:
    """Draws the accuracy at each length of the sequence, over all seeds."""
    del axis
    for name, look in attention_styles(map(str, data["variant"].values)).items():
        accuracies = data["accuracy"].sel(variant=name)
        axes.plot(data["length"], accuracies, "-", color=look.colour)
    axes.set_ylim(-3, 103)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("length of the sequence")
    axes.set_ylabel("exact match, %")


def _set_condition_title(axes: Axes, data: xr.Dataset, axis: Axis) -> None:
    condition = str(data["condition"].values[-1])
    axes.set_title(f"{axis.conditions}: {condition}", size="medium")


def _offset(i: int, n: int) -> float:
    """Horizontal offset of the i-th of `n` variants from the tick of its condition."""
    return SPREAD * ((i + 0.5) / n - 0.5)


def _conditions(axes: Axes, names: list[str], axis: Axis) -> None:
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xlabel(axis.conditions)


def _set_legend(axes: Axes) -> None:
    """Adds a legend below the axes, where it covers nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize=8)
