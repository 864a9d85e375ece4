"""Pictures of what training does to heads, tokens and flows."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from experiments.trained.campaigns.parity import PARITY
from experiments.trained.panels import colours
from meanfield.plotting import style
from meanfield.reproduce import Findings

COLOURS = colours(PARITY.variants)

RANDOM = "0.55"
HEADS = {
    "negative": ("negative share, A + Aᵀ", "-"),
    "skew": ("skew share, A", "--"),
    "asymmetry": ("skew share, V", ":"),
}
WAYS = {
    "network": "-",
    "no perceptrons": "--",
    "no skips": "-.",
    "attention alone": ":",
}
FLOWS = {"flow": ("attention alone", "-"), "normed": ("with its norms", "--")}
STEPS = 1, 2, 4


@style()
def draw(findings: Findings) -> Figure:
    """Heads, columns, ranks; gaps, tokens of more points, what is pooled of them."""
    networks, sets = findings.data["networks"], findings.data["sets"]
    figure = Figure(figsize=(12.0, 7.0), layout="constrained")
    (heads, columns, ranks), (gaps, tokens, pooled) = figure.subplots(2, 3)
    _heads(heads, networks)
    _columns(columns, networks)
    _ranks(ranks, networks)
    _gaps(gaps, networks)
    _more_points(tokens, sets, "tokens")
    _more_points(pooled, sets, "pooled")
    return figure


def _heads(axes: Axes, data: xr.Dataset) -> None:
    """Medians over seeds and layers, by epoch."""
    for name, colour in _variants(data):
        own = data.sel(variant=name).median(("seed", "layer"))
        for quantity, (_, line) in HEADS.items():
            axes.plot(own["epoch"], own[quantity], line, color=colour)
    for label, line in HEADS.values():
        axes.plot([], [], line, color="0.2", label=label)
    axes.axhline(0.5, color=RANDOM, linewidth=1)
    axes.axhline(1.0, color=RANDOM, linewidth=1)
    axes.set_ylim(0, 1.1)
    axes.set_ylabel("of heads, medians")
    _epochs(axes, data["epoch"].values)
    axes.legend(loc="lower left")


def _columns(axes: Axes, data: xr.Dataset) -> None:
    """Medians over seeds and layers, and all between the least and the most."""
    for name, colour in _variants(data):
        own = data["columns"].sel(variant=name)
        over = ("seed", "layer")
        axes.plot(own["epoch"], own.median(over), color=colour, label=name)
        axes.fill_between(
            own["epoch"], own.min(over), own.max(over), color=colour, alpha=0.15
        )
    _logarithmic(axes)
    axes.set_ylabel("rms of column sums less 1")
    _epochs(axes, data["epoch"].values)
    axes.legend()


def _ranks(axes: Axes, data: xr.Dataset) -> None:
    """After training in colour, of random networks in grey."""
    depths = np.arange(data.sizes["depth"])
    for way, line in WAYS.items():
        start = (
            data[f"rank, {way}"]
            .sel(end="start")
            .median(("variant", "seed"), skipna=False)
        )
        axes.plot(depths, start, line, color=RANDOM, linewidth=1)
        for name, colour in _variants(data):
            own = (
                data[f"rank, {way}"]
                .sel(variant=name, end="end")
                .median("seed", skipna=False)
            )
            axes.plot(depths, own, line, color=colour)
        axes.plot([], [], line, color="0.2", label=way)
    _logarithmic(axes)
    axes.set_xticks(depths)
    axes.set_xlabel("layers behind")
    axes.set_ylabel("effective rank of tokens")
    axes.legend(loc="lower left")


def _gaps(axes: Axes, data: xr.Dataset) -> None:
    """After the last layer, by the length of steps."""
    steps = [1 / m for m in STEPS]
    for kind, (label, line) in FLOWS.items():
        own = [data[f"gap, {kind} {m}"].isel(depth=-1) for m in STEPS]
        start = [one.sel(end="start").median() for one in own]
        axes.plot(steps, start, line, color=RANDOM, marker=".")
        for name, colour in _variants(data):
            gaps = [one.sel(end="end", variant=name).median() for one in own]
            axes.plot(steps, gaps, line, color=colour, marker=".")
        axes.plot([], [], line, color="0.2", label=label)
    still = data["gap, unmoved"].sel(end="end").isel(depth=-1).median("seed").values
    for (_, colour), own in zip(_variants(data), still, strict=True):
        axes.axhline(own, color=colour, linewidth=1, linestyle=":")
    axes.plot([], [], ":", color="0.2", linewidth=1, label="tokens that stay")
    axes.set_xscale("log", base=2)
    _logarithmic(axes)
    axes.set_xticks(steps, ["1", "½", "¼"])
    axes.set_xlabel("length of Euler's steps")
    axes.set_ylabel("|flow − network| / |network|")
    axes.legend()


def _more_points(axes: Axes, data: xr.Dataset, what: str) -> None:
    """After training in colour, of random networks in grey, of points in black."""
    sizes = data["size"].values
    start = data[what].sel(end="start").median(("variant", "seed")).values
    axes.plot(sizes, start, color=RANDOM, marker=".", label="random network")
    for name, colour in _variants(data):
        own = data[what].sel(variant=name, end="end").median("seed")
        axes.plot(sizes, own, color=colour, marker=".", label=name)
    if what == "tokens":
        axes.plot(sizes, data["before"], color="0.1", label="points themselves")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    _logarithmic(axes)
    axes.set_xlabel("n")
    metric = "$W_2$" if what == "tokens" else "distance"
    axes.set_ylabel(f"{metric} of n and 4n points, {what}")
    axes.legend()


def _variants(data: xr.Dataset) -> list[tuple[str, str]]:
    return [(str(name), COLOURS[str(name)]) for name in data["variant"].values]


def _epochs(axes: Axes, epochs: np.ndarray) -> None:
    """Epochs 0, 1, 2, 4, … at equal distances."""
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.set_xlim(-0.1, 1.2 * epochs[-1])
    axes.set_xticks(epochs, [str(epoch) for epoch in epochs])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epoch")


def _logarithmic(axes: Axes) -> None:
    """Ordinates by their logarithms, in plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
