"""The stage of a movie: a figure laid out once, its headline and its progress."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.endings import Status
from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.panels import (
    annotate,
    ending_words,
    finish,
    set_limits,
    titled_figure,
)
from meanfield.plotting._figure.scenes import AbstractScene
from meanfield.plotting._figure.style import CYCLE, GREY, PALE
from meanfield.plotting._runs.data import Ending
from meanfield.plotting._runs.depth import layers_passed
from meanfield.plotting._writing.film import Film

_INCHES = 4.8  # the width of its text and lines, whatever its pixels
_PLAIN = (-3, 2)  # powers of ten between which numbers are written without one
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LIFT = 14.0  # points of a headline above the axes, whose power of ten is below it
_SUNK = -16.0  # of a headline over axes in space, whose upper corners are empty
_DIGITS = 3  # of a hundredth of the time that passes


class Play(NamedTuple):
    """What is played: times of its frames, words about each, the end, and the scene."""

    times: np.ndarray
    says: Callable[[int], str]
    end: str
    set_scene: Callable[[Figure], tuple[Axes, AbstractScene, list[str]]]


def stage(
    dataset: xr.Dataset, play: Play, film: Film
) -> tuple[Figure, Callable[[int], None]]:
    """The figure, laid out once for all frames, and what shows a frame on it."""
    width, height = film.size
    inches = _INCHES / min(width, height)  # the shorter side has room for its text
    figure = titled_figure(dataset, (inches * width, inches * height))
    axes, scene, notes = play.set_scene(figure)
    annotate(figure, "; ".join(filter(None, notes)))
    lines, look, lift = _headlines(dataset, play), look_of(dataset), _lift(axes)
    bar = _progress_bar(figure, _layer_shares(dataset, play.times))

    def show(frame: int) -> None:
        scene.show(frame)
        set_limits(figure, look)
        # Axes in space lower their title, which is put back.
        axes.set_title(lines[frame], loc="left", y=1.0, pad=lift).set_y(1.0)
        bar.set_xdata([0.0, (frame + 1) / play.times.size])

    show(play.times.size - 1)
    finish(figure, look)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure, show


def _lift(axes: Axes) -> float:
    """How high the headline stands above the axes, in points: over any legend."""
    legend, figure = axes.get_legend(), axes.get_figure(root=True)
    if legend is None or figure is None:
        return _SUNK if isinstance(axes, Axes3D) else _LIFT
    return _LIFT + 72 / figure.dpi * float(legend.get_window_extent().height)


def _headlines(dataset: xr.Dataset, play: Play) -> list[str]:
    """Time, layer, and what else is said of each frame; of the last how it ended."""
    times = play.times
    decimals = _decimals(float(times[-1] - times[0]))
    said = [play.says(frame) for frame in range(times.size)]
    if play.end:
        said[-1] = play.end
    parts = zip(times, layers_shown(dataset, times), said, strict=True)
    return [
        "     ".join(filter(None, [f"t = {t:.{decimals}f}", layer, word]))
        for t, layer, word in parts
    ]


def _decimals(span: float) -> int:
    """Digits after the point that tell one frame from the next, the same in all."""
    if not span > 0:
        return _DIGITS
    return int(np.clip(_DIGITS - 1 - np.floor(np.log10(span)), 0, 9))


def layers_shown(dataset: xr.Dataset, times: np.ndarray) -> list[str]:
    """The layer that moves the tokens at each time, as `layer 2 (3 of 6)`."""
    layers = layers_passed(dataset)
    if not layers:
        return [""] * times.size
    starts = [layer.start for layer in layers]
    indices = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
    return [f"layer {layers[i].number} ({i + 1} of {len(layers)})" for i in indices]


def _layer_shares(dataset: xr.Dataset, times: np.ndarray) -> list[float]:
    """Where layers after the first begin, as shares of the frames."""
    starts = [layer.start for layer in layers_passed(dataset)[1:]]
    return list(np.searchsorted(times, starts) / times.size)


def end_note(ending: Ending) -> str:
    """How a run ended, where that is more than its last time."""
    if ending.status is Status.FINISHED:
        return ""
    return ending_words(ending)


def size_note(size: float) -> str:
    """A size in three digits, with a power of ten where it is large or small.

    Nothing is said of one that is not finite.
    """
    if size == 0:
        return "RMS radius 0"
    if not np.isfinite(size):
        return ""
    mantissa, _, power = f"{size:.2e}".partition("e")
    if _PLAIN[0] <= int(power) <= _PLAIN[1]:
        return f"RMS radius {size:.{2 - int(power)}f}"
    return f"RMS radius {mantissa}·10{str(int(power)).translate(_RAISED)}"


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
