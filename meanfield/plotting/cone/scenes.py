"""What moves in a movie of covariances: points with their paths, by their endings."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from mpl_toolkits.mplot3d.axes3d import Axes3D
from typing_extensions import override

from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import Key
from meanfield.plotting._figure.parts import (
    AbstractScene,
    draw_dots,
    draw_lines,
    move_dots,
)
from meanfield.plotting._figure.text import figures
from meanfield.plotting._writing.film import Film

from .cone import AXIS, limit_handles
from .disc import READING, draw_chord, frame_disc
from .fates import fates, opacity, width
from .limits import limit_outline
from .march import March
from .paths import by_ending, ring_heights
from .surface import HEIGHT, INSIDE, TIPS, draw_limit, draw_surface

_FAINT = 0.6  # of the opacity of a path in a picture, since points stand before it
# So that labels, which are large in movies, have room; more is at the sides of a wide
# one, which is so many times as wide as high.
_ZOOM, _WIDE_ZOOM, _WIDE = 1.06, 1.12, 1.3
_TICKS = 2  # of the floor, steps between them at most, whose labels are large
MATRIX = "Σ = [[a, c], [c, b]]"
_SPOT, _SMALL = 30.0, 12.0  # areas of a point among few and many, in square points


def cone_scene(
    axes: Axes, march: March, *, dataset: xr.Dataset, film: Film
) -> tuple[AbstractScene, Key]:
    """The cone with its points, and what explains them."""
    assert isinstance(axes, Axes3D)
    outline = limit_outline(dataset, march.height)
    draw_surface(axes, march.height, look_of(dataset))
    if outline is not None:
        draw_limit(axes, outline)
    wide, high = film.size
    zoom = _WIDE_ZOOM if wide > _WIDE * high else _ZOOM
    axes.locator_params(axis="x", nbins=_TICKS)
    axes.locator_params(axis="y", nbins=_TICKS)
    axes.set_box_aspect((1, 1, HEIGHT), zoom=zoom)  # pyright: ignore[reportArgumentType]
    tallest = max(path.points[:, 2].max() for path in march.paths)
    leave = f"arrows leave at trace {march.height:.3g}"
    cut = f"{leave}; traces go on to {figures(tallest)}"
    note = cut if tallest > march.height else ""
    rings = " and ".join(f"{z:g}" for z in ring_heights(march.height))
    notes = [f"{MATRIX}; rings: trace {rings}", note]
    handles = [*_fates_ahead(march), AXIS, *limit_handles(outline)]
    return MarchScene(axes, march, film.trails), Key(handles, None, "", notes)


def disc_scene(
    axes: Axes, march: March, *, dataset: xr.Dataset, film: Film
) -> tuple[AbstractScene, Key]:
    """The disc of trace one with its points, and what explains them."""
    frame_disc(axes)
    outline = limit_outline(dataset, 1.0)
    limits = [] if outline is None else [draw_chord(axes, outline)]
    notes = [f"{MATRIX}; {READING}"]
    key = Key([*_fates_ahead(march), *limits], None, "", notes)
    return MarchScene(axes, march, film.trails), key


def _fates_ahead(march: March) -> list[Artist]:
    """Legend entries of endings, which colours tell from the first frame on."""
    handles = fates(march.paths)
    for handle in handles:
        handle.set_label(f"will end: {handle.get_label()}")
    return handles


def _shades(march: March, share: float) -> np.ndarray:
    """The colours of the endings of all paths, so opaque."""
    return np.array([to_rgba(p.ending.status.row.colour, share) for p in march.paths])


def _area(n: int) -> float:
    """The area of each of `n` points, in square points."""
    return max(_SPOT * width(n), _SMALL)


class MarchScene(AbstractScene):
    """Points and their paths in the cone or the disc, marked by their endings.

    In the cone those that leave become arrows at its rim.

    Args:
        axes: with the cone or the disc on it.
        march: the paths.
        trails: frames of the past that are drawn; None for all.
    """

    def __init__(self, axes: Axes, march: March, trails: int | None) -> None:
        self._march, self._length = march, trails
        n, in_space = len(march.paths), isinstance(axes, Axes3D)
        thin, faint = width(n), _shades(march, _FAINT * opacity(n))
        below = {"zorder": INSIDE} if in_space else {}
        self._threads = draw_lines(axes, [], faint, linewidths=thin, **below)
        above = {"depthshade": False, "zorder": TIPS} if in_space else {"zorder": 4}
        self._points = list(_points(axes, march, **above))
        self._arrows = None
        if in_space:
            shades = _shades(march, 1.0)
            shafts = draw_lines(axes, [], shades, linewidths=1.3 * thin, zorder=TIPS)
            heads = {"c": shades, "marker": "^", "linewidths": 0.0, **above}
            tips = draw_dots(axes, march.places[0], _area(n), **heads)
            self._arrows = (march.arrows(), shafts, tips)

    @override
    def show(self, frame: int) -> None:
        march = self._march
        self._threads.set_segments(march.past(frame, self._length))
        has_left = march.left <= frame
        places = np.where(has_left[:, None], np.nan, march.places[frame])
        for runs, points in self._points:
            move_dots(points, places[runs])
        if self._arrows is not None:
            arrows, shafts, tips = self._arrows
            shown = np.where(has_left[:, None, None], arrows, np.nan)
            shafts.set_segments(list(shown))
            move_dots(tips, shown[:, 1])


def _points(
    axes: Axes, march: March, **how: Any
) -> Iterator[tuple[np.ndarray, PathCollection]]:
    """The points of each ending, with its mark, and which paths they are of."""
    n, shades = len(march.paths), _shades(march, 1.0)
    endings = [path.ending.status for path in march.paths]
    for status in by_ending(march.paths):
        runs = np.array([ending is status for ending in endings])
        edge = {"edgecolors": "white", "linewidths": 0.3 * width(n)}
        look = {"c": shades[runs], "marker": status.row.marker, **edge, **how}
        yield runs, draw_dots(axes, march.places[0, runs], _area(n), **look)
