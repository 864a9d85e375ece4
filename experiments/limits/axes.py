"""Axes of limits: bandwidths on a logarithmic scale, in plain numbers."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

GREY = "#8a8a8a"


def bandwidths(axes: Axes, epsilons: Float[np.ndarray, " k"]) -> None:
    """Ticks at the bandwidths themselves, every other one if there are many."""
    values = np.unique(np.round(epsilons, 12))
    ticks = values[:: 2 if len(values) > 6 else 1]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.set_xlabel(r"bandwidth $\varepsilon$")


def plain_ticks(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 times powers of ten along a logarithmic axis of abscissas."""
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))


def room_above(axes: Axes, factor: float) -> None:
    """A logarithmic axis of ordinates that reaches so many times as high."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * factor)


def power_line(
    axes: Axes, x: Float[np.ndarray, " k"], y: Float[np.ndarray, " k"], label: str
) -> None:
    """A dotted line, named at its left end."""
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
