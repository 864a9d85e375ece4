"""Tokens or a Gaussian in the plane or in space: paths and 2σ outlines."""

from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgba_array
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.marks import (
    CLOSURE,
    START,
    Key,
    ellipse_entry,
    end_entry,
)
from meanfield.plotting._figure.parts import draw_dots, draw_lines
from meanfield.plotting._figure.style import CLOSURE_COLOUR, GREY, INK, PALE
from meanfield.plotting.reading.data import Cloud, Swarm, Track
from meanfield.plotting.reading.observables import even_frames, moments

from .colours import colour_by_time, time_scale
from .paths import dots, segments
from .views import Window, clip_points, outlines, visible_frames, window

_HEAVY = 20_000  # paths with more steps in total are rasterised in vector files
_HALO = 3.3  # width in points of the white line below an outline in the plane


class _Widths(NamedTuple):
    """Numbers of outlines, and line widths in points.

    Attributes:
        times: number of outlines of tokens.
        gaussian_times: number of outlines of a Gaussian.
        outline: line width of outlines of tokens.
        gaussian: line width of outlines of a Gaussian.
        closure: line width of outlines of a closure.
        start: edge width of dots at the start.
        end: edge width of dots at the end.
    """

    times: int
    gaussian_times: int
    outline: float
    gaussian: float
    closure: float
    start: float
    end: float


_PLANE = _Widths(4, 9, 1.5, 1.4, 1.5, 0.6, 0.3)
_SPACE = _Widths(2, 4, 0.8, 1.2, 1.2, 0.5, 0.5)


def draw_paths(axes: Axes, cloud: Cloud, labels: tuple[str, ...]) -> Key:
    """Draw tokens, or a Gaussian, of dimension two or three."""
    view = window(cloud)
    widths = _SPACE if isinstance(axes, Axes3D) else _PLANE
    if isinstance(axes, Axes3D):
        bare_space(axes, cloud.look, view.shape)
        look_at(axes, view)
    else:
        frame_plane(axes, view)
    name_axes(axes, labels)
    draw_sphere(axes, cloud)
    state, closure = cloud.state, cloud.closure
    if isinstance(state, Swarm):
        key = _tokens(axes, cloud, state, view, widths)
    else:
        key = _gaussian(axes, cloud, state, view, widths)
    if closure is None:
        return key
    frames = _outline_frames(cloud, widths.times)
    shades = _fading_colours(CLOSURE_COLOUR, frames.size)
    edges = _outlines(axes, closure, frames, view, shades)
    edges.set(linestyles=[(0, (4, 2))], linewidths=widths.closure)
    return key._replace(handles=[*key.handles, CLOSURE])


def frame_plane(axes: Axes, view: Window) -> None:
    """Set equal scales and the limits of the view."""
    axes.set_box_aspect(1.0)
    axes.grid(visible=True)
    (x, y), half = view.centre, view.half_width
    axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half))


def bare_space(axes: Axes3D, look: Look, shape: tuple[float, ...]) -> None:
    """Set up 3D axes with equal scales and few ticks, seen from slightly above."""
    azimuth, elevation = look.camera or (-58.0, 20.0)
    axes.view_init(elev=elevation, azim=azimuth)
    zoom = min(1.1, 1.25 * float(np.linalg.norm(shape)) / (shape[0] + shape[1]))
    axes.set_box_aspect(shape, zoom=zoom * look.zoom(6.6))  # pyright: ignore[reportArgumentType]
    axes.locator_params(nbins=6)


def draw_sphere(axes: Axes, cloud: Cloud) -> None:
    """Draw the circle, or three great circles of the sphere, that tokens move on."""
    radius = cloud.radius
    if radius is None:
        return
    angles = np.linspace(0, 2 * np.pi, 181)
    circle = radius * np.stack([np.cos(angles), np.sin(angles)])
    line = {"color": PALE, "linewidth": 0.8, "zorder": 0.5}
    if not isinstance(axes, Axes3D):
        axes.plot(*circle, **line)
        return
    for axis in range(3):
        axes.plot(*np.insert(circle, axis, 0.0, axis=0), **line)


