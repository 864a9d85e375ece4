"""Pictures of networks that were trained seed by seed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield.plotting import style
from meanfield.reproduce import Findings

COLOURS = {"softmax": "#4477aa", "Sinkhorn": "#cc6677", "sliced": "#228833"}
NEXT_TO_NOTHING = 1e-3  # below, the axis of columns is linear
APART = 0.22  # between variants of one patch, in units of the places of patches


@style()
def draw(findings: Findings) -> Figure:
    """Accuracies of all seeds by patch, paired differences, columns over epochs."""
    data = findings.data["networks"]
    figure = Figure(figsize=(12.0, 4.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _accuracies(left, data)
    _differences(middle, data, findings.numbers)
    _columns(right, data)
    return figure


def _accuracies(axes: Axes, data: xr.Dataset) -> None:
    """A point for each network, and a bar at the median."""
    for i, name in enumerate(data["variant"].values):
        values = data["accuracy"].sel(variant=name).values
        for place, seeds in enumerate(values):
            x = place + APART * (i - (len(data["variant"]) - 1) / 2)
            jitter = np.linspace(-0.06, 0.06, len(seeds))
            axes.plot(x + jitter, seeds, ".", color=COLOURS[name], alpha=0.6)
            median = np.median(seeds)
            axes.plot([x - 0.09, x + 0.09], [median, median], color=COLOURS[name])
        axes.plot([], [], ".", color=COLOURS[name], label=name)
    _patches(axes, data)
    axes.set_ylabel("test accuracy, %")
    axes.legend(loc="lower left")


def _differences(axes: Axes, data: xr.Dataset, numbers: Mapping[str, Any]) -> None:
    """Each variant less softmax on the same seed, and the interval of the mean."""
    plain = data["accuracy"].isel(variant=0)
    names = data["variant"].values[1:]
    for i, name in enumerate(names):
        gaps = (data["accuracy"].sel(variant=name) - plain).values
        for place, patch in enumerate(data["patch"].values):
            x = place + APART * (i - (len(names) - 1) / 2)
            found = numbers["verdicts"][name][str(patch)]
            low, high = found["interval"]
            axes.plot(
                np.full(gaps[place].shape, x - 0.05),
                gaps[place],
                ".",
                color=COLOURS[name],
                alpha=0.5,
            )
            axes.plot([x + 0.05] * 2, [low, high], color=COLOURS[name], linewidth=3)
            axes.plot(x + 0.05, found["mean"], "o", color=COLOURS[name])
    axes.axhline(0, color="0.5", linewidth=1)
    _patches(axes, data)
    axes.set_ylabel("points more than softmax")


def _columns(axes: Axes, data: xr.Dataset) -> None:
    """How far columns are from one at the smallest patch, by epoch: median of seeds."""
    smallest = data["rms"].isel(patch=-1)
    for name in data["variant"].values:
        curves = smallest.sel(variant=name).values
        epochs = data["epoch"].values
        low, median, high = np.quantile(curves, (0.25, 0.5, 0.75), axis=0)
        axes.plot(epochs, median, color=COLOURS[name], label=name)
        axes.fill_between(epochs, low, high, color=COLOURS[name], alpha=0.2)
    axes.set_yscale("symlog", linthresh=NEXT_TO_NOTHING)
    axes.set_ylim(0, None)
    axes.set_xlabel("epoch")
    patch = int(data["patch"].values[-1])
    axes.set_ylabel(f"rms of column sums less 1, patch {patch}")


def _patches(axes: Axes, data: xr.Dataset) -> None:
    axes.set_xticks(range(len(data["patch"])), [str(p) for p in data["patch"].values])
    axes.set_xlabel("side of a patch, pixels")
