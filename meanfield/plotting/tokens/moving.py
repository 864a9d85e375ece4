"""The moving parts of movies of tokens: dots with tails, outlines, the mean."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D

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


Part = Callable[[int, Window], None]
"""A function that moves artists to their places in a frame, in its view."""


def draw_tokens(axes: Axes, dots: Dots, trails: int | None) -> Part:
    """Dots with short tails.

    Args:
        axes: where to draw, in the plane or in space.
        dots: places and colours of the dots.
        trails: trail length in frames; a default if None, see `trail_length`.
    """
    shades, length = dots.colours.tokens, trail_length(dots.x.shape[1], trails)
    tails = draw_lines(axes, [], shades, linewidths=0.8, alpha=dots.opacity)
    points = draw_dots(axes, dots.x[0], dots.sizes, c=shades)
    points.set(edgecolors="white", linewidths=0.3)

    def show(frame: int, view: Window) -> None:
        trail = clip_points(dots.x[max(frame - length, 0) : frame + 1], view)
        tails.set_segments(list(trail.swapaxes(0, 1)))
        move_dots(points, trail[-1])

    return show


def draw_outline(axes: Axes, track: Track, *, colour: str, pattern: str) -> Part:
    """The outline of a moving Gaussian at two standard deviations."""
    curves = outlines(track)
    lines = draw_lines(axes, [], colour, linewidths=1.4, linestyles=pattern)

    def show(frame: int, view: Window) -> None:
        lines.set_segments(list(clip_points(curves[frame], view)))

    return show


def draw_ghosts(
    axes: Axes, track: Track, trails: int | None
) -> tuple[Part, list[Line2D]]:
    """Past ellipses of a Gaussian, of which older ones are fainter, and their legend.

    Args:
        axes: where to draw.
        track: the Gaussian.
        trails: number of past frames that they span; a default if None.
    """
    curves, length = ellipses(track), _GHOST_TRAIL if trails is None else trails
    step = max(-(-length // _GHOSTS), 1)
    slots = length // step + 1
    colours = [to_rgba(CYCLE[0])] * slots
    lines = draw_lines(axes, [], colours, linewidths=1.0, zorder=1.5)

    def show(frame: int, view: Window) -> None:
        first = max(frame - length, 0)
        frames = np.arange(-(-first // step) * step, frame, step)
        ages = (frame - frames) / (length + 1)
        shades = np.zeros(slots)
        shades[: frames.size] = _FAINTEST + (_STRONGEST - _FAINTEST) * (1 - ages)
        lines.set_segments(list(clip_points(curves[frames], view)))
        lines.set_alpha(shades.tolist())

    return show, [line_entry("2σ, earlier", CYCLE[0])] if length else []


def draw_mean_path(axes: Axes, mean: np.ndarray) -> Part:
    """The path of the mean so far, with a dot at its current place."""
    (line,) = axes.plot([], [], color=GREY, linewidth=1.0)
    (dot,) = axes.plot([], [], "o", color=CYCLE[0], markersize=5)

    def show(frame: int, view: Window) -> None:
        path = clip_points(mean[: frame + 1], view)
        line.set_data(*path.T)
        dot.set_data(*path[-1:].T)

    return show
