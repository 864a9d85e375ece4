"""Panels of heads, tokens and flows before and after training."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from experiments.attention_styles import attention_style
from meanfield.plotting import style
from meanfield.reproduce import Findings

RANDOM = "0.55"
HEADS = {
    "negative": ("negative fraction, A + Aᵀ", "-"),
    "skew": ("skewness, A", "--"),
    "asymmetry": ("skewness, V", ":"),
}
ABLATIONS = {
    "network": "-",
    "no perceptrons": "--",
    "no skips": "-.",
    "attention alone": ":",
}
FLOWS = {"flow": ("attention flow", "-"), "normed": ("with norms", "--")}
STEPS = 1, 2, 4


@style()
def draw(findings: Findings) -> Figure:
    """Draws the six panels of the figure.

    Upper row: heads, column sums and ranks. Lower row: distances.
    """
    networks, sets = findings.data["networks"], findings.data["sets"]
    figure = Figure(figsize=(12.0, 7.4), layout="constrained")
    figure.suptitle("Heads, tokens and flows of networks before and after training")
    (heads, columns, ranks), (distances, tokens, pooled) = figure.subplots(2, 3)
    _draw_heads(heads, networks)
    _draw_columns(columns, networks)
    _draw_ranks(ranks, networks)
    _draw_distances(distances, networks)
    _draw_sizes(tokens, sets, "tokens")
    _draw_sizes(pooled, sets, "pooled")
    return figure


def _draw_heads(axes: Axes, data: xr.Dataset) -> None:
    """Draws quantities of heads by epoch, as medians over seeds and layers."""
    for name, colour in _variants(data):
        own = data.sel(variant=name).median(("seed", "layer"))
        for quantity, (_, line) in HEADS.items():
            axes.plot(own["epoch"], own[quantity], line, color=colour)
    for label, line in HEADS.values():
        axes.plot([], [], line, color="0.2", label=label)
    axes.axhline(0.5, color=RANDOM, linewidth=1)
    axes.axhline(1.0, color=RANDOM, linewidth=1)
    axes.set_ylim(0, 1.1)
    axes.set_ylabel("heads, medians")
    _set_epochs(axes, data["epoch"].values)
    axes.legend(loc="lower left")


def _draw_columns(axes: Axes, data: xr.Dataset) -> None:
    """Draws errors of column sums by epoch, with medians and extremes."""
    for name, colour in _variants(data):
        own = data["columns"].sel(variant=name)
        over = ("seed", "layer")
        axes.plot(own["epoch"], own.median(over), color=colour, label=name)
        axes.fill_between(
            own["epoch"], own.min(over), own.max(over), color=colour, alpha=0.15
        )
    _set_logarithmic(axes)
    axes.set_ylabel("rms of column sums - 1")
    _set_epochs(axes, data["epoch"].values)
    axes.legend()


def _draw_ranks(axes: Axes, data: xr.Dataset) -> None:
    """Draws ranks by depth: after training in colour, before training in grey."""
    depths = np.arange(data.sizes["depth"])
    for ablation, line in ABLATIONS.items():
        start = (
            data[f"rank, {ablation}"]
            .sel(end="start")
            .median(("variant", "seed"), skipna=False)
        )
        axes.plot(depths, start, line, color=RANDOM, linewidth=1)
        for name, colour in _variants(data):
            own = (
                data[f"rank, {ablation}"]
                .sel(variant=name, end="end")
                .median("seed", skipna=False)
            )
            axes.plot(depths, own, line, color=colour)
        axes.plot([], [], line, color="0.2", label=ablation)
    _set_logarithmic(axes)
    axes.set_xticks(depths)
    axes.set_xlabel("number of layers")
    axes.set_ylabel("effective rank of tokens")
    axes.legend(loc="lower left")


def _draw_distances(axes: Axes, data: xr.Dataset) -> None:
    """Draws the distances to flows after the last layer, by step size."""
    steps = [1 / m for m in STEPS]
    for kind, (label, line) in FLOWS.items():
        own = [data[f"gap, {kind} {m}"].isel(depth=-1) for m in STEPS]
        start = [one.sel(end="start").median() for one in own]
        axes.plot(steps, start, line, color=RANDOM, marker=".")
        for name, colour in _variants(data):
            gaps = [one.sel(end="end", variant=name).median() for one in own]
            axes.plot(steps, gaps, line, color=colour, marker=".")
        axes.plot([], [], line, color="0.2", label=label)
    initial = data["gap, unmoved"].sel(end="end").isel(depth=-1).median("seed").values
    for (_, colour), own in zip(_variants(data), initial, strict=True):
        axes.axhline(own, color=colour, linewidth=1, linestyle=":")
    axes.plot([], [], ":", color="0.2", linewidth=1, label="initial tokens")
    axes.set_xscale("log", base=2)
    _set_logarithmic(axes)
    axes.set_xticks(steps, ["1", "½", "¼"])
    axes.set_xlabel("step size of Euler's method")
    axes.set_ylabel("|flow − network| / |network|")
    axes.legend()


def _draw_sizes(axes: Axes, data: xr.Dataset, quantity: str) -> None:
    """Draws distances by number of points: after training in colour, before in grey."""
    sizes = data["size"].values
    start = data[quantity].sel(end="start").median(("variant", "seed")).values
    axes.plot(sizes, start, color=RANDOM, marker=".", label="random network")
    for name, colour in _variants(data):
        own = data[quantity].sel(variant=name, end="end").median("seed")
        axes.plot(sizes, own, color=colour, marker=".", label=name)
    if quantity == "tokens":
        axes.plot(sizes, data["before"], color="0.1", label="points themselves")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    _set_logarithmic(axes)
    axes.set_xlabel("n")
    metric = "$W_2$" if quantity == "tokens" else "distance"
    axes.set_ylabel(f"{metric} of n and 4n points, {quantity}")
    axes.legend()


def _variants(data: xr.Dataset) -> list[tuple[str, str]]:
    names = map(str, data["variant"].values)
    return [(name, attention_style(name).colour) for name in names]


def _set_epochs(axes: Axes, epochs: np.ndarray) -> None:
    """Scales the x axis so that the epochs 0, 1, 2, 4, … have equal distances."""
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.set_xlim(-0.1, 1.2 * epochs[-1])
    axes.set_xticks(epochs, [str(epoch) for epoch in epochs])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epoch")


def _set_logarithmic(axes: Axes) -> None:
    """Makes the y axis logarithmic, with plain numbers as ticks."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1, 2, 3, 5) if high < 100 * low else (1,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_minor_locator(NullLocator())
    if subs != (1,):
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
