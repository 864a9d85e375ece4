"""The moving parts of movies of tokens: dots with tails, outlines, the mean."""

from abc import ABC, abstractmethod

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from typing_extensions import override

from meanfield.plotting._figure.marks import entry, line_entry
from meanfield.plotting._figure.parts import draw_dots, draw_lines, move_dots
from meanfield.plotting._figure.style import CYCLE, GREY
from meanfield.plotting.reading.data import Track

from .paths import Dots
from .views import Window, clip_points, ellipses, outlines

# Default trail lengths in frames: `_SHORT_TRAIL` for more than `_MAX_TOKENS` tokens,
# otherwise `_TRAIL`.
_TRAIL, _SHORT_TRAIL, _MAX_TOKENS = 6, 2, 300
# A movie of a Gaussian shows `_GHOSTS` past ellipses from the last `_GHOST_TRAIL`
# frames, with opacities from `_FAINTEST` to `_STRONGEST`.
_GHOSTS, _GHOST_TRAIL, _FAINTEST, _STRONGEST = 8, 48, 0.12, 0.65

MEAN = entry("mean", GREY, linewidth=1.0, marker="o", markersize=5)
MEAN.set(markerfacecolor=CYCLE[0], markeredgecolor=CYCLE[0])
TRAIL = entry("trail", GREY, linewidth=0.8)


def trail_length(n: int, trails: int | None) -> int:
    """The trail length in frames: `trails`; if None, a default for `n` tokens."""
    if trails is not None:
        return trails
    return _TRAIL if n <= _MAX_TOKENS else _SHORT_TRAIL


class AbstractPart(ABC):
    """Artists that can show any frame, in the view of that frame."""

    @abstractmethod
    def show(self, frame: int, view: Window) -> None:
        """Move the artists to their places in `frame`."""


class Tokens(AbstractPart):
    """Dots with short tails.

    Args:
        axes: where to draw, in the plane or in space.
        dots: places and colours of the dots.
        trails: trail length in frames; a default if None, see `trail_length`.
    """

    def __init__(self, axes: Axes, dots: Dots, trails: int | None) -> None:
        self._x, shades = dots.x, dots.colours.tokens
        self._length = trail_length(dots.x.shape[1], trails)
        self._tails = draw_lines(axes, [], shades, linewidths=0.8, alpha=dots.opacity)
        self._dots = draw_dots(axes, dots.x[0], dots.sizes, c=shades)
        self._dots.set(edgecolors="white", linewidths=0.3)

    @override
    def show(self, frame: int, view: Window) -> None:
        trail = clip_points(self._x[max(frame - self._length, 0) : frame + 1], view)
        self._tails.set_segments(list(trail.swapaxes(0, 1)))
        move_dots(self._dots, trail[-1])


class Outline(AbstractPart):
    """The outline of a moving Gaussian at two standard deviations."""

    def __init__(self, axes: Axes, track: Track, *, colour: str, pattern: str) -> None:
        self._outlines = outlines(track)
        self._lines = draw_lines(axes, [], colour, linewidths=1.4, linestyles=pattern)

    @override
    def show(self, frame: int, view: Window) -> None:
        self._lines.set_segments(list(clip_points(self._outlines[frame], view)))


class Ghosts(AbstractPart):
    """Past ellipses of a Gaussian; older ones are fainter.

    Args:
        axes: where to draw.
        track: the Gaussian.
        trails: number of past frames that they span; a default if None.
    """

    def __init__(self, axes: Axes, track: Track, trails: int | None) -> None:
        self._outlines = ellipses(track)
        self._length = _GHOST_TRAIL if trails is None else trails
        self._every = max(-(-self._length // _GHOSTS), 1)
        slots = self._length // self._every + 1
        colours = [to_rgba(CYCLE[0])] * slots
        self._lines = draw_lines(axes, [], colours, linewidths=1.0, zorder=1.5)
        self._slots = slots
        earlier = line_entry("2σ, earlier", CYCLE[0])
        self.handles = [earlier] if self._length else []

    @override
    def show(self, frame: int, view: Window) -> None:
        first = max(frame - self._length, 0)
        frames = np.arange(-(-first // self._every) * self._every, frame, self._every)
        ages = (frame - frames) / (self._length + 1)
        shades = np.zeros(self._slots)
        shades[: frames.size] = _FAINTEST + (_STRONGEST - _FAINTEST) * (1 - ages)
        self._lines.set_segments(list(clip_points(self._outlines[frames], view)))
        self._lines.set_alpha(shades.tolist())


class MeanPath(AbstractPart):
    """The path of the mean so far, with a dot at its current place."""

    def __init__(self, axes: Axes, mean: np.ndarray) -> None:
        self._mean = mean
        (self._path,) = axes.plot([], [], color=GREY, linewidth=1.0)
        (self._dot,) = axes.plot([], [], "o", color=CYCLE[0], markersize=5)

    @override
    def show(self, frame: int, view: Window) -> None:
        path = clip_points(self._mean[: frame + 1], view)
        self._path.set_data(*path.T)
        self._dot.set_data(*path[-1:].T)
