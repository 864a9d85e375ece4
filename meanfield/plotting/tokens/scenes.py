"""Scenes of movies of tokens or of a Gaussian."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.plotting._figure.marks import CLOSURE, Key, line_entry
from meanfield.plotting._figure.parts import Show
from meanfield.plotting._figure.style import CLOSURE_COLOUR, INK
from meanfield.plotting._writing.film import TURN, Film
from meanfield.plotting.reading.data import Cloud, Track
from meanfield.plotting.reading.observables import moments

from .colours import check_no_colours
from .line import line_scene
from .moving import (
    MEAN,
    TRAIL,
    Part,
    draw_ghosts,
    draw_mean_path,
    draw_outline,
    draw_tokens,
    trail_length,
)
from .paths import moving_dots
from .picture import bare_space, draw_sphere, frame_plane, look_at, name_axes
from .views import Projection, Window, robust_windows, view_limits
from .words import WordLabels

_AZIMUTH = -52.0  # azimuth of the camera halfway through a movie, in degrees

View = Callable[[int], Window]


def cloud_scene(axes: Axes, image: Projection, film: Film) -> tuple[Show, Key]:
    """The scene of a run in up to three dimensions, and the `Key` that explains it."""
    cloud = image.cloud
    scene = line_scene if cloud.dimension == 1 else _room_scene
    show, key = scene(axes, image, film)
    if cloud.closure is not None:
        key = key._replace(handles=[*key.handles, CLOSURE])
    return show, key._replace(notes=[image.note, *key.notes])


def _room_scene(axes: Axes, image: Projection, film: Film) -> tuple[Show, Key]:
    """The scene of a run in the plane or in space, and the `Key` that explains it."""
    cloud, look = image.cloud, image.cloud.look
    views, note = robust_windows(cloud)
    name_axes(axes, image.names)
    if isinstance(axes, Axes3D):
        bare_space(axes, look, (1.0, 1.0, 1.0))
        _plain_ticks(axes.xaxis, axes.yaxis, axes.zaxis)
        view = _space_view(axes, views, film)
        parts, key = _tokens(axes, cloud, film, "2σ ellipsoid")
    else:
        frame_plane(axes, views[0])
        if views[0] is not views[-1]:
            _plain_ticks(axes.xaxis, axes.yaxis)
        view = _plane_view(axes, cloud, views)
        parts, key = _parts(axes, cloud, views=views, film=film)
        if look.xlim is None or look.ylim is None:
            axes.set_box_aspect(None)
        if look.xlim or look.ylim:  # `note` describes views that the user replaced
            note = ""
    draw_sphere(axes, cloud)
    if cloud.closure is not None:
        outline = draw_outline(axes, cloud.closure, colour=CLOSURE_COLOUR, pattern="--")
        parts.append(outline)

    def show(frame: int) -> None:
        frame_view = view(frame)
        for show_part in parts:
            show_part(frame, frame_view)

    return show, key._replace(notes=[*key.notes, note])


def _plain_ticks(*axes: Axis) -> None:
    """Write tick labels in full, since a common power of ten would change over time."""
    for axis in axes:
        axis.set_major_formatter("{x:g}")


def _plane_view(axes: Axes, cloud: Cloud, views: list[Window]) -> View:
    """A function that sets and returns the view of a frame, fitted to the axes."""

    def view(frame: int) -> Window:
        room = np.array(axes.bbox.size)
        low, high = view_limits(views[frame], room, cloud.look)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        return Window((low + high) / 2, float((high - low).max() / 2), "")

    return view


def _space_view(axes: Axes3D, views: list[Window], film: Film) -> View:
    """A function that sets and returns the view of a frame, and turns the camera."""
    turn = TURN if film.turn is None else film.turn
    azimuths = _AZIMUTH + turn * np.linspace(-0.5, 0.5, len(views))

    def view(frame: int) -> Window:
        look_at(axes, views[frame])
        axes.view_init(elev=20, azim=float(azimuths[frame]))
        return views[frame]

    return view


def _tokens(axes: Axes, cloud: Cloud, film: Film, name: str) -> tuple[list[Part], Key]:
    """Dots with tails and an outline, and the `Key` that explains them."""
    dots = moving_dots(cloud)
    parts = [draw_tokens(axes, dots, film.trails)]
    handles = [TRAIL] if trail_length(dots.x.shape[1], film.trails) else []
    if cloud.is_flat:
        track = moments(cloud.state)
        parts.append(draw_outline(axes, track, colour=INK, pattern="-"))
        handles.insert(0, line_entry(name, INK))
    key = Key(handles, None, "", [dots.caption], dots.entries)
    return parts, key


def _parts(
    axes: Axes, cloud: Cloud, *, views: list[Window], film: Film
) -> tuple[list[Part], Key]:
    """The moving parts of a movie in the plane, and the `Key` that explains them."""
    state, name = cloud.state, "2σ ellipse"
    if isinstance(state, Track):
        check_no_colours(cloud)
        ghosts, earlier = draw_ghosts(axes, state, film.trails)
        ellipse = draw_outline(axes, state, colour=INK, pattern="-")
        key = Key([MEAN, line_entry(name, INK), *earlier], None, "", [])
        return [ghosts, ellipse, draw_mean_path(axes, state.mean)], key
    parts, key = _tokens(axes, cloud, film, name)
    if cloud.words is None or cloud.look.colour == "label":
        return parts, key  # there are no words, or the legend explains them
    labels = WordLabels(axes, cloud, views=views, trails=film.trails)
    return [*parts, labels.show], key._replace(notes=[*key.notes, labels.note])
