"""Panels of cloud diameters: by layer, by time, and before and after one layer."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attention_styles import attention_style
from meanfield.plotting import style
from meanfield.reproduce import Findings

ONE_SLICE = "esp, one slice"
# Dashed, to show the line of softmax below, and to tell the numbers of slices apart.
DASHES = {"sinkhorn": (2, 2), ONE_SLICE: (5, 1)}
LABELS = {"esp": "sliced, 8 slices", ONE_SLICE: "sliced, 1 slice"}
ROUNDING = 1e-14  # rounding error of the mean, relative to the first diameter
BOUND = {"color": "black", "dashes": (5, 2), "linewidth": 1.3}


@style()
def draw(findings: Findings) -> Figure:
    """Draws three panels: layers without skip connections, the flow, and one layer."""
    figure = Figure(figsize=(12.6, 4.3), layout="constrained")
    layers, flow, power = figure.subplots(1, 3)
    data = findings.data
    _curves(layers, data["layers"], data["bounds"]["layers"].values)
    layers.axhspan(ROUNDING / 1e3, ROUNDING, color="#eeeeee", zorder=0)
    layers.annotate("rounding", (5.6, 3e-16), fontsize=9, color="#777777")
    layers.set(title="without skip", xlabel="layer $k$", ylabel="$D_k / D_0$")
    layers.set_ylim(ROUNDING / 1e3, 9)
    _curves(flow, data["flows"], data["bounds"]["flow"].values)
    flow.set(title="the flow, with skip", xlabel="time $t$", ylabel="$D(t) / D(0)$")
    flow.set_ylim(bottom=0.011)
    flow.legend(*layers.get_legend_handles_labels(), fontsize=8, loc="lower left")
    _powers(power, data["layers"], data["pairs"]["reach"].values)
    return figure


def _curves(axes: Axes, data: xr.Dataset, bound: np.ndarray) -> None:
    """Plots each draw and the median for each attention, down to the rounding error."""
    k = np.arange(len(bound))
    for name, rows in zip(data["name"].values, data["D"].values, strict=True):
        shares = rows / rows[:, :1]
        median = np.median(shares, axis=0)
        look = attention_style(str(name))
        colour, label = look.colour, LABELS.get(str(name), look.label)
        for share in shares:
            axes.semilogy(k, _visible(share), color=colour, linewidth=0.5, alpha=0.3)
        dashes = DASHES.get(str(name), ())
        axes.semilogy(k, _visible(median), color=colour, label=label, dashes=dashes)
    axes.semilogy(k, _visible(bound), label="bound of softmax and Sinkhorn", **BOUND)
    axes.grid(visible=True)


def _visible(shares: np.ndarray) -> np.ndarray:
    """Keeps values until the first one below the rounding error; the others are NaN."""
    before = np.concatenate([[1.0], shares[:-1]])
    lowest = np.maximum(shares, ROUNDING / 1e3)
    return np.where(np.minimum.accumulate(before) > ROUNDING, lowest, np.nan)


def _powers(axes: Axes, data: xr.Dataset, reach: np.ndarray) -> None:
    r"""Draws the scaled diameters $\sqrt cD$ before and after each layer."""
    for name, rows in zip(data["name"].values, data["D"].values, strict=True):
        u = np.sqrt(reach)[:, None] * rows
        seen = u[:, 1:] > 1e3 * ROUNDING
        pairs = u[:, :-1][seen], u[:, 1:][seen]
        look = attention_style(str(name))
        axes.loglog(*pairs, look.marker, markersize=3, color=look.colour)
    line = np.logspace(-3.2, 0.15, 50)
    axes.loglog(line, line * np.tanh(line**2), **BOUND)
    axes.annotate("bound: slope 3", (1.2e-3, 2e-6), fontsize=9)
    axes.loglog(line, line, color="#8a8a8a", linestyle=":")
    axes.annotate("slope 1", (1e-3, 6e-3), fontsize=9)
    axes.set(
        title="one layer without skip",
        xlabel=r"$\sqrt{c}\,D$ before, $c = |A||V|/4\epsilon$",
        ylabel=r"$\sqrt{c}\,D$ after",
    )
    axes.grid(visible=True)
