"""What the headline of a movie says of each frame: the time, the layer, a number."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from meanfield.endings import Status
from meanfield.plotting._figure.numerals import figures
from meanfield.plotting._figure.panels import end_words
from meanfield.plotting._runs.data import Ending
from meanfield.plotting._runs.depth import layers_passed

_DIGITS = 3  # of a hundredth of the time that passes

Says = Callable[[int], Sequence[str]]


def headlines(dataset: xr.Dataset, times: np.ndarray, says: Says) -> list[list[str]]:
    """The parts of the headline of each frame, the time first."""
    decimals = _decimals(float(times[-1] - times[0]))
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


def _decimals(span: float) -> int:
    """Digits after the point that tell one frame from the next, the same in all."""
    if not span > 0:
        return _DIGITS
    return int(np.clip(_DIGITS - 1 - np.floor(np.log10(span)), 0, 9))


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
