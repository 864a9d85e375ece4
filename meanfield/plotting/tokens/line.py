"""Tokens or a Gaussian in one dimension: the coordinate over time."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from meanfield.plotting._figure.marks import CLOSURE, START, Key, end_entry, entry
from meanfield.plotting._figure.panels import mark_blow_up
from meanfield.plotting._figure.parts import draw_lines
from meanfield.plotting._figure.style import CLOSURE_COLOUR, GREY, INK, PALE
from meanfield.plotting.reading.data import Cloud, Swarm, Track
from meanfield.plotting.reading.observables import moments

from .colours import uniform_colour
from .paths import dots
from .views import N_SIGMA, Window, clip_points, window

_BAND = Patch(color=PALE, label="mean ± 2σ")
_MEAN = entry("mean", INK)


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
