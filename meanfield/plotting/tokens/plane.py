"""Tokens in the plane: paths, and ellipses of two standard deviations."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgba_array

from meanfield.plotting._figure.marks import CLOSURE, START, Key, end, spread
from meanfield.plotting._figure.style import CLOSURE_COLOUR, GREY, INK
from meanfield.plotting._runs.data import Cloud, Swarm, Track
from meanfield.plotting._runs.observables import even_frames, moments

from .colours import by_time, time_scale
from .paths import dots, segments
from .views import Window, ellipses, visible_frames, window, within
from .words import write_words

# Times at which tokens and Gaussians get their ellipse.
_N_TOKENS, _N_GAUSSIAN = 4, 9
# Points of an outline among dots, and of the paper below it that parts it from them.
_OUTLINE, _HALO = 1.5, 3.3


def draw_plane(axes: Axes, cloud: Cloud, labels: tuple[str, ...]) -> Key:
    """Draw tokens, or a Gaussian, of dimension two."""
    view = window(cloud)
    frame_plane(axes, view)
    axes.set(xlabel=labels[0], ylabel=labels[1])
    if isinstance(cloud.state, Swarm):
        key = _tokens(axes, cloud, cloud.state, view)
    else:
        key = _gaussian(axes, cloud, cloud.state, view)
    if cloud.closure is None:
        return key
    frames = drawn_frames(cloud, _N_TOKENS)
    shades = faded(CLOSURE_COLOUR, frames.size)
    closure = cloud.closure
    _outlines(axes, closure, frames, view).set(
        colors=shades, linestyles=[(0, (4, 2))], linewidths=1.5
    )
    return key._replace(handles=[*key.handles, CLOSURE])


def frame_plane(axes: Axes, view: Window) -> None:
    """Set equal scales and the limits of the view."""
    axes.set_box_aspect(1.0)
    axes.grid(visible=True)
    (x, y), half = view.centre, view.half_width
    axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half))


def drawn_frames(cloud: Cloud, at_most: int) -> np.ndarray:
    """The frames that get an ellipse: evenly spaced among those in the view."""
    frames = visible_frames(cloud)
    return frames[even_frames(frames.size, at_most)]


def faded(colour: str, count: int) -> np.ndarray:
    """The colour, more and more opaque as time goes on."""
    shades = np.tile(to_rgba_array(colour), (count, 1))
    shades[:, 3] = np.linspace(0.6, 1.0, count) if count > 1 else 1.0
    return shades


def shades_of_time(
    cloud: Cloud, frames: np.ndarray, view: Window
) -> tuple[np.ndarray, Key]:
    """Colours of some frames by their times, and what explains them."""
    scale = time_scale(cloud)
    shades = scale.to_rgba(cloud.times[frames])
    shown = None if cloud.times.size == 1 else scale
    return shades, Key([spread(to_hex(shades[-1]))], shown, "time $t$", [view.note])


def _outlines(
    axes: Axes, track: Track, frames: np.ndarray, view: Window
) -> LineCollection:
    """Ellipses at some frames, added to the axes; the caller colours them."""
    drawn = Track(track.mean[frames], track.factor[frames])
    outlines = LineCollection(list(within(ellipses(drawn), view)), zorder=3)
    axes.add_collection(outlines, autolim=False)
    return outlines


def _tokens(axes: Axes, cloud: Cloud, state: Swarm, view: Window) -> Key:
    """Paths, starts, ends and ellipses of tokens."""
    tokens = dots(cloud, state, by_time)
    x, shades = within(tokens.x, view), tokens.threads
    heavy = len(shades) > 20_000
    paths = LineCollection(
        list(segments(x)), colors=shades, linewidths=0.8, rasterized=heavy
    )
    axes.add_collection(paths, autolim=False)
    sizes, faces = tokens.sizes, tokens.colours.tokens
    rings = axes.scatter(*x[0].T, s=0.6 * sizes, c="white", edgecolors=GREY)
    rings.set(linewidths=0.6, zorder=2.7)
    axes.scatter(
        *x[-1].T, s=sizes, c=faces, edgecolors="white", linewidths=0.3, zorder=4
    )
    frames = drawn_frames(cloud, _N_TOKENS)
    track = moments(state)
    halo = _outlines(axes, track, frames, view)
    halo.set(colors="white", linewidths=_HALO, zorder=2.5)  # below the rings of starts
    outlines = _outlines(axes, track, frames, view)
    outlines.set(colors=faded(INK, frames.size), linewidths=_OUTLINE)
    key = tokens.key([START, end(faces), spread(INK)], view.note)
    if cloud.words is None or cloud.look.colour == "label":
        return key  # colours say it
    return key._replace(notes=[*key.notes, write_words(axes, x[-1], cloud, view)])


def _gaussian(axes: Axes, cloud: Cloud, track: Track, view: Window) -> Key:
    """The path of the mean, and ellipses coloured by time."""
    frames = drawn_frames(cloud, _N_GAUSSIAN)
    shades, key = shades_of_time(cloud, frames, view)
    _outlines(axes, track, frames, view).set(colors=shades, linewidths=1.4)
    mean = within(track.mean, view)
    axes.plot(*mean.T, color=GREY, linewidth=1.0)
    axes.scatter(*mean[frames].T, s=14, c=shades, zorder=4)
    return key
