"""What a density keeps and what it loses: mass, entropy, covariance, over time."""

from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.bands import (
    draw,
    draw_eigenvalues,
    spans_decades,
    tell_ending,
)
from meanfield.plotting._figure.look import options_for
from meanfield.plotting._figure.marks import legend
from meanfield.plotting._figure.panels import (
    panel,
    panels,
    titled_figure,
)
from meanfield.plotting._figure.style import CYCLE, INK
from meanfield.plotting.reading.data import NOTHING, values
from meanfield.plotting.reading.density import (
    density_moments,
    density_run,
    entropies,
    every_frame,
)
from meanfield.plotting.reading.observables import per_run, spectrum

# Masses below this are rounding of rounding, and below the picture.
_FLOOR = 2e-20


@panels.register("balance")
@panel(*options_for("balance"))
def balance(dataset: xr.Dataset) -> Figure:
    r"""Mass, entropy $\int\rho\log\rho$ and eigenvalues of $\Sigma$ of a density.

    Of the mass: what has left the box, and by how much what is left and what has left
    miss what was there. An ensemble is drawn by its medians and 10–90 % bands.

    Raises:
        InvalidInputError: if the dataset holds no density, or no frame is finite.
    """
    sizes = per_run(dataset, _eigenvalues)
    if not np.isfinite(sizes).any():
        raise InvalidInputError(NOTHING)
    times = values(dataset, "time", ("time",))
    figure = titled_figure(dataset, (6.6, 7.4))
    rows = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1, 1.2])
    notes = _mass(rows[0], dataset, times)
    draw(rows[1], times, per_run(dataset, _entropy), INK)
    rows[1].set_ylabel(r"entropy $\int\rho\,\log\rho\,dx$")
    _spectra(rows[2], times, sizes)
    rows[2].set(xlabel="time $t$", ylabel=r"eigenvalues of $\Sigma$")
    for axes in rows:
        axes.grid(visible=True, axis="y")
    tell_ending(figure, dataset, notes)
    return figure


def _whole(run: xr.Dataset, of: Callable[[xr.Dataset], np.ndarray]) -> np.ndarray:
    """Numbers of the finite frames of a run, NaN at the others."""
    known = np.isin(values(run, "time", ("time",)), density_run(run).times)
    numbers = of(run)
    result = np.full((len(known), *numbers.shape[1:]), np.nan)
    result[known] = numbers
    return result


def _entropy(run: xr.Dataset) -> np.ndarray:
    return _whole(run, lambda one: entropies(density_run(one)))


def _eigenvalues(run: xr.Dataset) -> np.ndarray:
    return spectrum(density_moments(every_frame(run)).factor)


def _lost(run: xr.Dataset) -> np.ndarray:
    return _whole(run, lambda one: density_run(one).outflow)


def _missed(run: xr.Dataset) -> np.ndarray:
    def missed(one: xr.Dataset) -> np.ndarray:
        run = density_run(one)
        total = run.mass.reshape(len(run.times), -1).sum(axis=1) + run.outflow
        return np.abs(total - total[0])

    return _whole(run, missed)


def _mass(axes: Axes, dataset: xr.Dataset, times: np.ndarray) -> str:
    """What has left, and what is missing; logarithmic, so zeros are left out."""
    handles, shown = [], []
    for of, colour, name in (
        (_lost, CYCLE[1], "has left the box"),
        (_missed, CYCLE[0], "missing in the balance"),
    ):
        curve = per_run(dataset, of)
        shown.append(curve)
        if np.any(curve > _FLOOR):
            draw(axes, times, np.where(curve > _FLOOR, curve, np.nan), colour)
            handles.append(Line2D([], [], color=colour, label=name))
    axes.set_ylabel("mass")
    if handles:
        legend(axes, handles, len(handles))
    largest = np.nanmax(np.stack(shown))
    if largest <= _FLOOR:
        return "nothing has left the box, and nothing is missing"
    axes.set_yscale("log")
    axes.set_ylim(_FLOOR, max(10 * largest, 1e-12))
    whole = np.all(np.stack(shown) > _FLOOR)
    return "" if whole else f"masses below {_FLOOR:.0g} are left out"


def _spectra(axes: Axes, times: np.ndarray, sizes: np.ndarray) -> None:
    if spans_decades(sizes):
        axes.set_yscale("log")
    handles = draw_eigenvalues(axes, times, sizes)
    if len(handles) > 1:
        legend(axes, handles, len(handles))
