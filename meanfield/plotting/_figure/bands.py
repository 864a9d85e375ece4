"""Curves over time: one run as a line, an ensemble as its median and a band."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from meanfield.endings import Status, summarise_endings
from meanfield.plotting.reading.data import ending, runs
from meanfield.plotting.reading.depth import layers_passed
from meanfield.plotting.reading.description import spec_of

from .marks import entry
from .panels import COLOUR_BAR, annotate, ending_note, mark_blow_up
from .style import CYCLE, PALE
from .text import superscript_powers

_DASHES = (0, (4, 4))
_OVERLAP_RTOL = 0.01  # curves with a smaller relative difference are taken to coincide
_DOTS = 30  # largest number of frames that are marked on a step curve

# Times are spaced logarithmically if the last is this much larger than the median.
_DECADES = 10.0

BAND_NOTE = "line: median of the runs still going; band: 10–90 %"


def band_note(dataset: xr.Dataset) -> str:
    """A note on the line and the band of an ensemble, and on how its runs ended."""
    ends = [ending(run) for run in runs(dataset)]
    statuses = [end.status for end in ends]
    if set(statuses) == {Status.FINISHED}:
        return BAND_NOTE
    stars = [end.t_star for end in ends if np.isfinite(end.t_star)]
    span = f"; t* from {min(stars):.4g} to {max(stars):.4g}" if stars else ""
    return (
        f"{BAND_NOTE}; ended: {summarise_endings(statuses)}{superscript_powers(span)}"
    )


def annotate_ending(figure: Figure, dataset: xr.Dataset, *notes: str) -> None:
    """Add small print: notes, and the ending of a run or the band of an ensemble.

    For a single run the time of a blow-up, if any, is marked on all axes.
    """
    if "run" in dataset.dims:
        annotate(figure, *notes, band_note(dataset))
        return
    end = ending(dataset)
    for axes in figure.axes:
        if axes.get_label() != COLOUR_BAR:
            mark_blow_up(axes, end)
    annotate(figure, *notes, ending_note(end))


def quantiles(values: np.ndarray) -> np.ndarray:
    """The 10, 50 and 90 % quantiles of the finite values over runs (first axis).

    They are NaN where no run is finite.
    """
    is_finite = np.isfinite(values)
    is_missing = ~is_finite.any(axis=0)
    numbers = np.where(is_finite, values, np.where(is_missing, 0.0, np.nan))
    levels = np.nanquantile(numbers, [0.1, 0.5, 0.9], axis=0)
    return np.where(is_missing, np.nan, levels)


def draw(axes: Axes, times: np.ndarray, values: np.ndarray, colour: str) -> None:
    """Draw one run, or the median and the band of an ensemble (first axis)."""
    middle = _draw_band(axes, times, values, color=colour)
    axes.plot(times, middle, color=colour, marker=marker(times))


def draw_steps(axes: Axes, times: np.ndarray, values: np.ndarray, colour: str) -> None:
    """Draw counts of one run or an ensemble, as steps held until the next frame."""
    middle = _draw_band(axes, times, values, color=colour, step="post")
    dots = "o" if times.size <= _DOTS else ""
    (line,) = axes.plot(times, middle, color=colour, marker=dots, markersize=4)
    line.set_drawstyle("steps-post")


def _draw_band(
    axes: Axes, times: np.ndarray, values: np.ndarray, **how: Any
) -> np.ndarray:
    """Draw the band of an ensemble; return its median, or the values of one run."""
    if values.ndim == 1:
        return values
    low, middle, high = quantiles(values)
    axes.fill_between(times, low, high, alpha=0.2, linewidth=0, **how)
    return middle


def draw_eigenvalues(axes: Axes, times: np.ndarray, values: np.ndarray) -> list[Line2D]:
    """Draw a curve for each eigenvalue (last axis of `values`); return legend entries.

    A curve that coincides with the previous one, as for an isotropic cloud, is dashed.
    """
    handles = []
    for k in range(values.shape[-1]):
        curve, previous = values[..., k], values[..., max(k - 1, 0)]
        if not np.isfinite(curve).any():
            continue
        draw(axes, times, curve, CYCLE[k])
        runs_on = k > 0 and np.allclose(
            curve, previous, rtol=_OVERLAP_RTOL, equal_nan=True
        )
        dashes = _DASHES if runs_on else "-"
        axes.lines[-1].set_linestyle(dashes)
        label = rf"$\lambda_{{{k + 1}}}$"
        handles.append(entry(label, CYCLE[k], linestyle=dashes))
    return handles


def marker(times: np.ndarray) -> str:
    """The marker of curves: a dot if there is only one frame, and otherwise none."""
    return "o" if times.size == 1 else ""


def spans_decades(values: np.ndarray) -> bool:
    """Whether the positive values span more than two decades."""
    positive = values[np.isfinite(values) & (values > 0)]
    if positive.size == 0:
        return False
    return bool(np.log10(positive.max()) - np.log10(positive.min()) > 2)


def are_log_spaced(times: np.ndarray) -> bool:
    """Whether times after 0 are spaced logarithmically."""
    positive = times[times > 0]
    middle = positive[positive.size // 2 :][:1]
    return positive.size > 1 and bool(positive[-1] > _DECADES * middle[0])


def scale_time(axes: Axes, times: np.ndarray) -> None:
    """Make the time axis logarithmic if times are spaced logarithmically."""
    if are_log_spaced(times):
        axes.set_xscale("log")


def name_time(axes: Axes, dataset: xr.Dataset) -> None:
    """Label and scale the time axis; for a model, draw lines where its layers end."""
    spec = spec_of(dataset)
    if spec is None or spec.model is None:
        scale_time(axes, dataset["time"].values)
        axes.set_xlabel("time $t$")
        return
    axes.set_xlabel("time $t$: layers passed")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for layer in layers_passed(dataset)[1:]:
        for part in axes.figure.axes:
            part.axvline(layer.start, color=PALE, linewidth=0.8, zorder=0)


def layer_at(dataset: xr.Dataset, time: float) -> str:
    """The layer that is active at `time`, such as `layer 2`; empty without layers.

    At the boundary of two layers the later one is active. The last layer stays active.
    """
    layers = layers_passed(dataset)
    if not layers:
        return ""
    index = sum(layer.start <= time for layer in layers) - 1
    return f"layer {layers[max(index, 0)].number}"
