"""Representations of one flow beside each other: their gaps, and their states."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from ._figure.panels import annotate, titled_figure
from ._figure.style import CYCLE, GREY, style
from ._overlay import draw_states

_PANELS = {
    "mean_gap": r"mean: $|\alpha - \beta| / (\mathrm{tr}\,S)^{1/2}$",
    "covariance_gap": r"covariance: $|\Sigma - S| / |S|$",
    "distance_gap": r"distance $/ (\mathrm{tr}\,S)^{1/2}$",
}
# Pairs have other colours than the representations below, and narrower lines from one
# to the next, so that curves which agree are seen.
_PAIRS = tuple(zip((CYCLE[2], CYCLE[3], CYCLE[4]), (3.2, 2.0, 1.0), strict=True))
_ALLOWED = tuple(name.replace("_gap", "_allowed") for name in _PANELS)
_SPAN = 4.0  # the ratio of the ends of a logarithmic scale, at least
_DECADES = 1e-12  # of the largest gap: what lies below is rounding


@style()
def draw_comparison(
    gaps: xr.Dataset,
    states: Mapping[str, xr.Dataset],
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Gaps of every two representations over time, and their states over each other.

    Args:
        gaps: `mean_gap`, `covariance_gap`, `distance_gap` by pair and time, the first
            two with what is `…_allowed`, and the time of `parting` of each pair.
        states: the run of each representation, by name.
        labels: what they are called; their names if `None`.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import draw_comparison
        >>> keys = {"n": 100, "A": -1.0, "t": 0.5, "frames": 3}
        >>> both = runs.compare(spec.parse(keys), ["points", "gaussian"], Path("both"))
        >>> states = {
        ...     name: meanfield.open(f"both/{name}.zarr")
        ...     for name in ("points", "gaussian")
        ... }
        >>> len(draw_comparison(both.dataset(), states).axes) > 0
        True
    """
    figure = titled_figure(gaps, (11.0, 7.6))
    rows = figure.add_gridspec(2, 1, height_ratios=[1.0, 1.25])
    top, bottom = (figure.add_subfigure(rows[i]) for i in range(2))
    for axes, (name, label) in zip(top.subplots(1, 3), _PANELS.items(), strict=True):
        _gap(axes, gaps, name)
        axes.set(xlabel="time $t$")
        axes.set_title(label, fontsize=10)
    _key(top, gaps)
    note = draw_states(bottom, states, labels or {name: name for name in states})
    annotate(figure, *_notes(gaps), note)
    return figure


def _gap(axes: Axes, gaps: xr.Dataset, name: str) -> None:
    """One gap of every pair over time, with what is allowed and the partings."""
    times = gaps["time"].values
    values = gaps[name].transpose("pair", "time").values
    with np.errstate(invalid="ignore"):
        shown = np.where(values > _DECADES * np.nanmax(values), values, np.nan)
    if np.isfinite(shown).any():
        axes.set_yscale("log")
    allowed = name.replace("_gap", "_allowed")
    for row, (colour, width) in zip(range(len(shown)), _PAIRS, strict=False):
        (line,) = axes.plot(times, shown[row], color=colour, marker="o")
        line.set(linewidth=width, markersize=width + 1)
        if allowed in gaps:
            limit = gaps[allowed].transpose("pair", "time").values[row]
            axes.plot(times, limit, color=colour, dashes=(4, 3), linewidth=0.9)
        parting = float(gaps["parting"].values[row])
        if np.isfinite(parting):
            axes.axvline(parting, color=colour, linestyle=":", linewidth=1.0)
    axes.grid(visible=True, axis="y")
    _widen(axes)


def _widen(axes: Axes) -> None:
    """At least so much of a logarithmic scale that little growth looks little."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log" and high < _SPAN * low:
        middle = np.sqrt(low * high)
        axes.set_ylim(middle / np.sqrt(_SPAN), middle * np.sqrt(_SPAN))
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 1)))


def _key(figure: SubFigure, gaps: xr.Dataset) -> None:
    """A legend beside the curves; it names only what is drawn."""
    pairs = [str(pair) for pair in gaps["pair"].values]
    handles = [
        Line2D([], [], color=colour, linewidth=width, label=pair)
        for pair, (colour, width) in zip(pairs, _PAIRS, strict=False)
    ]
    allowed = [gaps[name].values for name in _ALLOWED if name in gaps]
    if any(np.isfinite(limits).any() for limits in allowed):
        label = "allowed (chance or rounding)"
        handles.append(Line2D([], [], color=GREY, dashes=(4, 3), label=label))
    if np.isfinite(gaps["parting"].values).any():
        handles.append(Line2D([], [], color=GREY, linestyle=":", label="parting"))
    figure.legend(handles=handles, loc="outside upper center", ncols=5, fontsize=9)


def _notes(gaps: xr.Dataset) -> list[str]:
    how = list(dict.fromkeys(np.atleast_1d(gaps.attrs.get("how", ())).tolist()))
    named = [f"distance: {', '.join(how)}"] if how else []
    symbols = "α, Σ: mean and covariance of the first of a pair; β, S: of the second"
    verdicts = map(str, np.atleast_1d(gaps.attrs.get("verdicts", ())).tolist())
    return [*verdicts, "; ".join([symbols, *named])]
