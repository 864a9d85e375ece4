"""Tokens or a Gaussian in one dimension: the coordinate over time, and its movie."""

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from meanfield.plotting._figure.marks import (
    CLOSURE,
    START,
    Key,
    end_entry,
    entry,
    line_entry,
)
from meanfield.plotting._figure.panels import mark_blow_up
from meanfield.plotting._figure.parts import Show, draw_lines
from meanfield.plotting._figure.style import CLOSURE_COLOUR, CYCLE, GREY, INK, PALE
from meanfield.plotting._writing.film import Film
from meanfield.plotting.reading.data import Cloud, Swarm, Track
from meanfield.plotting.reading.observables import moments
from meanfield.plotting.reading.pace import interpolable_steps

from .colours import uniform_colour
from .paths import dots, moving_dots
from .views import N_SIGMA, Projection, Window, clip_points, window

_BAND = Patch(color=PALE, label="mean ± 2σ")
_MEAN = entry("mean", INK)
_EDGED_BAND = Patch(facecolor=PALE, edgecolor=INK, linewidth=0.6, label="mean ± 2σ")
_TOKENS = entry("token", CYCLE[0], marker="o", markersize=4, linewidth=0.9)
_POINT, _REACH = 3.0, 1.6  # sizes, in points, of dots and of bars where lines break
# Bars are drawn below the line at t*; otherwise they would hide that line at the end.
_BAR_ZORDER = 1.8
_FRAME = entry("stored frame", PALE, linewidth=_REACH, marker="o", markersize=_POINT)
_FRAME.set(markerfacecolor=INK, markeredgecolor=INK)


def draw_line(axes: Axes, cloud: Cloud, labels: tuple[str, ...]) -> Key:
    """Draw tokens, or a Gaussian, of dimension one over time."""
    view = window(cloud)
    frame_line(axes, cloud, view)
    axes.set_ylabel(labels[0])
    mark_blow_up(axes, cloud.ending)
    low, mean, high = band(moments(cloud.state), view)
    axes.fill_between(cloud.times, low, high, color=PALE, alpha=0.6, linewidth=0)
    key = Key([_MEAN, _BAND], None, "", [view.note])
    if isinstance(cloud.state, Swarm):
        key = _tokens(axes, cloud, cloud.state, view)
    else:
        axes.plot(cloud.times, mean, color=INK)
    if cloud.closure is None:
        return key
    edges = band(cloud.closure, view)
    axes.plot(cloud.times, edges.T, color=CLOSURE_COLOUR, dashes=(4, 2), linewidth=1.2)
    return key._replace(handles=[*key.handles, CLOSURE])


def frame_line(axes: Axes, cloud: Cloud, view: Window) -> None:
    """Set the axis limits to all times and to the view of the coordinate."""
    axes.set_xlabel("time $t$")
    axes.set_ylim(view.centre[0] - view.half_width, view.centre[0] + view.half_width)
    if cloud.times.size > 1:
        margin = 0.02 * (cloud.times[-1] - cloud.times[0])
        axes.set_xlim(cloud.times[0] - margin, cloud.times[-1] + margin)


def band(track: Track, view: Window) -> np.ndarray:
    """The lower edge of mean ± 2 standard deviations, the mean, the upper edge."""
    mean = track.mean[:, 0]
    reach = N_SIGMA * np.sqrt((track.factor[:, 0] ** 2).sum(axis=-1))
    edges = np.stack([mean - reach, mean, mean + reach])
    return clip_points(edges[..., None], view)[..., 0]


def _tokens(axes: Axes, cloud: Cloud, state: Swarm, view: Window) -> Key:
    """Draw the paths of the tokens, with marks where they start and end."""
    tokens = dots(cloud, state, uniform_colour)
    x = clip_points(tokens.x, view)[..., 0]
    times = np.broadcast_to(cloud.times[:, None], x.shape)
    paths = np.stack([times, x], axis=-1).swapaxes(0, 1)
    shade = tokens.colours.tokens
    thread = {"linewidths": 0.9, "alpha": tokens.opacity}
    heavy = x.size > 20_000
    draw_lines(axes, list(paths), shade, rasterized=heavy, **thread)
    sizes = 0.5 * tokens.sizes
    axes.scatter(times[0], x[0], sizes, "white", edgecolors=GREY, linewidths=0.7)
    axes.scatter(times[-1], x[-1], sizes, shade, edgecolors="white", linewidths=0.4)
    return tokens.key([START, end_entry(shade), _BAND], view.note)


def line_scene(axes: Axes, image: Projection, film: Film) -> tuple[Show, Key]:
    """The scene of a run of dimension one, and the `Key` that explains it."""
    cloud, view = image.cloud, window(image.cloud)
    axes.set_ylabel(image.names[0])
    axes.grid(visible=True)
    scene = LineScene(axes, cloud, view, film.trails)
    note = "" if cloud.look.ylim else view.note
    notes = [scene.drawn.caption, note]
    handles: list[Artist] = [_mean(cloud), _EDGED_BAND]
    if isinstance(cloud.state, Swarm) and not scene.drawn.entries:
        handles.append(_TOKENS)
    if scene.is_broken:
        handles.append(_FRAME)
    return scene.show, Key(handles, None, "", notes, scene.drawn.entries)


