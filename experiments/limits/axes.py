"""Logarithmic axes with plain numbers as ticks, for figures on small bandwidths."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

GREY = "#8a8a8a"


def set_bandwidth_ticks(axes: Axes, epsilons: Float[np.ndarray, " k"]) -> None:
    """Sets ticks at the bandwidths, or at every second one if there are many."""
    values = np.unique(np.round(epsilons, 12))
    ticks = values[:: 2 if len(values) > 6 else 1]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.set_xlabel(r"bandwidth $\varepsilon$")


def set_plain_ticks(axes: Axes) -> None:
    """Sets ticks at 1, 2 and 5 times powers of ten on a logarithmic x axis."""
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))


def extend_upwards(axes: Axes, factor: float) -> None:
    """Multiplies the upper limit of a logarithmic y axis by a factor."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * factor)


def draw_power_line(
    axes: Axes, x: Float[np.ndarray, " k"], y: Float[np.ndarray, " k"], label: str
) -> None:
    """Draws a dotted line through the points, with a label at its left end."""
    axes.plot(x, y, color=GREY, ls=":", lw=1)
    axes.annotate(
        label,
        (x[0], y[0]),
        (2, 5),
        textcoords="offset points",
        color=GREY,
        ha="left",
        va="bottom",
    )


def _plain(value: float, _: int) -> str:
    return f"{value:g}"
