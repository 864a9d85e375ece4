"""What moves in a movie of tokens, part by part: dots, tails, outlines."""

from abc import ABC, abstractmethod

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from typing_extensions import override

from meanfield.plotting._figure.marks import outline
from meanfield.plotting._figure.parts import draw_dots, draw_lines, move_dots
from meanfield.plotting._figure.style import CYCLE, GREY
from meanfield.plotting.reading.data import Track

from .paths import Dots
from .views import Window, ellipses, outlines, within

# Frames of the past that a token trails behind it: less if there are many of them.
_TRAIL, _SHORT_TRAIL, _MANY = 6, 2, 300
# An ellipse leaves its outline behind every few frames, and the last ones are seen.
_GHOSTS, _GHOST_TRAIL, _FAINTEST, _STRONGEST = 8, 48, 0.12, 0.65

MEAN = Line2D(
    [],
    [],
    color=GREY,
    linewidth=1.0,
    marker="o",
    markersize=5,
    markerfacecolor=CYCLE[0],
    markeredgecolor=CYCLE[0],
    label="mean",
)


TRAIL = Line2D([], [], color=GREY, linewidth=0.8, label="trail")


def trail_length(n: int, trails: int | None) -> int:
    """The frames of the past that each of `n` tokens trails, if none are chosen."""
    if trails is not None:
        return trails
    return _TRAIL if n <= _MANY else _SHORT_TRAIL


class AbstractPart(ABC):
    """Artists that can show any frame, in the view of that frame."""

    @abstractmethod
    def show(self, frame: int, view: Window) -> None:
        """Move the artists to where they are at `frame`."""


class Tokens(AbstractPart):
    """Dots with short tails.

    Args:
        axes: where to draw, in the plane or in space.
        drawn: their places and colours.
        trails: frames of the past that are drawn; None for what suits their number.
    """

    def __init__(self, axes: Axes, drawn: Dots, trails: int | None) -> None:
        self._x, shades = drawn.x, drawn.colours.tokens
        self._length = trail_length(drawn.x.shape[1], trails)
        self._tails = draw_lines(axes, [], shades, linewidths=0.8, alpha=drawn.opacity)
        self._dots = draw_dots(axes, drawn.x[0], drawn.sizes, c=shades)
        self._dots.set(edgecolors="white", linewidths=0.3)

    @override
    def show(self, frame: int, view: Window) -> None:
        past = within(self._x[max(frame - self._length, 0) : frame + 1], view)
        self._tails.set_segments(list(past.swapaxes(0, 1)))
        move_dots(self._dots, past[-1])


class Outline(AbstractPart):
    """The outline of two deviations, of the cloud itself or of its closure."""

    def __init__(self, axes: Axes, track: Track, *, colour: str, pattern: str) -> None:
        self._outlines = outlines(track)
        self._lines = draw_lines(axes, [], colour, linewidths=1.4, linestyles=pattern)

    @override
    def show(self, frame: int, view: Window) -> None:
        self._lines.set_segments(list(within(self._outlines[frame], view)))


class Ghosts(AbstractPart):
    """Past ellipses of a Gaussian, fainter the older they are.

    Args:
        axes: where to draw.
        track: the Gaussian.
        trails: frames of the past in which they are seen; None for what suits.
    """

    def __init__(self, axes: Axes, track: Track, trails: int | None) -> None:
        self._outlines = ellipses(track)
        self._length = _GHOST_TRAIL if trails is None else trails
        self._every = max(-(-self._length // _GHOSTS), 1)
        slots = self._length // self._every + 1
        colours = [to_rgba(CYCLE[0])] * slots
        self._lines = draw_lines(axes, [], colours, linewidths=1.0, zorder=1.5)
        self._slots = slots
        earlier = outline("2σ, earlier", CYCLE[0])
        self.handles = [earlier] if self._length else []

    @override
    def show(self, frame: int, view: Window) -> None:
        first = max(frame - self._length, 0)
        frames = np.arange(-(-first // self._every) * self._every, frame, self._every)
        ages = (frame - frames) / (self._length + 1)
        shades = np.zeros(self._slots)
        shades[: frames.size] = _FAINTEST + (_STRONGEST - _FAINTEST) * (1 - ages)
        self._lines.set_segments(list(within(self._outlines[frames], view)))
        self._lines.set_alpha(shades.tolist())


class MeanPath(AbstractPart):
    """The way of a mean so far, and a dot where it is."""

    def __init__(self, axes: Axes, mean: np.ndarray) -> None:
        self._mean = mean
        (self._path,) = axes.plot([], [], color=GREY, linewidth=1.0)
        (self._dot,) = axes.plot([], [], "o", color=CYCLE[0], markersize=5)

    @override
    def show(self, frame: int, view: Window) -> None:
        past = within(self._mean[: frame + 1], view)
        self._path.set_data(*past.T)
        self._dot.set_data(*past[-1:].T)
