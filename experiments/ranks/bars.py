"""Bars of ranks with their intervals, and what panels of ranks share."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.ranks.counts import interval

WHISKERS = {"elinewidth": 0.9, "capsize": 2, "ecolor": "#4d4d4d"}


class Look(NamedTuple):
    """How one of two bars at a place looks, and which side it stands on."""

    shift: float
    colour: str
    hatch: str


SOLVED = Look(-0.2, "C0", "")
SCRIPT = Look(0.2, "C1", "//")


def shares(axes: Axes, counts: np.ndarray, n: int, *, look: Look, label: str) -> None:
    """Bars of counts, as shares of `n`, at the places 0, 1, and so on."""
    axes.bar(
        *(np.arange(len(counts)) + look.shift, counts / max(n, 1), 0.38),
        yerr=errors(counts, n),
        color=look.colour,
        edgecolor="white",
        hatch=look.hatch,
        linewidth=0.5,
        error_kw=WHISKERS,
        label=label,
    )


def errors(counts: np.ndarray, n: int) -> np.ndarray:
    """Lengths of the intervals below and above the shares."""
    ends = np.array([interval(int(count), n) for count in counts]).T
    middles = counts / max(n, 1)
    return np.maximum([middles - ends[0], ends[1] - middles], 0)


def bound(axes: Axes, d: int) -> None:
    """A line at half the dimension, rounded up."""
    half = -(-d // 2)
    axes.axvline(half, color="C6", ls=":", zorder=0, label=r"$\lceil d/2\rceil$")


def legend(figure: Figure, *panels: Axes) -> None:
    """One legend for all panels, below them."""
    entries = [axes.get_legend_handles_labels() for axes in panels]
    handles = [handle for group, _ in entries for handle in group]
    labels = [label for _, group in entries for label in group]
    columns = 2 if figure.get_figwidth() < 8 else 3
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
