"""Comparison of representations of one flow: gaps over time, and overlaid states."""

from collections.abc import Collection, Mapping
from functools import reduce
from itertools import islice
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatter

from ._figure.marks import dot_entry, entry
from ._figure.panels import annotate, titled_figure
from ._figure.style import CLOSURE_COLOUR, CYCLE, GREY, INK, LIMIT_COLOUR, PALE, style
from .reading.data import Track, cloud, swarm, track
from .reading.density import Density, density_run, holding_levels
from .reading.observables import covariance, drop_rounding, principal_axes, run_moments
from .tokens.views import ellipses

_PANELS = {
    "mean_gap": r"mean: $|\alpha - \beta| / (\mathrm{tr}\,S)^{1/2}$",
    "covariance_gap": r"covariance: $|\Sigma - S| / |S|$",
    "distance_gap": r"distance $/ (\mathrm{tr}\,S)^{1/2}$",
}
# The colours of pairs differ from those of representations. The line widths decrease,
# so that coinciding curves stay visible.
_PAIRS = tuple(zip((CYCLE[2], CYCLE[3], CYCLE[4]), (3.2, 2.0, 1.0), strict=True))
_SPAN = 4.0  # minimum ratio of the upper to the lower limit of a logarithmic axis
COLOURS = {"points": INK, "gaussian": CLOSURE_COLOUR, "grid": CYCLE[0]}
EXTRA_COLOURS = (CYCLE[5], LIMIT_COLOUR, CYCLE[6])  # for plugins' representations
BINS = 60
# Masses of a 2D Gaussian within two standard deviations, and within one.
MASS_SHARES = np.array([0.8647, 0.3935])
REACH = 4.0  # half-width of a 1D picture, in standard deviations
_MAX_TOKENS = 4000  # largest number of tokens in a scatter plot


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


class View(NamedTuple):
    """Projection of states onto a picture, `(x - origin) @ axes`, with axis labels."""

    origin: np.ndarray
    axes: np.ndarray
    labels: tuple[str, ...]
    note: str


def draw_states(
    figure: SubFigure, states: Mapping[str, xr.Dataset], labels: Mapping[str, str]
) -> str:
    """Draw all representations at the first and at the last common frame.

    In one dimension, they are drawn as densities. In two, they are drawn with regions
    that contain 39 and 86 % of the mass. In more, they are projected onto a plane. The
    plane is spanned by the main axis of the first run, and by the direction in which
    the final covariances of the first two runs differ most.

    Returns:
        A note on what is shown.
    """
    view = _view(states)
    times = _common(states)
    columns = figure.subplots(1, 2)
    for axes, t in zip(columns, (times[0], times[-1]), strict=True):
        frames = {name: _nearest_frame(run, float(t)) for name, run in states.items()}
        (_draw_line if len(view.labels) == 1 else _draw_plane)(axes, frames, view)
        axes.set_title(f"t = {t:.4g}", fontsize=10)
    handles = _state_entries(labels, len(view.labels))
    columns[0].legend(handles=handles, fontsize=8)
    regions = "" if len(view.labels) == 1 else "ellipses: 1σ and 2σ"
    return "; ".join(filter(None, [regions, view.note]))


def _common(states: Mapping[str, xr.Dataset]) -> np.ndarray:
    """The times at which all representations have a frame."""
    return reduce(np.intersect1d, [run["time"].values for run in states.values()])


def _view(states: Mapping[str, xr.Dataset]) -> View:
    run = next(iter(states.values()))
    d = run.sizes["coord"]
    if d <= 2:
        names = tuple(f"$x_{i + 1}$" for i in range(d)) if d > 1 else ("$x$",)
        return View(np.zeros(d), np.eye(d), names, "")
    main = principal_axes(cloud(run), 1)[0][:, 0]
    first = _parting_axis(states)
    second = main - (first @ main) * first
    axes = np.stack([first, second / np.linalg.norm(second)], axis=1)
    main_name = f"main axis of the {run.attrs['kind']}"
    names = ("where the covariances differ most", main_name)
    note = f"2 of {d} dimensions: {names[0]} at the end, and the {names[1]}"
    return View(run_moments(run.isel(time=[0])).mean[0], axes, names, note)


def _parting_axis(states: Mapping[str, xr.Dataset]) -> np.ndarray:
    """Direction in which the final covariances of the first two runs differ most."""
    t = _common(states)[-1]
    moments = [
        run_moments(_nearest_frame(run, t)) for run in islice(states.values(), 2)
    ]
    first, second = (covariance(state.factor)[0] for state in moments)
    values, vectors = np.linalg.eigh(first - second)
    return vectors[:, np.argmax(np.abs(values))]


