"""Energies over time, and whether they change at the rate that was recorded."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.errors import InvalidInputError

from ._figure.bands import draw, marker, spans_decades, tell_ending
from ._figure.look import options_for
from ._figure.marks import legend
from ._figure.panels import (
    annotate,
    panel,
    panels,
    titled_figure,
)
from ._figure.style import CYCLE
from .reading.data import kind, values

_PREFIX, _RATE, _STEEPEST = "energy", "dissipation", "steepest"
_AMONG_GAUSSIANS = "gradient flow among Gaussians"
_DASHES = (0, (4, 2))
_DOTS = 25  # differences that are drawn
_ROUNDING = 1e-9  # of the largest rate, below which a ratio tells nothing
_SAME = 1e-3  # of the largest rate, below which two rates are one curve


@panels.register("energy")
@panel(*options_for("energy"))
def energy(dataset: xr.Dataset) -> Figure:
    r"""Observed energies $E(t)$ above, their loss $-dE/dt$ below, in two ways.

    As recorded, $-\int\nabla\delta E\cdot v\,d\mu$ at each frame, and as the difference
    of successive frames over the time between them, at its middle. Dashed is
    $\int|\nabla\delta E|^2\,d\mu$, what a gradient flow of the energy would lose, or on
    Gaussians what its gradient flow among them would, which is less, if the run
    observed it. An ensemble is drawn by its medians and its 10–90 % bands.

    Raises:
        InvalidInputError: if the run observed no energy, or none is finite.
    """
    names = _observed(dataset)
    figure = titled_figure(dataset, (1.2 + 5.4 * len(names), 6.4))
    grid = figure.subplots(
        2, len(names), sharex=True, squeeze=False, height_ratios=[1.4, 1]
    )
    for (top, bottom), name in zip(grid.T, names, strict=True):
        _energy(top, dataset, name)
        _loss(bottom, dataset, name)
        said = _verdict(dataset, name)
        annotate(figure, f"{_label(name)}: {said}" if said and len(names) > 1 else said)
    tell_ending(figure, dataset)
    return figure


def _observed(dataset: xr.Dataset) -> list[str]:
    """The suffixes of the energies that are there and somewhere finite."""
    suffixes = [
        name.removeprefix(_PREFIX)
        for name in map(str, dataset.data_vars)
        if name.startswith(_PREFIX) and name.replace(_PREFIX, _RATE, 1) in dataset
    ]
    if not suffixes:
        raise InvalidInputError(
            "This run observed no energy; simulate it with `--observe energy`."
        )
    finite = [
        name for name in suffixes if np.isfinite(_read(dataset, _PREFIX, name)).any()
    ]
    if not finite:
        raise InvalidInputError("No energy of this run is finite: nothing to draw.")
    return finite


def _read(dataset: xr.Dataset, what: str, name: str) -> np.ndarray:
    leading = ("run",) if "run" in dataset.dims else ()
    return values(dataset, f"{what}{name}", (*leading, "time"))


def _energy(axes: Axes, dataset: xr.Dataset, name: str) -> None:
    times = values(dataset, "time", ("time",))
    draw(axes, times, _read(dataset, _PREFIX, name), CYCLE[0])
    axes.grid(visible=True, axis="y")
    axes.set_ylabel(f"{_label(name)} $E$")


def _label(name: str) -> str:
    """The name of an energy, from the suffix of its variables."""
    return name.removeprefix("_").replace("_", "-") or "energy"


def _loss(axes: Axes, dataset: xr.Dataset, name: str) -> None:
    times = values(dataset, "time", ("time",))
    recorded = -_read(dataset, _RATE, name)
    differences = -np.diff(_read(dataset, _PREFIX, name)) / np.diff(times)
    steepest = _steepest(dataset, name)
    rates = [recorded, differences, *([] if steepest is None else [steepest])]
    both = np.concatenate(rates, axis=-1)
    if np.all(both[np.isfinite(both)] > 0) and spans_decades(both):
        axes.set_yscale("log")
    draw(axes, times, recorded, CYCLE[0])
    middle = (times[1:] + times[:-1]) / 2
    dots = slice(None, None, max(1, -(-middle.size // _DOTS)))
    shown = _median(differences)
    axes.plot(middle[dots], shown[dots], "o", color=CYCLE[1], markersize=3.5, zorder=1)
    axes.grid(visible=True, axis="y")
    axes.set(xlabel="time $t$", ylabel="$-dE/dt$")
    handles = [
        Line2D([], [], color=CYCLE[0], label=r"$-\int\nabla\delta E\cdot v\,d\mu$"),
        Line2D([], [], color=CYCLE[1], marker="o", ls="none", label="differences"),
    ]
    if steepest is not None:
        look = {"color": CYCLE[2], "linestyle": _DASHES, "marker": marker(times)}
        axes.plot(times, _median(steepest), **look)
        handles.append(Line2D([], [], label=_names(dataset).loss, **look))
    legend(axes, handles, 3)


def _median(values: np.ndarray) -> np.ndarray:
    """Over runs, if there are several."""
    return np.median(values, axis=0) if values.ndim > 1 else values


def _steepest(dataset: xr.Dataset, name: str) -> np.ndarray | None:
    """What a gradient flow would lose, if that was observed and is somewhere finite."""
    if f"{_STEEPEST}{name}" not in dataset:
        return None
    rates = -_read(dataset, _STEEPEST, name)
    return rates if np.isfinite(rates).any() else None


class _Names(NamedTuple):
    """A gradient flow, what it loses, and how a run is told from it.

    Among Gaussians it loses the affine part alone. Of a density on a grid neither rate
    is known better than its cells tell.
    """

    flow: str
    loss: str
    apart: str = "no {flow} of this energy: it is lost {times} one"


_FLOW, _LOSS = "Wasserstein gradient flow", r"$\int|\nabla\delta E|^2\,d\mu$"
_OVER_CELLS = "the energy is lost {times} its {flow}, both as sums over cells"
_NAMES = {
    "gaussian": _Names(_AMONG_GAUSSIANS, _AMONG_GAUSSIANS),
    "grid": _Names(_FLOW, _LOSS, _OVER_CELLS),
}


def _names(dataset: xr.Dataset) -> _Names:
    return _NAMES.get(kind(dataset), _Names(_FLOW, _LOSS))


def _verdict(dataset: xr.Dataset, name: str) -> str:
    """Whether the energy is lost as by its gradient flow, in words."""
    steepest = _steepest(dataset, name)
    if steepest is None:
        return ""
    recorded = -_read(dataset, _RATE, name)
    there = np.isfinite(steepest) & np.isfinite(recorded)
    largest = float(np.abs(steepest[there]).max(initial=0.0))
    gap = float(np.abs(recorded - steepest)[there].max(initial=0.0))
    names = _names(dataset)
    if gap <= _SAME * largest:
        apart = f", to {gap / largest:.0e} of its largest value" if gap else ""
        return f"the energy is lost as in its {names.flow}{apart}"
    there &= steepest > _ROUNDING * largest
    if not there.any():
        return ""
    ratios = recorded[there] / steepest[there]
    times = f"{ratios.min():.3g} to {ratios.max():.3g} times as fast as in"
    return names.apart.format(flow=names.flow, times=times)