def _mean(cloud: Cloud) -> Line2D:
    """The legend entry of the mean, with a dot if there are no tokens."""
    marker = "" if isinstance(cloud.state, Swarm) else "o"
    mean = line_entry("mean", INK)
    mean.set(marker=marker, markersize=5)
    mean.set(markerfacecolor=CYCLE[0], markeredgecolor=CYCLE[0])
    return mean


class LineScene:
    """Paths that grow with time, with the mean and a band of two standard deviations.

    Lines are broken where two frames are too far apart to interpolate; dots then mark
    the frames on either side.

    Args:
        axes: where to draw.
        cloud: a run of dimension one.
        view: the fixed window of the coordinate.
        trails: number of past frames that are drawn; all if None.
    """

    def __init__(
        self, axes: Axes, cloud: Cloud, view: Window, trails: int | None
    ) -> None:
        self.drawn = dots = moving_dots(cloud)
        frame_line(axes, cloud, view)
        mark_blow_up(axes, cloud.ending)
        self._breaks = 1 + np.flatnonzero(~interpolable_steps(cloud))
        self.is_broken = self._breaks.size > 0
        self._length = cloud.times.size if trails is None else trails
        x, shades = clip_points(dots.x, view)[..., 0], dots.colours.tokens
        times = np.broadcast_to(cloud.times[:, None], x.shape)
        self._paths = np.stack([times, x], axis=-1)
        self._track = Band(axes, cloud.times, band(moments(cloud.state), view))
        self._closure = None
        if cloud.closure is not None:
            self._closure = Edges(axes, cloud, cloud.closure, view)
        self._trails = draw_lines(axes, [], shades, linewidths=0.9, alpha=dots.opacity)
        self._dots = axes.scatter(
            times[0], x[0], dots.sizes, shades, edgecolors="white", linewidths=0.3
        )
        self._dots.set_zorder(4)

    def show(self, frame: int) -> None:
        """Move the artists to their places in `frame`."""
        first = max(frame - self._length, 0)
        trail = self._paths[first : frame + 1]
        breaks = self._breaks_between(first, frame) - first
        segments = np.insert(trail, breaks, np.nan, axis=0)
        self._trails.set_segments(list(segments.swapaxes(0, 1)))
        self._dots.set_offsets(self._paths[frame])
        self._track.show(frame, self._breaks_between(0, frame))
        if self._closure is not None:
            self._closure.show(frame)

    def _breaks_between(self, first: int, last: int) -> np.ndarray:
        """The frames in (`first`, `last`] at which lines begin anew after a gap."""
        return self._breaks[(self._breaks > first) & (self._breaks <= last)]


class Band:
    """The mean and its band up to a frame, with a bar across the band at that frame.

    Args:
        axes: where to draw.
        times: the times of all frames, (frames).
        edges: the lower edge, the mean and the upper edge, (3, frames).
    """

    def __init__(self, axes: Axes, times: np.ndarray, edges: np.ndarray) -> None:
        self._times, self._edges = times, edges
        self._fill = axes.fill_between([], [], color=PALE, alpha=0.6, linewidth=0)
        self._reaches = axes.plot([], [], color=PALE, linewidth=_REACH)[0]
        self._reaches.set_zorder(_BAR_ZORDER)
        self._lines = [
            axes.plot([], [], color=INK, linewidth=width)[0]
            for width in (0.6, 1.4, 0.6)
        ]
        self._points = axes.plot([], [], "o", color=INK, markersize=_POINT)[0]
        self._bar = axes.plot([], [], color=INK, linewidth=1.8, marker="_")[0]
        self._bar.set_zorder(_BAR_ZORDER)

    def show(self, frame: int, breaks: np.ndarray) -> None:
        """Show the frames up to `frame`; lines have gaps before those in `breaks`."""
        span = slice(0, frame + 1)
        times = np.insert(self._times[span], breaks, np.nan)
        edges = np.insert(self._edges[:, span], breaks, np.nan, axis=1)
        low, _, high = edges
        self._fill.set_data(times, low, high, where=np.isfinite(times).tolist())
        for line, values in zip(self._lines, edges, strict=True):
            line.set_data(times, values)
        ends = np.union1d(breaks, breaks - 1).astype(np.intp)
        self._points.set_data(np.tile(self._times[ends], 3), self._edges[:, ends])
        gap = np.full(ends.size, np.nan)
        reaches = np.stack([*self._edges[[0, 2]][:, ends], gap], axis=1)
        self._reaches.set_data(np.repeat(self._times[ends], 3), reaches.ravel())
        bar_ends = self._edges[[0, 2], frame]
        self._bar.set_data(np.full(2, self._times[frame]), bar_ends)


class Edges:
    """The mean and the band of a closure up to a frame, as lines."""

    def __init__(self, axes: Axes, cloud: Cloud, closure: Track, view: Window) -> None:
        self._times, self._edges = cloud.times, band(closure, view)
        self._lines = [
            axes.plot([], [], pattern, color=CLOSURE_COLOUR, linewidth=1.2)[0]
            for pattern in ("--", "-", "--")
        ]

    def show(self, frame: int) -> None:
        """Show the frames up to `frame`."""
        for line, values in zip(self._lines, self._edges, strict=True):
            line.set_data(self._times[: frame + 1], values[: frame + 1])