def _nearest_frame(run: xr.Dataset, t: float) -> xr.Dataset:
    """The run reduced to one frame, the nearest to time `t`."""
    return run.isel(time=[int(np.argmin(np.abs(run["time"].values - t)))])


def _state(frame: xr.Dataset) -> Density:
    """The density of the state in a frame: the sum over the positions of tokens."""
    return density_run(frame).state_marginal()


def _gaussian_colours(names: Collection[str]) -> dict[str, str]:
    """The colours of the representations that are drawn by mean and covariance."""
    extra_names = [name for name in names if name not in COLOURS]
    colours: dict[str, str] = dict(zip(extra_names, EXTRA_COLOURS, strict=False))
    if "gaussian" in names:
        return {"gaussian": COLOURS["gaussian"], **colours}
    return colours


def _draw_line(axes: Axes, frames: Mapping[str, xr.Dataset], view: View) -> None:
    low, high = _interval(frames, view)
    if "points" in frames:
        tokens = swarm(frames["points"]).project(view.axes, view.origin)
        x, w = tokens.x[0, :, 0], tokens.weights
        shares, faces = np.histogram(x, BINS, (low, high), weights=w)
        axes.stairs(shares * BINS / (high - low), faces, color=PALE, fill=True)
    if "grid" in frames:
        law = _state(frames["grid"])
        x = law.places(0, *law.middles)
        axes.plot(x[:, 0], law.density[0, 0], color=COLOURS["grid"])
    for name, colour in _gaussian_colours(frames).items():
        mean, factor = track(frames[name]).project(view.axes, view.origin)
        s = max(float(np.linalg.norm(factor)), np.finfo(float).tiny)
        x = np.linspace(low, high, 400)
        bell = np.exp(-(((x - mean[0, 0]) / s) ** 2) / 2) / (s * np.sqrt(2 * np.pi))
        axes.plot(x, bell, color=colour, dashes=(4, 2))
    axes.set(xlabel=view.labels[0], xlim=(low, high), ylabel="density")


def _interval(frames: Mapping[str, xr.Dataset], view: View) -> tuple[float, float]:
    """The interval that contains `REACH` standard deviations about every mean."""
    ends = []
    for run in frames.values():
        mean, factor = (part[0] for part in run_moments(run))
        middle = float(((mean - view.origin) @ view.axes)[0])
        s = float(np.linalg.norm(view.axes.T @ factor))
        ends += [middle - REACH * s, middle + REACH * s]
    low, high = min(ends), max(ends)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _draw_plane(axes: Axes, frames: Mapping[str, xr.Dataset], view: View) -> None:
    if "points" in frames:
        x = swarm(frames["points"]).project(view.axes, view.origin).x[0]
        sample = x[:: max(1, len(x) // _MAX_TOKENS)]
        axes.scatter(sample[:, 0], sample[:, 1], 5, GREY, linewidths=0, alpha=0.6)
    if "grid" in frames:
        _contours(axes, _state(frames["grid"]))
    for name, colour in _gaussian_colours(frames).items():
        mean, factor = track(frames[name]).project(view.axes, view.origin)
        for share in (1.0, 0.5):
            outline = ellipses(Track(mean, share * factor))[0]
            axes.plot(*outline.T, color=colour, dashes=(4, 2))
    axes.set(xlabel=view.labels[0], ylabel=view.labels[1])
    axes.set_aspect("equal", adjustable="datalim")


def _contours(axes: Axes, law: Density) -> None:
    """Draw contours around the regions that contain `MASS_SHARES` of the mass."""
    heights = law.density[0, 0]
    levels = np.unique(holding_levels(heights, law.mass[0, 0], MASS_SHARES))
    if len(levels) > 1:
        x, y = np.moveaxis(law.places(0, *law.middles), -1, 0)
        axes.contour(x, y, heights, levels=levels, colors=COLOURS["grid"])


def _state_entries(labels: Mapping[str, str], d: int) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    normal = _gaussian_colours(labels)
    for name, label in labels.items():
        if name == "points" and d == 1:
            handles.append(Patch(color=PALE, label=label))
        elif name == "points":
            handles.append(dot_entry(label, GREY, markersize=3))
        else:
            text = label if name in COLOURS else f"{label}: its mean and covariance"
            line = entry(text, normal.get(name, COLOURS["grid"]))
            line.set_dashes((4, 2) if name in normal else (None, None))
            handles.append(line)
    return handles
