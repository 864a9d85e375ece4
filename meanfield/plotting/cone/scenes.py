"""What moves in a movie of covariances: points with their paths, by their endings."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D
from typing_extensions import override

from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import Key
from meanfield.plotting._figure.scenes import AbstractScene, move_in_space
from meanfield.plotting._writing.film import Film

from .cone import AXIS, limit_handles
from .disc import READING, draw_chord, frame_disc
from .fates import fates, opacity, width
from .limits import limit_outline
from .march import March
from .surface import HEIGHT, INSIDE, TIPS, draw_limit, draw_surface

_FAINT = 0.6  # of the opacity of a path in a picture, since points stand before it
# So that labels, which are large in movies, have room; more is at the sides of a wide
# one, which is so many times as wide as high.
_ZOOM, _WIDE_ZOOM, _WIDE = 1.06, 1.12, 1.3
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
    axes.set_box_aspect((1, 1, HEIGHT), zoom=zoom)  # pyright: ignore[reportArgumentType]
    tallest = max(path.points[:, 2].max() for path in march.paths)
    cut = f"arrows leave at trace {march.height:.3g}; traces go on to {tallest:.2g}"
    note = cut if tallest > march.height else ""
    handles = [*fates(march.paths), AXIS, *limit_handles(outline)]
    return ConeScene(axes, march, film.trails), Key(handles, None, "", [note])


def disc_scene(
    axes: Axes, march: March, *, dataset: xr.Dataset, film: Film
) -> tuple[AbstractScene, Key]:
    """The disc of trace one with its points, and what explains them."""
    frame_disc(axes)
    outline = limit_outline(dataset, 1.0)
    limits = [] if outline is None else [draw_chord(axes, outline)]
    key = Key([*fates(march.paths), *limits], None, "", [READING])
    return DiscScene(axes, march, film.trails), key


def _shades(march: March, share: float) -> np.ndarray:
    """The colours of the endings of all paths, so opaque."""
    return np.array([to_rgba(p.ending.status.row.colour, share) for p in march.paths])


def _area(n: int) -> float:
    """The area of each of `n` points, in square points."""
    return max(_SPOT * width(n), _SMALL)


class ConeScene(AbstractScene):
    """Points and their paths in the cone; those that leave become arrows at its rim.

    Args:
        axes: with the cone on it.
        march: the paths.
        trails: frames of the past that are drawn; None for all.
    """

    def __init__(self, axes: Axes3D, march: March, trails: int | None) -> None:
        self._march, self._length = march, trails
        n = len(march.paths)
        shades, thin = _shades(march, 1.0), width(n)
        area = _area(n)
        faint = _shades(march, _FAINT * opacity(n))
        self._threads = _lines(axes, faint, thickness=thin, layer=INSIDE)
        self._shafts = _lines(axes, shades, thickness=1.3 * thin, layer=TIPS)
        self._points = axes.scatter(
            *march.places[0].T,
            s=area,  # pyright: ignore[reportArgumentType]
            c=shades,
            edgecolors="white",
            linewidths=0.3 * thin,
            depthshade=False,
            zorder=TIPS,
        )
        self._tips = axes.scatter(
            *march.places[0].T,
            s=area,  # pyright: ignore[reportArgumentType]
            c=shades,
            marker="^",
            edgecolors=shades,
            linewidths=0.0,
            depthshade=False,
            zorder=TIPS,
        )
        self._arrows = march.arrows()

    @override
    def show(self, frame: int) -> None:
        march = self._march
        self._threads.set_segments(march.past(frame, self._length))
        has_left = (march.left <= frame)[:, None]
        arrows = np.where(has_left[..., None], self._arrows, np.nan)
        self._shafts.set_segments(list(arrows))
        move_in_space(self._tips, arrows[:, 1])
        move_in_space(self._points, np.where(has_left, np.nan, march.places[frame]))


class DiscScene(AbstractScene):
    """Points and their paths in the disc of trace one.

    Args:
        axes: with the disc on it.
        march: the paths.
        trails: frames of the past that are drawn; None for all.
    """

    def __init__(self, axes: Axes, march: March, trails: int | None) -> None:
        self._march, self._length = march, trails
        n = len(march.paths)
        faint = _shades(march, _FAINT * opacity(n))
        self._threads = LineCollection([], colors=faint, linewidths=width(n))
        axes.add_collection(self._threads, autolim=False)
        self._points = axes.scatter(
            *march.places[0].T,
            s=_area(n),
            c=_shades(march, 1.0),
            edgecolors="white",
            linewidths=0.3 * width(n),
            zorder=4,
        )

    @override
    def show(self, frame: int) -> None:
        march = self._march
        self._threads.set_segments(march.past(frame, self._length))
        self._points.set_offsets(march.places[frame])


def _lines(
    axes: Axes3D, shades: np.ndarray, *, thickness: float, layer: int
) -> Line3DCollection:
    """Lines in space, for now none, added to the axes."""
    lines = Line3DCollection([], colors=shades, linewidths=thickness, zorder=layer)
    axes.add_collection3d(lines, autolim=False)
    return lines
