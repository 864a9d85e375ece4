"""Figure of the mean-field limit: errors by number of tokens, growth of distances."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, NullLocator

from experiments.attention_styles import attention_style
from meanfield.plotting import style
from meanfield.reproduce import Findings

TITLES = {
    "mean": r"mean: $|\alpha_n - \alpha| / \sigma$",
    "covariance": r"variance: $|\sigma_n^2 - \sigma^2| / \sigma^2$",
    "distance": r"$W_2(\mu_n, \mu) / \sigma$",
}


@style()
def draw(findings: Findings) -> Figure:
    """Draws errors of every attention against n, and W₂(t)/W₂(0) with its bound."""
    figure = Figure(figsize=(11.0, 7.4), layout="constrained")
    figure.suptitle(f"n tokens and their law at t = {findings.spec['t']:g}")
    axes = figure.subplots(2, 2).ravel()
    errors = findings.data["errors"]
    for panel, name in zip(axes, TITLES, strict=False):
        _gaps(panel, errors, name)
    n, start = errors["n"], findings.data["theory"]["start"]
    (exact,) = axes[2].plot(n, start, color="black", dashes=(4, 2))
    axes[2].legend([exact], ["at t = 0, exactly"], fontsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
    _growth(axes[3], findings.data["growth"])
    return figure


def _gaps(axes: Axes, errors: xr.Dataset, name: str) -> None:
    n = errors["n"].values
    rows = errors[name].values
    for row, variant in zip(rows, errors["variant"].values, strict=True):
        look = attention_style(str(variant))
        points = {**look.points, "linestyle": "-", "markersize": 4}
        axes.loglog(n, row, label=look.label, **points)
    top = 1.3 * rows[:, 0].max()
    axes.loglog(n, top * np.sqrt(n[0] / n), color="#8a8a8a", linestyle=":")
    axes.annotate(
        "$n^{-1/2}$", (n[-1], top * np.sqrt(n[0] / n[-1])), fontsize=9, color="#8a8a8a"
    )
    axes.set_title(TITLES[name], fontsize=10)
    axes.set_xlabel("tokens $n$")
    axes.set_xticks(n, [str(int(count)) for count in n])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(2, 0.5)))
    axes.tick_params(axis="y", which="minor", labelsize="x-small")
    axes.grid(visible=True, axis="y", which="both")


def _growth(axes: Axes, growth: xr.Dataset) -> None:
    t = growth["time"].values
    for i, name in enumerate(growth["variant"].values):
        look = attention_style(str(name))
        ratios = growth["ratio"].values[i]
        axes.semilogy(t, ratios, color=look.colour, label=look.label)
        bound = np.exp(growth["bound"].values[i] * t)
        axes.semilogy(t, bound, color=look.colour, dashes=(4, 2), linewidth=1)
    axes.plot([], [], color="#8a8a8a", dashes=(4, 2), label="bound $e^{Ct}$")
    axes.set_title("two clouds: largest $W_2(t)/W_2(0)$", fontsize=10)
    axes.set_xlabel("time $t$")
    axes.grid(visible=True, axis="y")
    axes.legend(fontsize=8)
