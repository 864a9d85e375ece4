"""The panel `balance`: mass, entropy and covariance of a density over time."""

from collections.abc import Callable
from operator import attrgetter

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield.plotting._figure.bands import (
    annotate_ending,
    draw,
    draw_eigenvalues,
    spans_decades,
)
from meanfield.plotting._figure.marks import entry, legend
from meanfield.plotting._figure.panels import registered_panel, titled_figure
from meanfield.plotting._figure.style import CYCLE, INK
from meanfield.plotting.reading.data import check_finite, values
from meanfield.plotting.reading.density import (
    Density,
    density_moments,
    density_run,
    entropies,
    every_frame,
)
from meanfield.plotting.reading.observables import map_runs
from meanfield.spectrum import spectrum

# Masses below `_FLOOR` are far below rounding error and are not drawn.
_FLOOR = 2e-20


@registered_panel("balance")
def balance(dataset: xr.Dataset) -> Figure:
    r"""Mass, entropy $\int\rho\log\rho$ and eigenvalues of $\Sigma$ of a density.

    The first row shows the mass that has left the box, and the error of the mass
    balance: how far the sum of remaining and lost mass is from the initial mass. An
    ensemble is drawn as its medians and 10–90 % bands.

    Raises:
        InvalidInputError: if the dataset contains no density, or no frame is finite.
    """
    sizes = map_runs(dataset, _eigenvalues)
    check_finite(sizes)
    times = values(dataset, "time", ("time",))
    figure = titled_figure(dataset, (6.6, 7.4))
    rows = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1, 1.2])
    notes = _mass(rows[0], dataset, times)
    draw(rows[1], times, _map_frames(dataset, entropies), INK)
    rows[1].set_ylabel(r"entropy $\int\rho\,\log\rho\,dx$")
    _spectra(rows[2], times, sizes)
    rows[2].set(xlabel="time $t$", ylabel=r"eigenvalues of $\Sigma$")
    for axes in rows:
        axes.grid(visible=True, axis="y")
    annotate_ending(figure, dataset, notes)
    return figure


def _map_frames(
    dataset: xr.Dataset, observable: Callable[[Density], np.ndarray]
) -> np.ndarray:
    """An observable of the finite frames of each run, with NaN in the other frames."""

    def curve(run: xr.Dataset) -> np.ndarray:
        law, times = density_run(run), values(run, "time", ("time",))
        result = np.full(len(times), np.nan)
        result[np.isin(times, law.times)] = observable(law)
        return result

    return map_runs(dataset, curve)


def _eigenvalues(run: xr.Dataset) -> np.ndarray:
    return spectrum(density_moments(every_frame(run)).factor)


def _mass_defect(law: Density) -> np.ndarray:
    total = law.mass.reshape(len(law.times), -1).sum(axis=1) + law.outflow
    return np.abs(total - total[0])


def _mass(axes: Axes, dataset: xr.Dataset, times: np.ndarray) -> str:
    """Draw lost mass and balance error on a logarithmic scale; return a note."""
    handles, curves = [], []
    for observable, colour, name in (
        (attrgetter("outflow"), CYCLE[1], "has left the box"),
        (_mass_defect, CYCLE[0], "missing in the balance"),
    ):
        curve = _map_frames(dataset, observable)
        curves.append(curve)
        if np.any(curve > _FLOOR):
            draw(axes, times, np.where(curve > _FLOOR, curve, np.nan), colour)
            handles.append(entry(name, colour))
    axes.set_ylabel("mass")
    if handles:
        legend(axes, handles, len(handles))
    largest = np.nanmax(np.stack(curves))
    if largest <= _FLOOR:
        return "nothing has left the box, and nothing is missing"
    axes.set_yscale("log")
    axes.set_ylim(_FLOOR, max(10 * largest, 1e-12))
    whole = np.all(np.stack(curves) > _FLOOR)
    return "" if whole else f"masses below {_FLOOR:.0g} are left out"


def _spectra(axes: Axes, times: np.ndarray, sizes: np.ndarray) -> None:
    if spans_decades(sizes):
        axes.set_yscale("log")
    handles = draw_eigenvalues(axes, times, sizes)
    if len(handles) > 1:
        legend(axes, handles, len(handles))
