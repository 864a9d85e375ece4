"""Comparison of representations of one flow: gaps over time, and overlaid states."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import LogFormatter

from ._figure.marks import entry
from ._figure.panels import annotate, titled_figure
from ._figure.style import CYCLE, GREY, style
from ._overlay import draw_states
from .reading.observables import drop_rounding

_PANELS = {
    "mean_gap": r"mean: $|\alpha - \beta| / (\mathrm{tr}\,S)^{1/2}$",
    "covariance_gap": r"covariance: $|\Sigma - S| / |S|$",
    "distance_gap": r"distance $/ (\mathrm{tr}\,S)^{1/2}$",
}
# The colours of pairs differ from those of representations. The line widths decrease,
# so that coinciding curves stay visible.
_PAIRS = tuple(zip((CYCLE[2], CYCLE[3], CYCLE[4]), (3.2, 2.0, 1.0), strict=True))
_SPAN = 4.0  # minimum ratio of the upper to the lower limit of a logarithmic axis


@style()
def draw_comparison(
    gaps: xr.Dataset,
    states: Mapping[str, xr.Dataset],
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Gaps between representations over time, and their states overlaid.

    Args:
        gaps: `mean_gap`, `covariance_gap` and `distance_gap` by pair and time. The
            first two have tolerances, named `…_tolerance`. For each pair, `separation`
            is the time of the first frame in which a gap exceeds its tolerance.
        states: the run of each representation, by name.
        labels: the text in the legend for each name; if `None`, the name itself.

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
    """Plot one gap of every pair over time, with its tolerance and separation."""
    times = gaps["time"].values
    curves = drop_rounding(gaps[name].transpose("pair", "time").values)
    if np.isfinite(curves).any():
        axes.set_yscale("log")
    limit_name = name.replace("_gap", "_tolerance")
    for row, (colour, width) in zip(range(len(curves)), _PAIRS, strict=False):
        (line,) = axes.plot(times, curves[row], color=colour, marker="o")
        line.set(linewidth=width, markersize=width + 1)
        if limit_name in gaps:
            limit = gaps[limit_name].transpose("pair", "time").values[row]
            axes.plot(times, limit, color=colour, dashes=(4, 3), linewidth=0.9)
        time = float(gaps["separation"].values[row])
        if np.isfinite(time):
            axes.axvline(time, color=colour, linestyle=":", linewidth=1.0)
    axes.grid(visible=True, axis="y")
    _widen(axes)


def _widen(axes: Axes) -> None:
    """Widen a short logarithmic axis, so that small changes look small."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log" and high < _SPAN * low:
        middle = np.sqrt(low * high)
        axes.set_ylim(middle / np.sqrt(_SPAN), middle * np.sqrt(_SPAN))
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 1)))


def _key(figure: SubFigure, gaps: xr.Dataset) -> None:
    """Add a legend above the curves, with entries only for what is drawn."""
    pairs = [str(pair) for pair in gaps["pair"].values]
    handles = [
        entry(pair, colour, linewidth=width)
        for pair, (colour, width) in zip(pairs, _PAIRS, strict=False)
    ]
    bounds = [gaps[name].values for name in gaps if str(name).endswith("_tolerance")]
    if any(np.isfinite(limits).any() for limits in bounds):
        tolerance = entry("tolerance (chance or rounding)", GREY, dashes=(4, 3))
        handles.append(tolerance)
    if np.isfinite(gaps["separation"].values).any():
        handles.append(entry("separation", GREY, linestyle=":"))
    figure.legend(handles=handles, loc="outside upper center", ncols=5, fontsize=9)


def _notes(gaps: xr.Dataset) -> list[str]:
    stored = np.atleast_1d(gaps.attrs.get("distance_methods", ())).tolist()
    methods = ", ".join(dict.fromkeys(stored))
    distance_notes = [f"distance: {methods}"] if methods else []
    symbols = "α, Σ: mean and covariance of the first of a pair; β, S: of the second"
    verdicts = map(str, np.atleast_1d(gaps.attrs.get("verdicts", ())).tolist())
    return [*verdicts, "; ".join([symbols, *distance_notes])]
