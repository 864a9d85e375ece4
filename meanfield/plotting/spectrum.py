"""The panels `rank` and `spectrum`: eigenvalues of the covariance over time."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError
from meanfield.spectrum import effective_rank

from ._figure.bands import (
    annotate_ending,
    draw,
    draw_eigenvalues,
    name_time,
    spans_decades,
)
from ._figure.joint import Row, Runs, draw_rows, joint_panel
from ._figure.marks import colour_bar, legend
from ._figure.panels import registered_panel, titled_figure
from ._figure.picture import Picture
from ._figure.style import CYCLE, INK, number_map
from .reading.data import Ending, check_finite, ending, values
from .reading.observables import map_runs, rounded_spectrum

# If there are at most `_N_NAMES` eigenvalues, each has its own colour and legend entry.
_N_NAMES = len(CYCLE) - 1
_DOTS = 30  # largest number of frames that are marked on a refined curve
_TICKS = 6  # largest number of ticks on the colour bar of eigenvalue indices
_N_SUBSTEPS = 40  # number of intervals of a refined curve between two frames
_LAST = 1e-14  # minimum of (t* − t) / t*; smaller values are rounding errors
_LABEL = "effective rank"
_LEAST_MARGIN = 0.01  # so that a constant rank is not a picture of its rounding


@registered_panel("rank")
def rank(dataset: xr.Dataset) -> Figure:
    r"""Effective rank of $\Sigma(t)$, between 1 for a line and $d$ for a ball.

    An ensemble is drawn as its median and its 10–90 % band.

    Raises:
        InvalidInputError: if $d = 1$, or the dataset contains no tokens, Gaussian or
            density.
    """
    ranks = _ranks(dataset)[0]
    check_finite(ranks)
    figure = titled_figure(dataset, (6.6, 4.6), _LABEL)
    axes = figure.add_subplot()
    draw_ranks(axes, values(dataset, "time", ("time",)), ranks)
    name_time(axes, dataset)
    annotate_ending(figure, dataset)
    return figure


@joint_panel("rank", "xlim", "ylim", "xscale", "yscale")
def joint_rank(runs: Runs) -> Figure:
    r"""Effective rank of $\Sigma(t)$ of several runs."""
    return draw_rows(
        runs, _LABEL, Row(_LABEL, [*map(_ranks, runs.values())], frame_ranks)
    )


def draw_ranks(axes: Axes, times: np.ndarray, ranks: np.ndarray) -> None:
    """Draw effective ranks of shape (…, time) over time."""
    frame_ranks(axes, ranks)
    draw(axes, times, ranks, INK)
    axes.set_ylabel(_LABEL)
    axes.grid(visible=True, axis="y")


def frame_ranks(axes: Axes, ranks: np.ndarray) -> None:
    """Set limits that contain all ranks."""
    low, high = float(np.nanmin(ranks)), float(np.nanmax(ranks))
    margin = max(0.06 * (high - low), _LEAST_MARGIN)
    axes.set_ylim(low - margin, high + margin)


def _ranks(dataset: xr.Dataset) -> np.ndarray:
    """The effective rank, of shape (1, …, time)."""
    spectra = map_runs(dataset, rounded_spectrum)
    if spectra.shape[-1] == 1:
        raise InvalidInputError(
            "In one dimension the effective rank is always 1: draw the variance with "
            "the panel `spectrum`."
        )
    return effective_rank(spectra)[None]


@registered_panel("spectrum")
def spectrum(dataset: xr.Dataset) -> Figure:
    r"""Eigenvalues of $\Sigma(t)$ (top) and the effective rank of $\Sigma(t)$ (bottom).

    In one dimension only the variance is drawn. The scale is logarithmic if the
    eigenvalues span more than two decades; eigenvalues that are zero, up to the
    rounding of the states, are then left out. An ensemble is drawn as its median and
    its 10–90 % band, both over the runs that still have a finite state.

    Raises:
        InvalidInputError: if the dataset contains no tokens, Gaussian or density.
    """
    spectra = map_runs(dataset, rounded_spectrum)
    check_finite(spectra)
    times = values(dataset, "time", ("time",))
    if spectra.shape[-1] == 1:  # in one dimension the effective rank is always 1
        figure = titled_figure(dataset, (6.6, 4.6), "spectrum")
        rows = [figure.add_subplot()]
        rows[0].set_ylabel(r"variance $\Sigma$")
    else:
        figure = titled_figure(dataset, (6.6, 6.4), "spectrum")
        rows = list(figure.subplots(2, 1, sharex=True, height_ratios=[1.7, 1]))
        rows[0].set_ylabel(r"eigenvalues of $\Sigma$")
        draw_ranks(rows[1], times, effective_rank(spectra))
    end = None if "run" in dataset.dims else ending(dataset)
    notes = _spectra(figure, rows[0], times, spectra, end)
    name_time(rows[-1], dataset)
    annotate_ending(figure, dataset, *notes)
    return figure


@joint_panel("spectrum", "xlim", "ylim", "xscale", "yscale", "relative")
def joint_spectrum(runs: Runs) -> Figure:
    r"""Largest and smallest eigenvalue of $\Sigma(t)$ of several runs.

    The smallest eigenvalues are dashed. Zeros are left out on a logarithmic scale.
    """
    spectra = [map_runs(run, rounded_spectrum) for run in runs.values()]
    ends = [[0, -1] if spectrum.shape[-1] > 1 else [0] for spectrum in spectra]
    curves = [
        np.moveaxis(spectrum[..., indices], -1, 0)
        for spectrum, indices in zip(spectra, ends, strict=True)
    ]
    row = Row("eigenvalues of $\\Sigma$", curves, _frame_eigenvalues)
    note = "solid: largest, dashed: smallest" if [0, -1] in ends else ""
    return draw_rows(runs, "spectrum", row, note=note)


def _frame_eigenvalues(axes: Axes, eigenvalues: np.ndarray) -> None:
    if spans_decades(eigenvalues):
        axes.set_yscale("log")


def _spectra(
    figure: Picture,
    axes: Axes,
    times: np.ndarray,
    spectra: np.ndarray,
    end: Ending | None,
) -> list[str]:
    """Draw the eigenvalues on a linear or logarithmic scale; return notes."""
    axes.grid(visible=True, axis="y")
    notes = []
    if spans_decades(spectra):
        axes.set_yscale("log")
        if np.any(spectra == 0):
            notes.append("eigenvalues that are zero, or rounding, are left out")
        spectra = np.where(spectra == 0, np.nan, spectra)
    d = spectra.shape[-1]
    if d > _N_NAMES and spectra.ndim == 2:
        _draw_many(figure, axes, times, spectra)
        return notes
    count = min(d, _N_NAMES)
    eigenvalues = spectra[..., :count]
    if end is not None and axes.get_yscale() == "log":
        finer, curves = _refine_curves(end, times, eigenvalues)
        if times.size < finer.size and times.size <= _DOTS:
            axes.plot(times, eigenvalues, "o", color=INK, markersize=3, zorder=3)
        notes.append(_refinement_note(times.size, finer.size))
        times, eigenvalues = finer, curves
    handles = draw_eigenvalues(axes, times, eigenvalues)
    if d > 1:
        legend(axes, handles, len(handles))
    return [*notes, f"largest {count} of {d} eigenvalues" if count < d else ""]


def _refine_curves(
    ending: Ending, times: np.ndarray, curves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Times and curves (time, …), refined between the frames before a blow-up.

    Between frames the logarithm of a value is interpolated linearly in
    $\log(t^* - t)$, which is exact for every power of $t^* - t$; a straight line in $t$
    would hide decades. Without a blow-up, times and curves are returned unchanged.
    """
    is_blow_up = np.isfinite(ending.t_star) and times.size > 1
    if not is_blow_up or not np.all(np.diff(times) > 0) or np.any(curves <= 0):
        return times, curves
    left = np.maximum(ending.t_star - times, _LAST * abs(ending.t_star))
    places = np.arange(times.size)
    fine = np.linspace(0, times.size - 1, _N_SUBSTEPS * (times.size - 1) + 1)
    ways = np.interp(fine, places, np.log(left))
    inner = ending.t_star - np.exp(ways)
    flat = np.log(curves).reshape(times.size, -1).T
    logs = np.stack([np.interp(fine, places, row) for row in flat], axis=-1)
    inner[::_N_SUBSTEPS] = times
    return inner, np.exp(logs).reshape(fine.size, *curves.shape[1:])


def _refinement_note(frames: int, n_points: int) -> str:
    """A note on how curves were refined, from `frames` to `n_points` points."""
    if n_points == frames:
        return ""
    where = "between frames" if frames > _DOTS else "dots: frames; between them"
    return f"{where} by powers of t* − t"


def _draw_many(
    figure: Picture, axes: Axes, times: np.ndarray, spectra: np.ndarray
) -> None:
    """Draw thin lines coloured by index, the largest eigenvalue on top."""
    spectra = spectra[:, np.isfinite(spectra).any(axis=0)]
    d = spectra.shape[1]
    curves = [np.column_stack([times, curve]) for curve in spectra.T[::-1]]
    lines = LineCollection(
        curves, array=np.arange(d, 0, -1), cmap=number_map(figure.look), linewidths=0.9
    )
    lines.set_norm(Normalize(1, d))
    axes.add_collection(lines)
    if times.size == 1:
        axes.scatter(np.repeat(times, d), spectra[0], 6, np.arange(d))
    axes.autoscale_view()
    bar = colour_bar(figure.axes[:2], lines, "index $k$, from the largest", aspect=40)
    bar.set_ticks(np.unique(np.linspace(1, d, min(d, _TICKS)).round()).tolist())
