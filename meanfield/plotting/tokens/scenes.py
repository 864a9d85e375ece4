"""What moves in an animation of tokens or of a Gaussian."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter
from mpl_toolkits.mplot3d.axes3d import Axes3D
from typing_extensions import override

from meanfield.plotting._figure.marks import CLOSURE, Key, outline
from meanfield.plotting._figure.parts import AbstractScene
from meanfield.plotting._figure.style import CLOSURE_COLOUR, INK
from meanfield.plotting._writing.film import TURN, Film
from meanfield.plotting.reading.data import Cloud, Track
from meanfield.plotting.reading.observables import moments

from .colours import refuse_colours
from .line_scene import line_scene
from .moving import (
    MEAN,
    TRAIL,
    AbstractPart,
    Ghosts,
    MeanPath,
    Outline,
    Tokens,
    trail_length,
)
from .moving_words import Words
from .paths import moving_dots
from .picture import bare_space, frame_plane, look_at, name_axes
from .views import Projection, Window, limits_seen, robust_windows

_AZIMUTH = -52.0  # degrees: the middle of the way of the camera

View = Callable[[int], Window]


def cloud_scene(axes: Axes, seen: Projection, film: Film) -> tuple[AbstractScene, Key]:
    """A scene of the run on axes of its dimension, up to three, and its key."""
    cloud = seen.cloud
    scene = line_scene if cloud.dimension == 1 else _room_scene
    shown, key = scene(axes, seen, film)
    if cloud.closure is not None:
        key = key._replace(handles=[*key.handles, CLOSURE])
    return shown, key._replace(notes=[seen.note, *key.notes])


def _room_scene(axes: Axes, seen: Projection, film: Film) -> tuple[AbstractScene, Key]:
    """A scene in the plane or in space."""
    cloud, look = seen.cloud, seen.cloud.look
    views, note = robust_windows(cloud)
    name_axes(axes, seen.names)
    if isinstance(axes, Axes3D):
        bare_space(axes, look)
        _plain_ticks(axes.xaxis, axes.yaxis, axes.zaxis)
        view = _in_space(axes, views, film)
        parts, key = _tokens(axes, cloud, film, "2σ ellipsoid")
    else:
        frame_plane(axes, views[0])
        if views[0] is not views[-1]:
            _plain_ticks(axes.xaxis, axes.yaxis)
        view = _in_plane(axes, cloud, views)
        parts, key = _parts(axes, cloud, views=views, film=film)
        if look.xlim is None or look.ylim is None:
            axes.set_box_aspect(None)
        if look.xlim or look.ylim:  # the views are not those of the note
            note = ""
    if cloud.closure is not None:
        parts.append(Outline(axes, cloud.closure, colour=CLOSURE_COLOUR, pattern="--"))
    return RoomScene(parts, view), key._replace(notes=[*key.notes, note])


def _plain_ticks(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(_whole_figures))


def _whole_figures(number: float, _: int) -> str:
    """A number of an axis by itself: a common power of ten would come and go."""
    return f"{number:g}".replace("-", "−")


def _in_plane(axes: Axes, cloud: Cloud, views: list[Window]) -> View:
    """Sets the view of a frame, widened to the shape of the axes, and gives it."""

    def view(frame: int) -> Window:
        room = np.array([axes.bbox.width, axes.bbox.height])
        low, high = limits_seen(views[frame], room, cloud.look)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        return Window((low + high) / 2, float((high - low).max() / 2), "")

    return view


def _in_space(axes: Axes3D, views: list[Window], film: Film) -> View:
    """Sets the view of a frame and turns the camera, and gives the view."""
    turn = TURN if film.turn is None else film.turn
    azimuths = _AZIMUTH + turn * np.linspace(-0.5, 0.5, len(views))

    def view(frame: int) -> Window:
        look_at(axes, views[frame])
        axes.view_init(elev=20, azim=float(azimuths[frame]))
        return views[frame]

    return view


def _tokens(
    axes: Axes, cloud: Cloud, film: Film, name: str
) -> tuple[list[AbstractPart], Key]:
    """Dots with their tails and their outline, and what explains them."""
    drawn = moving_dots(cloud)
    tokens = Tokens(axes, drawn, film.trails)
    parts = [tokens, Outline(axes, moments(cloud.state), colour=INK, pattern="-")]
    trail = [TRAIL] if trail_length(drawn.x.shape[1], film.trails) else []
    key = Key([outline(name, INK), *trail], None, "", [drawn.caption], drawn.entries)
    return parts, key


def _parts(
    axes: Axes, cloud: Cloud, *, views: list[Window], film: Film
) -> tuple[list[AbstractPart], Key]:
    """What moves in the plane, and what explains it."""
    state, name = cloud.state, "2σ ellipse"
    if isinstance(state, Track):
        refuse_colours(cloud)
        ghosts = Ghosts(axes, state, film.trails)
        ellipse = Outline(axes, state, colour=INK, pattern="-")
        key = Key([MEAN, outline(name, INK), *ghosts.handles], None, "", [])
        return [ghosts, ellipse, MeanPath(axes, state.mean)], key
    parts, key = _tokens(axes, cloud, film, name)
    if cloud.words is None or cloud.look.colour == "label":
        return parts, key  # colours say the words
    words = Words(
        axes,
        state.x,
        words=cloud.words,
        views=views,
        look=cloud.look,
        trails=film.trails,
    )
    return [*parts, words], key._replace(notes=[*key.notes, words.note])


class RoomScene(AbstractScene):
    """Parts that move in a view, which may follow them.

    Args:
        parts: what moves.
        view: sets the view of a frame, and gives it.
    """

    def __init__(self, parts: Sequence[AbstractPart], view: View) -> None:
        self._parts, self._view = parts, view

    @override
    def show(self, frame: int) -> None:
        view = self._view(frame)
        for part in self._parts:
            part.show(frame, view)
