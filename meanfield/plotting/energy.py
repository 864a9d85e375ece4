"""The panel `energy`: energies over time, and the rates at which they decrease."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError

from ._figure.bands import annotate_ending, draw, marker, scale_time, spans_decades
from ._figure.joint import Row, Runs, draw_rows, joint_panel
from ._figure.marks import dot_entry, entry, legend
from ._figure.panels import annotate, registered_panel, titled_figure
from ._figure.style import CYCLE
from .reading.data import kind, values

_PREFIX, _RATE, _STEEPEST = "energy", "dissipation", "steepest"
_GAUSSIAN_FLOW = "gradient flow among Gaussians"
_DASHES = (0, (4, 2))
_DOTS = 25  # largest number of difference quotients that are drawn
_ROUNDING = 1e-9  # rates below this share of the largest rate are left out of ratios
# Two rates count as equal if they differ by at most this share of the largest rate.
_RATE_RTOL = 1e-3


@registered_panel("energy")
def energy(dataset: xr.Dataset) -> Figure:
    r"""Observed energies $E(t)$ (top) and the rates of decrease $-dE/dt$ (bottom).

    The rate is drawn in two ways: as recorded in each frame,
    $-\int\nabla\delta E\cdot v\,d\mu$, and as the difference quotient of successive
    frames, at the midpoint in time. The dashed curve, if the run recorded it, is the
    rate along the gradient flow of the energy, $\int|\nabla\delta E|^2\,d\mu$. For a
    Gaussian it is the smaller rate along the gradient flow among Gaussians. An ensemble
    is drawn as its medians and its 10–90 % bands.

    Raises:
        InvalidInputError: if the run observed no energy, or no energy is finite.
    """
    names = _energy_suffixes(dataset)
    figure = titled_figure(dataset, (1.2 + 5.4 * len(names), 6.4))
    grid = figure.subplots(
        2, len(names), sharex=True, squeeze=False, height_ratios=[1.4, 1]
    )
    for (top, bottom), name in zip(grid.T, names, strict=True):
        _energy(top, dataset, name)
        _loss(bottom, dataset, name)
        verdict = _verdict(dataset, name)
        head = f"{_label(name)}: " if verdict and len(names) > 1 else ""
        annotate(figure, head + verdict)
    annotate_ending(figure, dataset)
    return figure


@joint_panel("energy", "xlim", "ylim", "xscale", "yscale")
def joint_energy(runs: Runs) -> Figure:
    """Energies $E(t)$ of several runs, with a row for each energy that all observed.

    Raises:
        InvalidInputError: if there is no such energy.
    """
    suffixes = [_energy_suffixes(run) for run in runs.values()]
    common = [name for name in suffixes[0] if all(name in row for row in suffixes)]
    if not common:
        raise InvalidInputError(
            "These runs have no observed energy in common. Simulate each of them with "
            "the same `--observe`."
        )
    rows = [
        Row(
            f"{_label(name)} $E$",
            [_read(run, _PREFIX, name)[None] for run in runs.values()],
            _keep_frame,
        )
        for name in common
    ]
    return draw_rows(runs, "energy", *rows)


def _keep_frame(axes: Axes, energies: np.ndarray) -> None:
    """Keeps matplotlib's linear axis, since energies may have both signs."""


def _energy_suffixes(dataset: xr.Dataset) -> list[str]:
    """Suffixes of the variables of the energies that are finite in some frame."""
    suffixes = [
        name.removeprefix(_PREFIX)
        for name in map(str, dataset.data_vars)
        if name.startswith(_PREFIX) and name.replace(_PREFIX, _RATE, 1) in dataset
    ]
    if not suffixes:
        raise InvalidInputError(
            "This run has no stored energy. Simulate it with `--observe energy`."
        )
    finite = [
        name for name in suffixes if np.isfinite(_read(dataset, _PREFIX, name)).any()
    ]
    if not finite:
        raise InvalidInputError("No energy of this run is finite in any frame.")
    return finite


