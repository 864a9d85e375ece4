"""States of several representations over each other, at the start and at the end."""

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ._data import Track, cloud, kind
from ._observables import principal_axes
from ._style import CLOSURE_COLOUR, CYCLE, GREY, INK, PALE
from ._views import ellipses

COLOURS = {"points": INK, "gaussian": CLOSURE_COLOUR, "grid": CYCLE[0]}
BINS = 60
INSIDE = (0.8647, 0.3935)  # the mass of a plane Gaussian within two and one deviations
REACH = 4.0  # deviations about the mean that a picture on the line shows
_SHOWN = 4000  # tokens of a scatter


class View(NamedTuple):
    """How states come to the page: their image under `(x - origin) axes`."""

    origin: np.ndarray
    axes: np.ndarray
    labels: tuple[str, ...]
    note: str


def draw_states(
    figure: SubFigure, states: Mapping[str, xr.Dataset], labels: Mapping[str, str]
) -> str:
    """All representations at the first frame, and at the last that all have.

    On the line as densities, in the plane with regions that hold 39 and 86 % of the
    mass, beyond it where the covariances differ most and on the main axis.

    Returns:
        A note on what is shown.
    """
    view = _view(states)
    times = _common(states)
    columns = figure.subplots(1, 2)
    for axes, t in zip(columns, (times[0], times[-1]), strict=True):
        now = {name: _at(run, float(t)) for name, run in states.items()}
        (_on_line if len(view.labels) == 1 else _in_plane)(axes, now, view)
        axes.set_title(f"t = {t:.4g}", fontsize=10)
    columns[0].legend(handles=_key(labels, len(view.labels)), fontsize=8)
    return view.note


def _common(states: Mapping[str, xr.Dataset]) -> np.ndarray:
    """The times at which every representation has a frame."""
    first, *rest = (run["time"].values for run in states.values())
    for times in rest:
        first = np.intersect1d(first, times)
    return first


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
    names = ("where the covariances differ most", f"main axis of the {kind(run)}")
    note = f"2 of {d} dimensions: {names[0]} at the end, and the {names[1]}"
    return View(_mean(run.isel(time=0)), axes, names, note)


def _parting_axis(states: Mapping[str, xr.Dataset]) -> np.ndarray:
    """The direction in which two covariances differ most at the last common frame."""
    t = _common(states)[-1]
    one, other = (_covariance(_at(run, t)) for run in islice(states.values(), 2))
    values, vectors = np.linalg.eigh(one - other)
    return vectors[:, np.argmax(np.abs(values))]


def _covariance(now: xr.Dataset) -> np.ndarray:
    if "factor" in now:
        factor = np.asarray(now["factor"].values, float)
        return factor @ factor.T
    w = np.asarray(now["weight"].values, float)
    away = np.asarray(now["x"].values, float) - _mean(now)
    return (w[:, None] * away).T @ away / np.sum(w)


def _at(run: xr.Dataset, t: float) -> xr.Dataset:
    return run.isel(time=int(np.argmin(np.abs(run["time"].values - t))))


def _mean(now: xr.Dataset) -> np.ndarray:
    if "mean" in now:
        return np.asarray(now["mean"].values, float)
    w = np.asarray(now["weight"].values, float)
    return w @ np.asarray(now["x"].values, float) / np.sum(w)


def _tokens(now: xr.Dataset, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Tokens on the page, and their weights."""
    x = np.asarray(now["x"].values, float)
    w = np.asarray(now["weight"].values, float)
    return (x - view.origin) @ view.axes, w / np.sum(w)


def _gaussian(now: xr.Dataset, view: View) -> Track:
    """A Gaussian on the page."""
    mean, factor = (np.asarray(now[name].values, float) for name in ("mean", "factor"))
    return Track(((mean - view.origin) @ view.axes)[None], (view.axes.T @ factor)[None])


def _cells(now: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The middles of cells, (*cells, d), and densities there, positions summed over."""
    edges = [now[n].values for n in ("edges_x", "edges_y") if n in now]
    middles = [(e[1:] + e[:-1]) / 2 for e in edges]
    xi = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1)
    x = now["origin"].values + xi @ now["axes"].values.T
    density = now["density"].values
    extra = density.ndim - len(edges)
    return x, density.sum(axis=0) if extra else density


