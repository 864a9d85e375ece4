"""Runs as animated GIFs, written by Pillow: no other program is needed."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from meanfield._writing import check_writable
from meanfield.errors import InvalidInputError

from ._figure.panels import annotate, titled_figure
from ._figure.scenes import AbstractScene
from ._figure.style import CYCLE, PALE, style
from ._runs.data import cloud, kind
from ._runs.density import density_moments, density_run
from ._runs.observables import even_frames
from ._writing.files import put
from .density.scenes import density_scene
from .tokens.scenes import cloud_scene
from .tokens.views import projection, rms_radii

# Frames of the file; a longer run is thinned evenly.
_FRAMES = 150
_INCHES, _DPI = (4.8, 5.0), 90


def _unheard(done: int, total: int) -> None:
    """Progress that nobody listens to."""


@style()
def animate(
    dataset: xr.Dataset,
    path: str | Path,
    *,
    fps: int = 20,
    progress: Callable[[int, int], None] = _unheard,
) -> Path:
    """Write one run as an animated GIF: tokens with short trails, and their ellipse.

    In one dimension paths grow with time; above two, the main plane is shown. The view
    holds 98 % of the tokens at all times; if the cloud grows beyond thirty initial
    radii it follows the cloud instead, and says so. A density is a curve with marks at
    its quantiles, or a map; with tokens, if the dataset carries them.

    Args:
        dataset: one run, of tokens, of a Gaussian or of a density.
        path: a file name that ends in `.gif`.
        fps: frames per second.
        progress: called with the frames done and their number, after each.

    Returns:
        The file written.

    Raises:
        InvalidInputError: for an ensemble, another suffix, or `fps` out of (0, 100].
        ResourceError: if the file cannot be written.
    """
    target = Path(path)
    _check(dataset, target, fps)
    play = (_density_play if kind(dataset) == "grid" else _token_play)(dataset)
    figure, show = _stage(dataset, play)
    total = play.times.size
    frames = []
    for frame in range(total):
        show(frame)
        frames.append(_pixels(figure))
        progress(frame + 1, total)
    return put(target, _movie(frames, fps))


def _pixels(figure: Figure) -> Image.Image:
    content = BytesIO()
    figure.savefig(content, format="png", dpi=_DPI, pil_kwargs={"compress_level": 0})
    return Image.open(content).convert("RGB")


def _movie(frames: list[Image.Image], fps: int) -> bytes:
    """A GIF that starts again when it is over."""
    content = BytesIO()
    first, *others = frames
    first.save(
        content,
        format="gif",
        save_all=True,
        append_images=others,
        duration=1000 // fps,
        loop=0,
    )
    return content.getvalue()


def _check(dataset: xr.Dataset, target: Path, fps: int) -> None:
    if "run" in dataset.dims:
        raise InvalidInputError(
            f"An animation shows one run, this dataset holds {dataset.sizes['run']}: "
            "select one, as in `dataset.isel(run=0)`."
        )
    if target.suffix.lower() != ".gif":
        raise InvalidInputError(f"An animation is a `.gif` file; got `{target.name}`.")
    if not 0 < fps <= 100:
        raise InvalidInputError(f"`fps` must be above 0 and at most 100; got {fps}.")
    check_writable(target)


class _Play(NamedTuple):
    """The frames to show: their times, RMS radii, and what sets the scene."""

    times: np.ndarray
    sizes: np.ndarray
    set_scene: Callable[[Axes], tuple[AbstractScene, list[str]]]


def _token_play(dataset: xr.Dataset) -> _Play:
    run = cloud(dataset)
    run = run.at(even_frames(run.times.size, _FRAMES))
    seen = projection(run, 2)
    return _Play(run.times, rms_radii(run), lambda axes: cloud_scene(axes, seen))


def _density_play(dataset: xr.Dataset) -> _Play:
    run = density_run(dataset)
    run = run.at(even_frames(run.times.size, _FRAMES))
    sizes = np.sqrt((density_moments(run).factor ** 2).sum(axis=(-2, -1)))
    return _Play(run.times, sizes, lambda axes: density_scene(axes, run))


def _stage(dataset: xr.Dataset, play: _Play) -> tuple[Figure, Callable[[int], None]]:
    """The figure, laid out once for all frames, and what shows a frame on it."""
    figure = titled_figure(dataset, _INCHES)
    axes = figure.add_subplot()
    scene, notes = play.set_scene(axes)
    annotate(figure, *notes)
    times, sizes = play.times, play.sizes
    bar = _progress_bar(figure)

    def show(frame: int) -> None:
        scene.show(frame)
        axes.set_title(f"t = {times[frame]:.4g}      RMS radius {sizes[frame]:.3g}")
        bar.set_xdata([0.0, (frame + 1) / times.size])

    show(times.size - 1)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure, show


def _progress_bar(figure: Figure) -> Line2D:
    """A thin line along the lower edge that fills as time goes on."""
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
    return bar
