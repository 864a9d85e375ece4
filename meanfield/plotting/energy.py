"""Energies over time, and whether they change at the rate that was recorded."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.errors import InvalidInputError

from ._figure.bands import BAND_NOTE, draw, spans_decades
from ._figure.marks import legend
from ._figure.panels import (
    annotate,
    ending_note,
    mark_blow_up,
    panel,
    panels,
    titled_figure,
)
from ._figure.style import CYCLE
from ._runs.data import ending, values

_PREFIX, _RATE = "energy", "dissipation"


@panels.register("energy")
@panel("xlim", "ylim")
def energy(dataset: xr.Dataset) -> Figure:
    r"""Observed energies $E(t)$ above, their loss $-dE/dt$ below, in two ways.

    As recorded, $-\int\nabla\delta E\cdot v\,d\mu$ at each frame, and as the difference
    of successive frames over the time between them, at its middle. An ensemble is drawn
    by its medians and its 10–90 % bands.

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
    if "run" in dataset.dims:
        annotate(figure, BAND_NOTE)
        return figure
    for axes in figure.axes:
        mark_blow_up(axes, ending(dataset))
    annotate(figure, ending_note(ending(dataset)))
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
    which = name.removeprefix("_").replace("_", "-")
    axes.set_ylabel(f"{which or 'energy'} $E$")


def _loss(axes: Axes, dataset: xr.Dataset, name: str) -> None:
    times = values(dataset, "time", ("time",))
    recorded = -_read(dataset, _RATE, name)
    differences = -np.diff(_read(dataset, _PREFIX, name)) / np.diff(times)
    both = np.concatenate([recorded, differences], axis=-1)
    if np.all(both[np.isfinite(both)] > 0) and spans_decades(both):
        axes.set_yscale("log")
    draw(axes, times, recorded, CYCLE[0])
    middle = (times[1:] + times[:-1]) / 2
    shown = np.median(differences, axis=0) if differences.ndim > 1 else differences
    axes.plot(middle, shown, "o", color=CYCLE[1], markersize=3, linestyle="none")
    axes.grid(visible=True, axis="y")
    axes.set(xlabel="time $t$", ylabel="$-dE/dt$")
    handles = [
        Line2D([], [], color=CYCLE[0], label=r"$-\int\nabla\delta E\cdot v\,d\mu$"),
        Line2D([], [], color=CYCLE[1], marker="o", ls="none", label="differences"),
    ]
    legend(axes, handles, 2)
