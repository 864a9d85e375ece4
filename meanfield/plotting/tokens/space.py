"""Tokens in space: paths, and the main sections of ellipsoids."""

import numpy as np
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.marks import CLOSURE, START, Key, end, spread
from meanfield.plotting._figure.style import CLOSURE_COLOUR, GREY, INK
from meanfield.plotting._runs.data import Cloud, Swarm, Track
from meanfield.plotting._runs.observables import moments

from .colours import by_time
from .paths import dots, segments
from .plane import drawn_frames, faded, shades_of_time
from .views import Window, great_circles, window, within

_N_TOKENS, _N_GAUSSIAN = 2, 4


def draw_space(axes: Axes3D, cloud: Cloud, labels: tuple[str, ...]) -> Key:
    """Draw tokens, or a Gaussian, of dimension three."""
    view = window(cloud)
    bare_space(axes, cloud.look)
    low, high = view.centre - view.half_width, view.centre + view.half_width
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_zlim(low[2], high[2])
    axes.set(xlabel=labels[0], ylabel=labels[1], zlabel=labels[2])
    if isinstance(cloud.state, Swarm):
        key = _tokens(axes, cloud, cloud.state, view)
    else:
        key = _gaussian(axes, cloud, cloud.state, view)
    if cloud.closure is None:
        return key
    frames = drawn_frames(cloud, _N_TOKENS)
    shades = faded(CLOSURE_COLOUR, frames.size)
    _sections(axes, cloud.closure, frames, view).set(
        colors=np.repeat(shades, 3, axis=0), linestyles=[(0, (4, 2))], linewidths=1.2
    )
    return key._replace(handles=[*key.handles, CLOSURE])


def bare_space(axes: Axes3D, look: Look) -> None:
    """Equal axes with few ticks, seen from a little above."""
    axes.view_init(elev=20, azim=-58)
    axes.set_box_aspect((1, 1, 1), zoom=1.1 * look.zoom(6.6))  # pyright: ignore[reportArgumentType]
    axes.locator_params(nbins=6)


def _sections(
    axes: Axes3D, track: Track, frames: np.ndarray, view: Window
) -> Line3DCollection:
    """Main sections at some frames, added to the axes; the caller colours them."""
    drawn = Track(track.mean[frames], track.factor[frames])
    circles = great_circles(drawn).reshape(-1, 121, 3)
    sections = Line3DCollection(list(within(circles, view)), zorder=3)
    axes.add_collection3d(sections, autolim=False)
    return sections


def _tokens(axes: Axes3D, cloud: Cloud, state: Swarm, view: Window) -> Key:
    """Paths, starts, ends and ellipsoids of tokens."""
    tokens = dots(cloud, state, by_time)
    x, shades = within(tokens.x, view), tokens.threads
    if len(shades):
        axes.add_collection3d(
            Line3DCollection(
                list(segments(x)),
                colors=shades,
                linewidths=0.8,
                rasterized=len(shades) > 20_000,
            ),
            autolim=False,
        )
    _dots(axes, x[0], 0.6 * tokens.sizes, "white", GREY)
    faces = tokens.colours.tokens
    _dots(axes, x[-1], tokens.sizes, faces, "white")
    frames = drawn_frames(cloud, _N_TOKENS)
    sections = _sections(axes, moments(state), frames, view)
    sections.set(colors=np.repeat(faded(INK, frames.size), 3, axis=0), linewidths=0.8)
    return tokens.key([START, end(faces), spread(INK)], view.note)


def _dots(
    axes: Axes3D, x: np.ndarray, sizes: np.ndarray, faces: np.ndarray | str, edge: str
) -> None:
    """Dots of given areas; mplot3d, which has no stubs, seems to want one integer."""
    axes.scatter(
        *x.T,
        s=sizes,  # pyright: ignore[reportArgumentType]
        c=faces,
        edgecolors=edge,
        linewidths=0.5,
    )


def _gaussian(axes: Axes3D, cloud: Cloud, track: Track, view: Window) -> Key:
    """The path of the mean, and ellipsoids coloured by time."""
    frames = drawn_frames(cloud, _N_GAUSSIAN)
    shades, key = shades_of_time(cloud, frames, view)
    sections = _sections(axes, track, frames, view)
    sections.set(colors=np.repeat(shades, 3, axis=0), linewidths=1.2)
    mean = within(track.mean, view)
    axes.plot(*mean.T, color=GREY, linewidth=1.0)
    axes.scatter(*mean[frames].T, s=14, c=shades)
    return key