def look_at(axes: Axes3D, view: Window) -> None:
    """Set the limits of 3D axes to a view."""
    x, y, z = view.centre[:, None] + view.half_width * np.outer(view.shape, (-1, 1))
    axes.set(xlim=x, ylim=y, zlim=z)


def name_axes(axes: Axes, labels: tuple[str, ...]) -> None:
    """Label the two or three axes."""
    names = ("xlabel", "ylabel", "zlabel")
    axes.set(**dict(zip(names, labels, strict=False)))


def _outline_frames(cloud: Cloud, max_frames: int) -> np.ndarray:
    """The frames with an outline: evenly spaced among the visible ones."""
    frames = visible_frames(cloud)
    return frames[even_frames(frames.size, max_frames)]


def _fading_colours(colour: str, count: int) -> np.ndarray:
    """`count` copies of a colour with increasing opacity."""
    shades = np.tile(to_rgba_array(colour), (count, 1))
    shades[:, 3] = np.linspace(0.6, 1.0, count) if count > 1 else 1.0
    return shades


def _outlines(
    axes: Axes, track: Track, frames: np.ndarray, view: Window, shades: np.ndarray
) -> LineCollection:
    """Draw the outlines of some frames, with one colour for each frame."""
    curves = outlines(track.take(frames))
    lines = clip_points(curves, view).reshape(-1, *curves.shape[2:])
    colours = np.repeat(shades, curves.shape[1], axis=0)
    return draw_lines(axes, list(lines), colours, zorder=3)


def _tokens(
    axes: Axes, cloud: Cloud, state: Swarm, view: Window, widths: _Widths
) -> Key:
    """Draw paths, starts, ends and outlines of tokens."""
    tokens = dots(cloud, state, colour_by_time)
    x, shades = clip_points(tokens.x, view), tokens.path_colours
    if len(shades):
        heavy = len(shades) > _HEAVY
        draw_lines(axes, list(segments(x)), shades, linewidths=0.8, rasterized=heavy)
    sizes, faces = tokens.sizes, tokens.colours.tokens
    rings = draw_dots(axes, x[0], 0.6 * sizes, c="white", edgecolors=GREY)
    rings.set(linewidths=widths.start, zorder=2.7)
    ends = draw_dots(axes, x[-1], sizes, c=faces, edgecolors="white")
    ends.set(linewidths=widths.end, zorder=4)
    handles: list[Artist] = [START, end_entry(faces)]
    if cloud.is_flat:
        _ellipses(axes, cloud, moments(state), view, widths)
        handles.append(ellipse_entry(INK))
    return tokens.key(handles, view.note)


def _ellipses(
    axes: Axes, cloud: Cloud, track: Track, view: Window, widths: _Widths
) -> None:
    """Draw the outlines of tokens at several times, in the plane on white lines."""
    frames = _outline_frames(cloud, widths.times)
    if widths is _PLANE:
        paper = to_rgba_array(["white"] * frames.size)
        halo = _outlines(axes, track, frames, view, paper)
        halo.set(linewidths=_HALO, zorder=2.5)  # below the rings of initial points
    ellipses = _outlines(axes, track, frames, view, _fading_colours(INK, frames.size))
    ellipses.set(linewidths=widths.outline)


def _gaussian(
    axes: Axes, cloud: Cloud, track: Track, view: Window, widths: _Widths
) -> Key:
    """Draw the path of the mean, and outlines coloured by time."""
    frames, scale = _outline_frames(cloud, widths.gaussian_times), time_scale(cloud)
    shades = scale.to_rgba(cloud.times[frames])
    ellipses = _outlines(axes, track, frames, view, shades)
    ellipses.set(linewidths=widths.gaussian)
    mean = clip_points(track.mean, view)
    axes.plot(*mean.T, color=GREY, linewidth=1.0)
    draw_dots(axes, mean[frames], 14.0, c=shades, zorder=4)
    ellipse = ellipse_entry(to_hex(shades[-1]))
    colours = None if cloud.times.size == 1 else scale
    return Key([ellipse], colours, "time $t$", [view.note])
