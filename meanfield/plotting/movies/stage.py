"""The stage of a movie: a figure laid out once, its words and its progress."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import Key
from meanfield.plotting._figure.panels import finish, set_limits
from meanfield.plotting._figure.parts import AbstractScene
from meanfield.plotting._figure.style import CYCLE, GREY, PALE
from meanfield.plotting._writing.film import Film
from meanfield.plotting.reading.depth import layers_passed

from .headline import Says, headlines
from .pages import page_of
from .space_room import space_taken

_INCHES = 4.8  # the shorter side, in which text and lines are measured
# A picture has this share of the shorter side at least; for it words shrink, so much at
# most, and a little more than they need to, since margins do not.
_HELD, _MOST, _SPARE = 0.6, 1.7, 1.05
# Frames of a movie in space that are measured first, since a camera that turns is
# closest to the words somewhere on its way: one for each 30 degrees of a whole turn.
_MEASURED = 13


class Play(NamedTuple):
    """What is played.

    Attributes:
        times: of its frames.
        says: words about each frame.
        set_scene: sets the scene on a figure, and says what explains it.
        unseen: what small print says of tokens outside the axes in some frame.
    """

    times: np.ndarray
    says: Says
    set_scene: Callable[[Figure], tuple[Axes, AbstractScene, Key]]
    unseen: Callable[[Axes], str]


def stage(
    dataset: xr.Dataset, play: Play, film: Film
) -> tuple[Figure, Callable[[int], None]]:
    """The figure, laid out once for all frames, and what shows a frame on it."""
    inches = _INCHES
    figure, axes, show = _staged(dataset, play, film, "", inches)
    most = _shrinking(figure, axes)
    for shrinking in (most**0.5, most):  # words that shrink take fewer lines, too
        if _shrinking(figure, axes) > 1:
            inches = shrinking * _INCHES
            figure, axes, show = _staged(dataset, play, film, "", inches)
    unseen = play.unseen(axes)
    if unseen:
        figure, _, show = _staged(dataset, play, film, unseen, inches)
    return figure, show


def _shrinking(figure: Figure, axes: Axes) -> float:
    """By how much words are too large, which leave the picture too little room."""
    page = figure.bbox
    picture = space_taken(axes) if isinstance(axes, Axes3D) else axes.bbox
    share = float(picture.height / min(page.width, page.height))
    if share >= _HELD:
        return 1.0
    return min(_SPARE * (1 - share) / (1 - _HELD), _MOST)


def _staged(
    dataset: xr.Dataset, play: Play, film: Film, note: str, inches: float
) -> tuple[Figure, Axes, Callable[[int], None]]:
    """The figure, its axes and what shows a frame, with a note in the small print.

    Its shorter side has so many inches: words are the smaller, the more there are.
    """
    width, height = film.size
    pixel = inches / min(width, height)
    size = (pixel * width, pixel * height)
    page = page_of(dataset, size)
    figure, look, last = page.figure, look_of(dataset), play.times.size - 1
    axes, scene, key = play.set_scene(figure)
    key = key._replace(notes=[*key.notes, note])
    page.write(axes, key, headlines(dataset, play.times, play.says))
    starts = [layer.start for layer in layers_passed(dataset)[1:]]
    marks = np.searchsorted(play.times, starts) / play.times.size
    bar = _progress_bar(figure, marks.tolist())

    def show(frame: int) -> None:
        scene.show(frame)
        set_limits(figure, look)
        page.say(frame)
        bar.set_xdata([0.0, (frame + 1) / play.times.size])

    show(last)
    finish(figure, look)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    if isinstance(axes, Axes3D):
        frames = np.unique(np.linspace(0, last, _MEASURED).astype(np.intp))
        frames = frames[_outermost(_spaces_taken(figure, axes, show, frames))]
        page.fill(axes, lambda: Bbox.union(_spaces_taken(figure, axes, show, frames)))
    return figure, axes, show


def _spaces_taken(
    figure: Figure, axes: Axes3D, show: Callable[[int], None], frames: np.ndarray
) -> list[Bbox]:
    """What axes in space take, with their labels, in each of these frames."""
    boxes = []
    for frame in frames:
        show(int(frame))
        figure.draw_without_rendering()
        boxes.append(space_taken(axes))
    return boxes


def _outermost(boxes: list[Bbox]) -> np.ndarray:
    """The boxes that reach farthest to the left, right, down or up, each once."""
    sides = np.array([box.extents for box in boxes]) * [1, 1, -1, -1]
    return np.unique(sides.argmin(axis=0))


def _progress_bar(figure: Figure, marks: list[float]) -> Line2D:
    """A thin line along the lower edge that fills as time goes on, marked at layers."""
    for share, colour in ((1.0, PALE), (0.0, CYCLE[0])):
        bar = Line2D(
            [0.0, share],
            [0.004, 0.004],
            color=colour,
            linewidth=3,
            transform=figure.transFigure,
            solid_capstyle="butt",
        )
        figure.add_artist(bar)
    for mark in marks:
        tick = Line2D([mark, mark], [0.0, 0.014], color=GREY, linewidth=1.0)
        tick.set_transform(figure.transFigure)
        figure.add_artist(tick)
    return bar
