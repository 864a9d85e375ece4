"""What moves in an animation of tokens or of a Gaussian."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from typing_extensions import override

from meanfield.plotting._figure.scenes import AbstractScene
from meanfield.plotting._figure.style import CLOSURE_COLOUR, INK
from meanfield.plotting._runs.data import Cloud, Swarm, Track
from meanfield.plotting._runs.observables import moments

from .colours import refuse_colours, uniform
from .line import band, frame_line
from .paths import Dots, dots
from .plane import frame_plane
from .views import Projection, Window, ellipses, robust_windows, window, within

# Frames of the past that a token trails behind it: less if there are many of them.
_TRAIL, _SHORT_TRAIL, _MANY = 6, 2, 300


def cloud_scene(
    axes: Axes, seen: Projection, trails: int | None
) -> tuple[AbstractScene, list[str]]:
    """A scene of the run on the axes, with so many frames of trails, and notes."""
    if seen.cloud.dimension == 1:
        view = window(seen.cloud)
        axes.set_ylabel(seen.labels[0])
        scene = LineScene(axes, seen.cloud, view, trails)
        return scene, [seen.note, scene.note, view.note]
    views, note = robust_windows(seen.cloud)
    frame_plane(axes, views[0])
    axes.set(xlabel=seen.labels[0], ylabel=seen.labels[1])
    scene = PlaneScene(axes, seen.cloud, views, trails)
    return scene, [seen.note, scene.note, note]


def _drawn(cloud: Cloud) -> Dots:
    """The tokens that are drawn; of a Gaussian its mean."""
    if isinstance(cloud.state, Swarm):
        return dots(cloud, cloud.state, uniform)
    refuse_colours(cloud)
    mean = cloud.state.mean[:, None, :]
    return Dots(mean, np.array([24.0]), uniform(cloud.times, 1), "")


class PlaneScene(AbstractScene):
    """Dots with short trails, and ellipses, in a view that may follow them.

    Args:
        axes: where to draw.
        cloud: a run of dimension two.
        views: the window of each frame.
        trails: frames of the past that are drawn; None for what suits their number.
    """

    def __init__(
        self, axes: Axes, cloud: Cloud, views: list[Window], trails: int | None
    ) -> None:
        self._axes, self._views = axes, views
        drawn = _drawn(cloud)
        self.note, self._x = drawn.caption, drawn.x
        suited = _TRAIL if drawn.x.shape[1] <= _MANY else _SHORT_TRAIL
        self._length = suited if trails is None else trails
        self._outlines = ellipses(moments(cloud.state))
        self._trails = LineCollection(
            [], colors=drawn.colours.tokens, linewidths=0.8, alpha=drawn.opacity
        )
        axes.add_collection(self._trails, autolim=False)
        self._dots = axes.scatter(
            *drawn.x[0].T,
            s=drawn.sizes,
            c=drawn.colours.tokens,
            edgecolors="white",
            linewidths=0.3,
        )
        (self._outline,) = axes.plot([], [], color=INK, linewidth=1.3)
        self._closure = None
        if cloud.closure is not None:
            (line,) = axes.plot([], [], color=CLOSURE_COLOUR, dashes=(4, 2))
            self._closure = (line, ellipses(cloud.closure))

    @override
    def show(self, frame: int) -> None:
        view = self._views[frame]
        (x, y), half = view.centre, view.half_width
        self._axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half))
        past = within(self._x[max(frame - self._length, 0) : frame + 1], view)
        self._trails.set_segments(list(past.swapaxes(0, 1)))
        self._dots.set_offsets(past[-1])
        self._outline.set_data(*within(self._outlines[frame], view).T)
        if self._closure is not None:
            line, outlines = self._closure
            line.set_data(*within(outlines[frame], view).T)


class LineScene(AbstractScene):
    """Paths that grow with time, and the mean with its band of two deviations.

    Args:
        axes: where to draw.
        cloud: a run of dimension one.
        view: the fixed window of the coordinate.
        trails: frames of the past that are drawn; None for all.
    """

    def __init__(
        self, axes: Axes, cloud: Cloud, view: Window, trails: int | None
    ) -> None:
        drawn = _drawn(cloud)
        frame_line(axes, cloud, view)
        self.note, self._times = drawn.caption, cloud.times
        self._length = cloud.times.size if trails is None else trails
        x, shades = within(drawn.x, view)[..., 0], drawn.colours.tokens
        times = np.broadcast_to(cloud.times[:, None], x.shape)
        self._paths = np.stack([times, x], axis=-1)
        self._trails = LineCollection(
            [], colors=shades, linewidths=0.9, alpha=drawn.opacity
        )
        axes.add_collection(self._trails, autolim=False)
        self._dots = axes.scatter(
            times[0], x[0], drawn.sizes, shades, edgecolors="white", linewidths=0.3
        )
        self._bands = _band_lines(axes, moments(cloud.state), view, INK)
        if cloud.closure is not None:
            self._bands += _band_lines(axes, cloud.closure, view, CLOSURE_COLOUR)

    @override
    def show(self, frame: int) -> None:
        past = self._paths[max(frame - self._length, 0) : frame + 1]
        self._trails.set_segments(list(past.swapaxes(0, 1)))
        self._dots.set_offsets(past[-1])
        for line, values in self._bands:
            line.set_data(self._times[: frame + 1], values[: frame + 1])


def _band_lines(
    axes: Axes, track: Track, view: Window, colour: str
) -> list[tuple[Line2D, np.ndarray]]:
    """Empty lines for the mean and for the two edges of the band, with their values."""
    lines = []
    for values, pattern in zip(band(track, view), ("--", "-", "--"), strict=True):
        (line,) = axes.plot([], [], pattern, color=colour, linewidth=1.2)
        lines.append((line, values))
    return lines