def _read(dataset: xr.Dataset, prefix: str, name: str) -> np.ndarray:
    leading = ("run",) if "run" in dataset.dims else ()
    return values(dataset, f"{prefix}{name}", (*leading, "time"))


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
    loss = -_read(dataset, _RATE, name)
    differences = -np.diff(_read(dataset, _PREFIX, name)) / np.diff(times)
    steepest = _steepest(dataset, name)
    rates = [loss, differences, *([] if steepest is None else [steepest])]
    rate_values = np.concatenate(rates, axis=-1)
    if np.all(rate_values[np.isfinite(rate_values)] > 0) and spans_decades(rate_values):
        axes.set_yscale("log")
    draw(axes, times, loss, CYCLE[0])
    middle = (times[1:] + times[:-1]) / 2
    dots = slice(None, None, max(1, -(-middle.size // _DOTS)))
    medians = _median(differences)
    axes.plot(
        middle[dots], medians[dots], "o", color=CYCLE[1], markersize=3.5, zorder=1
    )
    axes.grid(visible=True, axis="y")
    scale_time(axes, times)
    axes.set(xlabel="time $t$", ylabel="$-dE/dt$")
    handles = [
        entry(r"$-\int\nabla\delta E\cdot v\,d\mu$", CYCLE[0]),
        dot_entry("differences", CYCLE[1]),
    ]
    if steepest is not None:
        style = {"linestyle": _DASHES, "marker": marker(times)}
        axes.plot(times, _median(steepest), color=CYCLE[2], **style)
        handles.append(entry(_names(dataset).loss, CYCLE[2], **style))
    legend(axes, handles, 3)


def _median(values: np.ndarray) -> np.ndarray:
    """The median over the runs of an ensemble; the values of a single run."""
    return np.median(values, axis=0) if values.ndim > 1 else values


def _steepest(dataset: xr.Dataset, name: str) -> np.ndarray | None:
    """Rate of decrease along the gradient flow; None if not recorded or not finite."""
    if f"{_STEEPEST}{name}" not in dataset:
        return None
    rates = -_read(dataset, _STEEPEST, name)
    return rates if np.isfinite(rates).any() else None


class _Names(NamedTuple):
    """Texts about a gradient flow: its name, its rate, and a note for other rates.

    The rate is that at which the energy decreases. Among Gaussians, it contains only
    the affine part of the gradient. On a grid, the rates of the run and of the gradient
    flow are sums over cells, which are accurate only to the resolution. The note then
    compares these rates, and does not conclude that the run is another flow:
    `is_exact` is false.
    """

    flow: str
    loss: str
    mismatch: str = "no {flow} of this energy: it is lost {times} one"
    is_exact: bool = True


_FLOW, _LOSS = "Wasserstein gradient flow", r"$\int|\nabla\delta E|^2\,d\mu$"
_GRID_MISMATCH = "the energy is lost {times} its {flow}, both as sums over cells"
_NAMES = {
    "gaussian": _Names(_GAUSSIAN_FLOW, _GAUSSIAN_FLOW),
    "grid": _Names(_FLOW, _LOSS, _GRID_MISMATCH, is_exact=False),
}


def _names(dataset: xr.Dataset) -> _Names:
    return _NAMES.get(kind(dataset), _Names(_FLOW, _LOSS))


def _verdict(dataset: xr.Dataset, name: str) -> str:
    """A note on whether the energy decreases at the rate of its gradient flow."""
    steepest = _steepest(dataset, name)
    if steepest is None:
        return ""
    loss = -_read(dataset, _RATE, name)
    mask = np.isfinite(steepest) & np.isfinite(loss)
    largest = float(np.abs(steepest[mask]).max(initial=0.0))
    gap = float(np.abs(loss - steepest)[mask].max(initial=0.0))
    names = _names(dataset)
    if gap <= _RATE_RTOL * largest:
        gap_note = f", to {gap / largest:.0e} of its largest value" if gap else ""
        return f"the energy is lost as in its {names.flow}{gap_note}"
    mask &= steepest > _ROUNDING * largest
    if not mask.any():
        return ""
    ratios = loss[mask] / steepest[mask]
    share = float(np.abs(ratios).max())
    is_constant = ratios.size > 1 and np.ptp(ratios) <= _RATE_RTOL * share
    if names.is_exact and is_constant and share > _RATE_RTOL:
        law = f"its {names.flow}, always"
        if ratios[0] < 0:
            return f"the energy grows at {share:.4g} of the rate of loss in {law}"
        return f"the energy is lost at {share:.4g} of the rate of {law}"
    times = f"{ratios.min():.3g} to {ratios.max():.3g} times as fast as in"
    return names.mismatch.format(flow=names.flow, times=times)