def _on_line(axes: Axes, now: Mapping[str, xr.Dataset], view: View) -> None:
    low, high = _interval(now, view)
    if "points" in now:
        x, w = _tokens(now["points"], view)
        shares, faces = np.histogram(x[:, 0], BINS, (low, high), weights=w)
        axes.stairs(shares * BINS / (high - low), faces, color=PALE, fill=True)
    if "grid" in now:
        x, density = _cells(now["grid"])
        axes.plot(x[:, 0], density, color=COLOURS["grid"])
    if "gaussian" in now:
        mean, factor = _gaussian(now["gaussian"], view)
        s = max(float(np.linalg.norm(factor)), np.finfo(float).tiny)
        x = np.linspace(low, high, 400)
        bell = np.exp(-(((x - mean[0, 0]) / s) ** 2) / 2) / (s * np.sqrt(2 * np.pi))
        axes.plot(x, bell, color=COLOURS["gaussian"], dashes=(4, 2))
    axes.set(xlabel=view.labels[0], xlim=(low, high), ylabel="density")


def _interval(now: Mapping[str, xr.Dataset], view: View) -> tuple[float, float]:
    """Four deviations about the mean, of all that are there."""
    ends = []
    for name, run in now.items():
        if name == "gaussian":
            track = _gaussian(run, view)
            mean, s = float(track.mean[0, 0]), float(np.linalg.norm(track.factor))
        else:
            x, w = _tokens(run, view) if name == "points" else _cells(run)
            w = w / np.sum(w)
            mean = float(w @ x[:, 0])
            s = float(np.sqrt(w @ (x[:, 0] - mean) ** 2))
        ends += [mean - REACH * s, mean + REACH * s]
    low, high = min(ends), max(ends)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _in_plane(axes: Axes, now: Mapping[str, xr.Dataset], view: View) -> None:
    if "points" in now:
        x, _ = _tokens(now["points"], view)
        some = x[:: max(1, len(x) // _SHOWN)]
        axes.scatter(some[:, 0], some[:, 1], 5, GREY, linewidths=0, alpha=0.6)
    if "grid" in now:
        x, density = _cells(now["grid"])
        levels = _levels(density, now["grid"])
        if len(levels) > 1:
            colour = COLOURS["grid"]
            axes.contour(x[..., 0], x[..., 1], density, levels=levels, colors=colour)
    if "gaussian" in now:
        track = _gaussian(now["gaussian"], view)
        for share in (1.0, 0.5):
            outline = ellipses(Track(track.mean, share * track.factor))[0]
            axes.plot(*outline.T, color=COLOURS["gaussian"], dashes=(4, 2))
    axes.set(xlabel=view.labels[0], ylabel=view.labels[1])
    axes.set_aspect("equal", adjustable="datalim")


def _levels(density: np.ndarray, now: xr.Dataset) -> list[float]:
    """The densities above which the regions hold their share of the mass."""
    masses = now["mass"].values
    masses = masses.sum(axis=0) if masses.ndim > density.ndim else masses
    order = np.argsort(density, axis=None)[::-1]
    held = np.cumsum(masses.ravel()[order]) / np.sum(masses)
    last = order.size - 1
    found = [
        density.ravel()[order[min(np.searchsorted(held, m), last)]] for m in INSIDE
    ]
    return sorted({float(level) for level in found})


def _key(labels: Mapping[str, str], d: int) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    for name, label in labels.items():
        if name == "points" and d == 1:
            handles.append(Patch(color=PALE, label=label))
        elif name == "points":
            dots = {"marker": "o", "linestyle": "", "markersize": 3}
            handles.append(Line2D([], [], color=GREY, label=label, **dots))
        else:
            dashes = (4, 2) if name == "gaussian" else (None, None)
            line = Line2D([], [], color=COLOURS[name], label=label)
            line.set_dashes(dashes)
            handles.append(line)
    return handles
