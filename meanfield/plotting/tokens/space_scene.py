"""What moves in an animation of tokens or of a Gaussian in space, as it turns."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D
from typing_extensions import override

from meanfield.plotting._figure.marks import CLOSURE, Key, outline
from meanfield.plotting._figure.scenes import AbstractScene, move_in_space
from meanfield.plotting._figure.style import CLOSURE_COLOUR, INK
from meanfield.plotting._runs.data import Cloud
from meanfield.plotting._runs.observables import moments
from meanfield.plotting._writing.film import TURN, Film

from .moving import TRAIL, trail_length
from .paths import moving_dots
from .space import bare_space
from .views import (
    Projection,
    Window,
    great_circles,
    robust_windows,
    whole_figures,
    within,
)

_AZIMUTH = -52.0  # degrees: the middle of the way of the camera


def space_scene(axes: Axes, seen: Projection, film: Film) -> tuple[AbstractScene, Key]:
    """A scene of the run on axes in space, and its key."""
    assert isinstance(axes, Axes3D)
    views, note = robust_windows(seen.cloud)
    bare_space(axes, seen.cloud.look)
    axes.set(xlabel=seen.names[0], ylabel=seen.names[1], zlabel=seen.names[2])
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_formatter(FuncFormatter(whole_figures))
    scene = SpaceScene(axes, seen.cloud, views=views, film=film)
    drawn, handles = scene.drawn, [outline("2σ ellipsoid", INK)]
    if scene.length:
        handles.append(TRAIL)
    if seen.cloud.closure is not None:
        handles.append(CLOSURE)
    notes = [drawn.caption, note]
    return scene, Key(handles, None, "", notes, drawn.entries)


class SpaceScene(AbstractScene):
    """Dots with tails and the sections of their ellipsoid, before a camera that turns.

    Args:
        axes: where to draw.
        cloud: a run of dimension three.
        views: the window of each frame.
        film: its trails and its turn.
    """

    def __init__(
        self, axes: Axes3D, cloud: Cloud, *, views: list[Window], film: Film
    ) -> None:
        self._axes, self._views = axes, views
        self.drawn = drawn = moving_dots(cloud)
        self._x = drawn.x
        self.length = trail_length(drawn.x.shape[1], film.trails)
        turn = TURN if film.turn is None else film.turn
        self._azimuths = _AZIMUTH + turn * np.linspace(-0.5, 0.5, cloud.times.size)
        self._tails = _lines(axes, drawn.colours.tokens, 0.9)
        self._tails.set_alpha(drawn.opacity)
        self._dots = axes.scatter(
            *drawn.x[0].T,
            s=drawn.sizes,  # pyright: ignore[reportArgumentType]
            c=drawn.colours.tokens,
            edgecolors="white",
            linewidths=0.3,
        )
        tracks = [(moments(cloud.state), INK)]
        if cloud.closure is not None:
            tracks.append((cloud.closure, CLOSURE_COLOUR))
        self._sections = [
            (great_circles(track), _lines(axes, colour, 1.0))
            for track, colour in tracks
        ]

    @override
    def show(self, frame: int) -> None:
        view, axes = self._views[frame], self._axes
        low, high = view.centre - view.half_width, view.centre + view.half_width
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])
        axes.set_zlim(low[2], high[2])
        axes.view_init(elev=20, azim=float(self._azimuths[frame]))
        past = within(self._x[max(frame - self.length, 0) : frame + 1], view)
        self._tails.set_segments(list(past.swapaxes(0, 1)))
        move_in_space(self._dots, past[-1])
        for circles, lines in self._sections:
            lines.set_segments(list(within(circles[frame], view)))


def _lines(axes: Axes3D, colours: np.ndarray | str, width: float) -> Line3DCollection:
    """Lines in space, for now none, added to the axes."""
    lines = Line3DCollection([], colors=colours, linewidths=width)
    axes.add_collection3d(lines, autolim=False)
    return lines
