"""What moves in an animation of tokens or of a Gaussian."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from typing_extensions import override

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.marks import CLOSURE, Key, outline
from meanfield.plotting._figure.scenes import AbstractScene
from meanfield.plotting._figure.style import INK
from meanfield.plotting._runs.data import Cloud, Track
from meanfield.plotting._runs.observables import moments
from meanfield.plotting._writing.film import Film

from .colours import refuse_colours
from .line_scene import line_scene
from .moving import (
    MEAN,
    TRAIL,
    AbstractPart,
    Ghosts,
    MeanPath,
    Tokens,
    closure_outline,
    cloud_outline,
    trail_length,
)
from .moving_words import Words
from .paths import moving_dots
from .plane import frame_plane
from .views import (
    Projection,
    Window,
    limits_seen,
    robust_windows,
    whole_figures,
)


def cloud_scene(axes: Axes, seen: Projection, film: Film) -> tuple[AbstractScene, Key]:
    """A scene of the run on the axes, on the line or in the plane, and its key."""
    cloud = seen.cloud
    scene = line_scene if cloud.dimension == 1 else _in_plane
    shown, key = scene(axes, seen, film)
    if cloud.closure is not None:
        key = key._replace(handles=[*key.handles, CLOSURE])
    return shown, key._replace(notes=[seen.note, *key.notes])


def _in_plane(axes: Axes, seen: Projection, film: Film) -> tuple[AbstractScene, Key]:
    cloud, look = seen.cloud, seen.cloud.look
    views, note = robust_windows(cloud)
    frame_plane(axes, views[0])
    axes.set(xlabel=seen.names[0], ylabel=seen.names[1])
    if views[0] is not views[-1]:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(whole_figures))
    parts, key = _parts(axes, cloud, views=views, film=film)
    if cloud.closure is not None:
        parts.append(closure_outline(axes, cloud.closure))
    if look.xlim is None or look.ylim is None:
        axes.set_box_aspect(None)
    if look.xlim or look.ylim:  # the views are not those of the note
        note = ""
    scene = PlaneScene(axes, parts, views=views, look=look)
    return scene, key._replace(notes=[*key.notes, note])


def _parts(
    axes: Axes, cloud: Cloud, *, views: list[Window], film: Film
) -> tuple[list[AbstractPart], Key]:
    """What moves in the plane, and what explains it."""
    state = cloud.state
    spread = outline("2σ ellipse", INK)
    if isinstance(state, Track):
        refuse_colours(cloud)
        ghosts = Ghosts(axes, state, film.trails)
        parts = [ghosts, cloud_outline(axes, state), MeanPath(axes, state.mean)]
        return parts, Key([MEAN, spread, *ghosts.handles], None, "", [])
    drawn = moving_dots(cloud)
    tokens = Tokens(axes, drawn, film.trails)
    parts: list[AbstractPart] = [tokens, cloud_outline(axes, moments(state))]
    trail = [TRAIL] if trail_length(drawn.x.shape[1], film.trails) else []
    key = Key([spread, *trail], None, "", [drawn.caption], drawn.entries)
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


class PlaneScene(AbstractScene):
    """Parts that move in a view, which may follow them and fills the axes.

    Args:
        axes: where to draw.
        parts: what moves.
        views: the square window of each frame, widened to the shape of the axes.
        look: the limits that are chosen.
    """

    def __init__(
        self,
        axes: Axes,
        parts: Sequence[AbstractPart],
        *,
        views: list[Window],
        look: Look,
    ) -> None:
        self._axes, self._parts = axes, parts
        self._views, self._look = views, look

    @override
    def show(self, frame: int) -> None:
        room = np.array([self._axes.bbox.width, self._axes.bbox.height])
        low, high = limits_seen(self._views[frame], room, self._look)
        self._axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        seen = Window((low + high) / 2, float((high - low).max() / 2), "")
        for part in self._parts:
            part.show(frame, seen)
