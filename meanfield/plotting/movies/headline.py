"""The headline of each frame of a movie: time, layer, and a number such as the size."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from meanfield.endings import Status
from meanfield.plotting._figure.panels import ending_headline
from meanfield.plotting._figure.text import format_number
from meanfield.plotting.reading.data import Ending
from meanfield.plotting.reading.depth import layers_passed

# Times in headlines have as few decimals as possible, and at most `_MOST_DIGITS`. Their
# rounding errors must not exceed `_EXACT` times the typical time step.
# Times from 10^`_MOST_DIGITS` on are written with a power of ten.
_EXACT, _MOST_DIGITS = 0.1, 9

FrameNotes = Callable[[int], Sequence[str]]


def headlines(
    dataset: xr.Dataset, times: np.ndarray, frame_notes: FrameNotes
) -> list[list[str]]:
    """The parts of the headline of each frame: time, layer, further notes."""
    texts, layers = _time_texts(times), layers_shown(dataset, times)
    rows = ([f"t = {t}", layers[n], *frame_notes(n)] for n, t in enumerate(texts))
    return [[*filter(None, row)] for row in rows]


def notes_and_end(notes: Sequence[str], ending: Ending) -> FrameNotes:
    """A note on the cloud in each frame; the last frame names the ending."""
    parts = [[note] for note in notes]
    if ending.status is Status.FINISHED:  # show both the note and the ending
        parts[-1].append(ending_headline(ending))
    else:
        parts[-1] = [ending_headline(ending)]
    return parts.__getitem__


def _time_texts(times: np.ndarray) -> list[str]:
    """Times with as many decimals as distinguish most consecutive ones.

    The number is chosen for the median step: a few tiny steps, at the start or before a
    blow-up, would otherwise give all times needless digits.
    """
    steps = np.diff(np.unique(times.round(_MOST_DIGITS)))
    step = np.median(steps) if steps.size else np.inf
    if np.abs(times).max() >= 10**_MOST_DIGITS:
        return [format_number(t) for t in times]
    errors = (np.abs(times - times.round(d)).max() for d in range(_MOST_DIGITS))
    fits = (d for d, error in enumerate(errors) if error <= _EXACT * step)
    decimals = next(fits, _MOST_DIGITS)
    return [f"{t:.{decimals}f}" for t in times]


def layers_shown(dataset: xr.Dataset, times: np.ndarray) -> list[str]:
    """The active layer at each time, as `layer 2 (3 of 6)`; empty without layers."""
    layers = layers_passed(dataset)
    if not layers:
        return [""] * times.size
    starts = [layer.start for layer in layers]
    indices = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
    return [f"layer {layers[i].number} ({i + 1} of {len(layers)})" for i in indices]


def size_note(size: float) -> str:
    """A note with the RMS radius to three digits; empty if it is not finite."""
    if size == 0:
        return "RMS radius 0"
    return f"RMS radius {format_number(size)}" if np.isfinite(size) else ""
