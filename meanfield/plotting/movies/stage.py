"""The figure of a movie: laid out once, with text and a progress bar."""

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
from meanfield.plotting._figure.panels import finish, set_scales_and_limits
from meanfield.plotting._figure.parts import Show
from meanfield.plotting._figure.style import CYCLE, GREY, PALE
from meanfield.plotting._writing.film import Film
from meanfield.plotting.reading.depth import layers_passed

from .headline import FrameNotes, headlines
from .pages import page_of
from .space_room import space_taken

_INCHES = 4.8  # default length of the shorter side, in inches; text is sized for it
# If the picture would take less than `_MIN_SHARE` of the shorter side, text shrinks, at
# most by the factor `_MAX_SHRINKING`. The factor `_SPARE` compensates for margins of
# fixed size.
_MIN_SHARE, _MAX_SHRINKING, _SPARE = 0.6, 1.7, 1.05
# The extent of 3D axes depends on the camera, so it is measured in `_N_MEASURED`
# frames. In a whole turn of the camera, these frames are 30 degrees apart.
_N_MEASURED = 13


def _no_note(_: Axes) -> str:
    """An empty note, for movies that do not report tokens outside the view."""
    return ""


class Play(NamedTuple):
    """The content of a movie.

    Attributes:
        times: the times of the frames.
        frame_notes: returns the notes in the headline of a frame.
        scene: draws the scene on axes; returns a function that shows a frame, and a
            key.
        projection: `3d` for axes in space.
        note: a note on the times of the frames.
        overflow_note: returns a note on tokens outside the axes; empty if all fit.
    """

    times: np.ndarray
    frame_notes: FrameNotes
    scene: Callable[[Axes], tuple[Show, Key]]
    projection: str | None
    note: str
    overflow_note: Callable[[Axes], str] = _no_note


def stage(
    dataset: xr.Dataset, play: Play, film: Film
) -> tuple[Figure, Callable[[int], None]]:
    """The figure, laid out once for all frames, and a function that shows a frame."""
    inches = _INCHES
    figure, axes, show = _build_stage(dataset, play, film, "", inches)
    limit = _shrinking(figure, axes)
    for shrinking in (limit**0.5, limit):  # smaller text also takes fewer lines
        if _shrinking(figure, axes) > 1:
            inches = shrinking * _INCHES
            figure, axes, show = _build_stage(dataset, play, film, "", inches)
    note = play.overflow_note(axes)
    if note:
        figure, _, show = _build_stage(dataset, play, film, note, inches)
    return figure, show


def _shrinking(figure: Figure, axes: Axes) -> float:
    """The factor by which text should shrink to leave the picture enough room."""
    page = figure.bbox
    picture = space_taken(axes) if isinstance(axes, Axes3D) else axes.bbox
    share = float(picture.height / min(page.width, page.height))
    if share >= _MIN_SHARE:
        return 1.0
    return min(_SPARE * (1 - share) / (1 - _MIN_SHARE), _MAX_SHRINKING)


def _build_stage(
    dataset: xr.Dataset, play: Play, film: Film, note: str, inches: float
) -> tuple[Figure, Axes, Callable[[int], None]]:
    """The figure, its axes, and a function that shows a frame.

    `note` is added to the small print. `inches` is the length of the shorter side: the
    larger it is, the smaller is the text relative to the picture.
    """
    width, height = film.size
    pixel = inches / min(width, height)
    size = (pixel * width, pixel * height)
    page = page_of(dataset, size)
    figure, look, last = page.figure, look_of(dataset), play.times.size - 1
    axes = figure.add_subplot(projection=play.projection)
    show_scene, key = play.scene(axes)
    key = key._replace(notes=[*key.notes, play.note, note])
    page.write(axes, key, headlines(dataset, play.times, play.frame_notes))
    starts = [layer.start for layer in layers_passed(dataset)[1:]]
    marks = np.searchsorted(play.times, starts) / play.times.size
    bar = _progress_bar(figure, marks.tolist())

    def show(frame: int) -> None:
        show_scene(frame)
        set_scales_and_limits(figure, look)
        page.write_headline(frame)
        bar.set_xdata([0.0, (frame + 1) / play.times.size])

    show(last)
    finish(figure, look)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    if isinstance(axes, Axes3D):
        frames = np.unique(np.linspace(0, last, _N_MEASURED).astype(np.intp))
        frames = frames[_outermost(_spaces_taken(figure, axes, show, frames))]
        page.fill(axes, lambda: Bbox.union(_spaces_taken(figure, axes, show, frames)))
    return figure, axes, show


def _spaces_taken(
    figure: Figure, axes: Axes3D, show: Callable[[int], None], frames: np.ndarray
) -> list[Bbox]:
    """The boxes of 3D axes with their labels in each of the frames, in pixels."""
    boxes = []
    for frame in frames:
        show(int(frame))
        figure.draw_without_rendering()
        boxes.append(space_taken(axes))
    return boxes


def _outermost(boxes: list[Bbox]) -> np.ndarray:
    """Indices of the boxes that extend farthest to the left, right, bottom or top."""
    sides = np.array([box.extents for box in boxes]) * [1, 1, -1, -1]
    return np.unique(sides.argmin(axis=0))


def _progress_bar(figure: Figure, marks: list[float]) -> Line2D:
    """Add a progress bar at the bottom edge, with marks where layers begin."""
    for share, colour in ((1.0, PALE), (0.0, CYCLE[0])):
        bar = Line2D([0.0, share], [0.004, 0.004], color=colour, linewidth=3)
        bar.set_solid_capstyle("butt")
        figure.add_artist(bar)
    for mark in marks:
        figure.add_artist(Line2D([mark, mark], [0.0, 0.014], color=GREY, linewidth=1.0))
    return bar
