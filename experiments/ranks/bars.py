"""Bars with confidence intervals, and other elements of the panels of ranks."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.ranks.counts import clopper_pearson_interval

ERROR_BAR_STYLE = {"elinewidth": 0.9, "capsize": 2, "ecolor": "#4d4d4d"}


class BarStyle(NamedTuple):
    """Horizontal shift, colour and hatching of one of two neighbouring bars."""

    shift: float
    colour: str
    hatch: str


SOLVED_STYLE = BarStyle(-0.2, "C0", "")
SCRIPT_STYLE = BarStyle(0.2, "C1", "//")


def draw_fractions(
    axes: Axes, counts: np.ndarray, n: int, *, style: BarStyle, label: str
) -> None:
    """Draws counts as bars, in fractions of `n`, at the positions 0, 1, and so on."""
    axes.bar(
        *(np.arange(len(counts)) + style.shift, counts / max(n, 1), 0.38),
        yerr=error_bars(counts, n),
        color=style.colour,
        edgecolor="white",
        hatch=style.hatch,
        linewidth=0.5,
        error_kw=ERROR_BAR_STYLE,
        label=label,
    )


def error_bars(counts: np.ndarray, n: int) -> np.ndarray:
    """Lengths of the confidence intervals below and above the measured fractions."""
    pairs = [clopper_pearson_interval(int(count), n) for count in counts]
    low, high = np.array(pairs).T
    fractions = counts / max(n, 1)
    return np.maximum([fractions - low, high - fractions], 0)


def draw_expected_rank(axes: Axes, d: int) -> None:
    """Draws a line at the expected rank, half of the dimension rounded up."""
    half = -(-d // 2)
    axes.axvline(half, color="C6", ls=":", zorder=0, label=r"$\lceil d/2\rceil$")


def draw_legend(figure: Figure, *panels: Axes) -> None:
    """Draws one legend for all panels, below them."""
    entries = [axes.get_legend_handles_labels() for axes in panels]
    handles = [handle for group, _ in entries for handle in group]
    labels = [label for _, group in entries for label in group]
    columns = 2 if figure.get_figwidth() < 8 else 3
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
