"""What the headline of a movie says of each frame: the time, the layer, a number."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from meanfield.endings import Status
from meanfield.plotting._figure.panels import end_words
from meanfield.plotting._figure.text import figures
from meanfield.plotting.reading.data import Ending
from meanfield.plotting.reading.depth import layers_passed

# A time is said to this share of a typical step to the next, in so many digits at most.
_EXACT, _MOST_DIGITS = 0.1, 9

Says = Callable[[int], Sequence[str]]


def headlines(dataset: xr.Dataset, times: np.ndarray, says: Says) -> list[list[str]]:
    """The parts of the headline of each frame, the time first."""
    decimals = _decimals(times)
    layers = layers_shown(dataset, times)
    return [
        [*filter(None, [f"t = {t:.{decimals}f}", layers[frame], *says(frame)])]
        for frame, t in enumerate(times)
    ]


def sizes_and_end(sizes: np.ndarray, ending: Ending) -> Says:
    """The size of a cloud in each frame; in the last how it ended, too."""
    words = [[size_note(float(size))] for size in sizes]
    if ending.status is Status.FINISHED:  # its time is said already
        words[-1].append(end_words(ending))
    else:
        words[-1] = [end_words(ending)]
    return words.__getitem__


def _decimals(times: np.ndarray) -> int:
    """Digits after the point that tell most times from the next, the same in all.

    Where steps are uneven the median one counts: frames that begin with tiny steps, or
    a blow-up soon after one, would give all others digits that nobody reads.
    """
    steps = np.diff(np.unique(times.round(_MOST_DIGITS)))
    step = np.median(steps) if steps.size else np.inf
    off = (np.abs(times - times.round(d)).max() for d in range(_MOST_DIGITS))
    fits = (d for d, error in enumerate(off) if error <= _EXACT * step)
    return next(fits, _MOST_DIGITS)


def layers_shown(dataset: xr.Dataset, times: np.ndarray) -> list[str]:
    """The layer that moves the tokens at each time, as `layer 2 (3 of 6)`."""
    layers = layers_passed(dataset)
    if not layers:
        return [""] * times.size
    starts = [layer.start for layer in layers]
    indices = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
    return [f"layer {layers[i].number} ({i + 1} of {len(layers)})" for i in indices]


def size_note(size: float) -> str:
    """A size in three digits, with a power of ten where it is large or small.

    Nothing is said of one that is not finite.
    """
    if size == 0:
        return "RMS radius 0"
    return f"RMS radius {figures(size)}" if np.isfinite(size) else ""
