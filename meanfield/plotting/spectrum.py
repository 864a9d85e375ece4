"""The eigenvalues of the covariance over time, and the effective rank."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError
from meanfield.spectrum import effective_rank

from ._figure.bands import band_note, draw, draw_eigenvalues, spans_decades
from ._figure.look import options_for
from ._figure.marks import legend
from ._figure.panels import (
    annotate,
    ending_note,
    mark_blow_up,
    panel,
    panels,
    titled_figure,
)
from ._figure.picture import Picture
from ._figure.style import CYCLE, INK, number_map
from ._figure.times import name_time
from ._runs.approach import approached
from ._runs.data import NOTHING, Ending, ending, values
from ._runs.observables import per_run, rounded_spectrum

# Eigenvalues that get a colour and a name each.
_NAMED = len(CYCLE) - 1
_DOTS = 30  # frames that are marked, where curves go on between them
_TICKS = 6  # on the scale of the others, from the first to the last


@panels.register("spectrum")
@panel(*options_for("spectrum"))
def spectrum(dataset: xr.Dataset) -> Figure:
    r"""Eigenvalues of $\Sigma(t)$ above, the effective rank of $\Sigma(t)$ below.

    On the line there is the variance alone. The scale is logarithmic when they span
    over two decades; what is zero, up to the rounding of the states, is then left out.
    An ensemble is drawn by its median and its 10–90 % band, each over the runs that
    still have a state.

    Raises:
        InvalidInputError: if the dataset holds no tokens, Gaussian or density.
    """
    spectra = per_run(dataset, rounded_spectrum)
    if not np.isfinite(spectra).any():
        raise InvalidInputError(NOTHING)
    times = values(dataset, "time", ("time",))
    if spectra.shape[-1] == 1:  # its effective rank says nothing
        figure = titled_figure(dataset, (6.6, 4.6))
        rows = [figure.add_subplot()]
        rows[0].set_ylabel(r"variance $\Sigma$")
    else:
        figure = titled_figure(dataset, (6.6, 6.4))
        rows = list(figure.subplots(2, 1, sharex=True, height_ratios=[1.7, 1]))
        rows[0].set_ylabel(r"eigenvalues of $\Sigma$")
        _ranks(rows[1], times, effective_rank(spectra))
    end = None if "run" in dataset.dims else ending(dataset)
    notes = _spectra(figure, rows[0], times, spectra, end)
    name_time(rows[-1], dataset)
    if end is None:
        annotate(figure, *notes, band_note(dataset))
        return figure
    for axes in rows:
        mark_blow_up(axes, end)
    annotate(figure, *notes, ending_note(end))
    return figure


def _ranks(axes: Axes, times: np.ndarray, ranks: np.ndarray) -> None:
    draw(axes, times, ranks, INK)
    axes.set(ylabel="effective rank", ylim=_rank_limits(ranks))
    axes.grid(visible=True, axis="y")


def _spectra(
    figure: Picture,
    axes: Axes,
    times: np.ndarray,
    spectra: np.ndarray,
    end: Ending | None,
) -> list[str]:
    """Draw the eigenvalues, on the scale that suits them; returns notes."""
    axes.grid(visible=True, axis="y")
    notes = []
    if spans_decades(spectra):
        axes.set_yscale("log")
        if np.any(spectra == 0):
            notes.append("eigenvalues that are zero, or rounding, are left out")
        spectra = np.where(spectra == 0, np.nan, spectra)
    d = spectra.shape[-1]
    if d > _NAMED and spectra.ndim == 2:
        _many(figure, axes, times, spectra)
        return notes
    count = min(d, _NAMED)
    shown = spectra[..., :count]
    if end is not None and axes.get_yscale() == "log":
        finer, curves = approached(end, times, shown)
        if times.size < finer.size and times.size <= _DOTS:
            axes.plot(times, shown, "o", color=INK, markersize=3, zorder=3)
        notes.append(_between_note(times.size, finer.size))
        times, shown = finer, curves
    handles = draw_eigenvalues(axes, times, shown)
    if d > 1:
        legend(axes, handles, len(handles))
    return [*notes, f"largest {count} of {d} eigenvalues" if count < d else ""]


def _between_note(frames: int, drawn: int) -> str:
    """What small print says of curves of so many frames, drawn by so many points."""
    if drawn == frames:
        return ""
    law = "by powers of t* − t"
    return (
        f"between frames {law}"
        if frames > _DOTS
        else f"dots: frames; between them {law}"
    )


def _many(figure: Picture, axes: Axes, times: np.ndarray, spectra: np.ndarray) -> None:
    """Thin lines coloured by index, the largest eigenvalue first and on top."""
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
    bar = figure.colorbar(lines, ax=figure.axes[:2], aspect=40, pad=0.02)
    bar.set_ticks(np.unique(np.linspace(1, d, min(d, _TICKS)).round()).tolist())
    bar.set_label("index $k$, from the largest")
    bar.outline.set_visible(False)


def _rank_limits(ranks: np.ndarray) -> tuple[float, float]:
    """Limits from one (zero, if the covariance vanishes) to above the largest rank."""
    low = 1.0 if np.nanmin(ranks) >= 1 else 0.0
    high = max(float(np.nanmax(ranks)), 1.5)
    margin = 0.06 * (high - low)
    return low - margin, high + margin
