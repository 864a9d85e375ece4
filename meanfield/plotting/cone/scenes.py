"""Scenes of movies in the cone or the disc: points and paths, coloured by ending."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import Key
from meanfield.plotting._figure.parts import (
    Show,
    draw_dots,
    draw_lines,
    move_dots,
)
from meanfield.plotting._figure.text import format_number
from meanfield.plotting._writing.film import Film

from .cone import AXIS, limit_handles
from .disc import READING, draw_chord, frame_disc
from .ending_styles import ending_marks, opacity, width
from .path_animation import PathAnimation
from .paths import group_by_ending, ring_heights
from .surface import FRONT_PATHS, HEIGHT, TIPS, draw_limit, draw_surface, limit_outline

# Paths in movies have `_FAINT` times the opacity of paths in panels, so that dots stand
# out.
_FAINT = 0.6
# Zoom factors that leave room for the large labels of movies: `_WIDE_ZOOM` if the ratio
# of width to height exceeds `_WIDE`, otherwise `_ZOOM`.
_ZOOM, _WIDE_ZOOM, _WIDE = 1.06, 1.12, 1.3
_TICKS = 2  # largest number of intervals between ticks on the floor of the cone
MATRIX = "Σ = [[a, c], [c, b]]"
_SPOT, _SMALL = 30.0, 12.0  # dot area per point of line width, and minimum dot area


def cone_scene(
    axes: Axes, animation: PathAnimation, *, dataset: xr.Dataset, film: Film
) -> tuple[Show, Key]:
    """The scene of points in the cone, and the `Key` that explains it."""
    assert isinstance(axes, Axes3D)
    outline = limit_outline(dataset, animation.height)
    draw_surface(axes, animation.height, look_of(dataset))
    if outline is not None:
        draw_limit(axes, outline)
    wide, high = film.size
    zoom = _WIDE_ZOOM if wide > _WIDE * high else _ZOOM
    axes.locator_params(axis="x", nbins=_TICKS)
    axes.locator_params(axis="y", nbins=_TICKS)
    axes.set_box_aspect((1, 1, HEIGHT), zoom=zoom)  # pyright: ignore[reportArgumentType]
    tallest = max(path.points[:, 2].max() for path in animation.paths)
    leave = f"arrows leave at trace {animation.height:.3g}"
    cut = f"{leave}; traces go on to {format_number(tallest)}"
    note = cut if tallest > animation.height else ""
    rings = " and ".join(f"{z:g}" for z in ring_heights(animation.height))
    notes = [f"{MATRIX}; rings: trace {rings}", note]
    handles = [*_future_endings(animation), AXIS, *limit_handles(outline)]
    return PathScene(axes, animation, film.trails).show, Key(handles, None, "", notes)


def disc_scene(
    axes: Axes, animation: PathAnimation, *, dataset: xr.Dataset, film: Film
) -> tuple[Show, Key]:
    """The scene of points in the disc of trace one, and the `Key` that explains it."""
    frame_disc(axes)
    outline = limit_outline(dataset, 1.0)
    limits = [] if outline is None else [draw_chord(axes, outline)]
    notes = [f"{MATRIX}; {READING}"]
    key = Key([*_future_endings(animation), *limits], None, "", notes)
    return PathScene(axes, animation, film.trails).show, key


def _future_endings(animation: PathAnimation) -> list[Artist]:
    """Legend entries such as `will end: blow-up`, since colours show future endings."""
    handles = ending_marks(animation.paths)
    for handle in handles:
        handle.set_label(f"will end: {handle.get_label()}")
    return handles


def _shades(animation: PathAnimation, share: float) -> np.ndarray:
    """For each path, the colour of its ending, with opacity `share`."""
    return np.array([to_rgba(path.mark.colour, share) for path in animation.paths])


def _area(n: int) -> float:
    """The area of each of `n` points, in square points."""
    return max(_SPOT * width(n), _SMALL)


class PathScene:
    """Points and their paths in the cone or the disc, marked by their endings.

    In the cone, points that leave the picture become arrows at its rim.

    Args:
        axes: axes on which the cone or the disc is drawn.
        animation: the paths.
        trails: number of past frames drawn as trails; all if None.
    """

    def __init__(
        self, axes: Axes, animation: PathAnimation, trails: int | None
    ) -> None:
        self._march, self._length = animation, trails
        n, is_3d = len(animation.paths), isinstance(axes, Axes3D)
        thin, faint = width(n), _shades(animation, _FAINT * opacity(n))
        line_style = {"zorder": FRONT_PATHS} if is_3d else {}
        self._threads = draw_lines(axes, [], faint, linewidths=thin, **line_style)
        point_style = {"depthshade": False, "zorder": TIPS} if is_3d else {"zorder": 4}
        self._points = list(_points(axes, animation, **point_style))
        self._arrows = None
        if is_3d:
            shades = _shades(animation, 1.0)
            shafts = draw_lines(axes, [], shades, linewidths=1.3 * thin, zorder=TIPS)
            heads = {"c": shades, "marker": "^", "linewidths": 0.0, **point_style}
            tips = draw_dots(axes, animation.places[0], _area(n), **heads)
            self._arrows = (animation.arrows(), shafts, tips)

    def show(self, frame: int) -> None:
        """Move the artists to their places in `frame`."""
        animation = self._march
        self._threads.set_segments(animation.trails(frame, self._length))
        has_left = animation.left <= frame
        places = np.where(has_left[:, None], np.nan, animation.places[frame])
        for runs, points in self._points:
            move_dots(points, places[runs])
        if self._arrows is not None:
            arrows, shafts, tips = self._arrows
            segments = np.where(has_left[:, None, None], arrows, np.nan)
            shafts.set_segments(list(segments))
            move_dots(tips, segments[:, 1])


def _points(
    axes: Axes, animation: PathAnimation, **how: Any
) -> Iterator[tuple[np.ndarray, PathCollection]]:
    """For each ending, draw a dot for each of its paths; yield a mask and the dots."""
    n, shades = len(animation.paths), _shades(animation, 1.0)
    marks = [path.mark for path in animation.paths]
    for mark in group_by_ending(animation.paths):
        runs = np.array([path_mark == mark for path_mark in marks])
        edge = {"edgecolors": "white", "linewidths": 0.3 * width(n)}
        look = {"c": shades[runs], "marker": mark.marker, **edge, **how}
        yield runs, draw_dots(axes, animation.places[0, runs], _area(n), **look)
