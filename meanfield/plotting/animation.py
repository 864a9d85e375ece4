"""Runs as movies: GIFs, for which no other program is needed, and videos."""

from collections.abc import Callable
from functools import partial
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

from ._figure.look import Look, look_of
from ._figure.panels import annotate, finish, set_limits, titled_figure
from ._figure.scenes import AbstractScene
from ._figure.style import CYCLE, PALE
from ._runs.data import cloud, kind
from ._runs.density import density_moments, density_run
from ._runs.observables import even_frames
from ._runs.relative import relative
from ._writing.files import put
from ._writing.film import Film
from .density.scenes import density_scene
from .tokens.scenes import cloud_scene
from .tokens.views import projection, rms_radii

# Frames of the file; a longer run is thinned evenly.
_FRAMES = 150
_INCHES = 4.8  # the width of its text and lines, whatever its pixels


def _unheard(done: int, total: int) -> None:
    """Progress that nobody listens to."""


def animate(
    dataset: xr.Dataset,
    path: str | Path,
    *,
    look: Look | None = None,
    film: Film | None = None,
    progress: Callable[[int, int], None] = _unheard,
) -> Path:
    """Write one run as a movie: tokens with short trails, and their ellipse.

    In one dimension paths grow with time; above two, the main plane is shown. The view
    holds 98 % of the tokens at all times; if the cloud grows beyond thirty initial
    radii it follows the cloud instead, and says so. A density is a curve with marks at
    its quantiles, or a map; with tokens, if the dataset carries them.

    Args:
        dataset: one run, of tokens, of a Gaussian or of a density.
        path: a file name that ends in `.gif`; or in `.mp4` or `.webm`, for which the
            program ffmpeg must be there.
        look: how it looks; as on paper if None.
        film: its frames per second, pixels, trails, turns and hold.
        progress: called with the frames done and their number, after each.

    Returns:
        The file written.

    Raises:
        InvalidInputError: for an ensemble, another suffix, or a choice that is idle.
        ResourceError: if the file cannot be written.
        UnsupportedError: if ffmpeg is needed and not there.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import animate
        >>> keys = {"n": 8, "d": 2, "A": -1.0, "t": 1.0, "frames": 3}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> animate(meanfield.open("run.zarr"), "movie.gif").name
        'movie.gif'
    """
    target, film = Path(path), film or Film()
    look = look_of(dataset) if look is None else look
    _check(dataset, target, look, film)
    data = look.upon(relative(dataset) if look.relative else dataset)
    with look.applied():
        play = _PLAYS.get(kind(data), token_play)(data, film)
        figure, show = stage(data, play, film)
        total = play.times.size
        frames = []
        for frame in range(total):
            show(frame)
            frames.append(_pixels(figure, film))
            progress(frame + 1, total)
    return put(target, film.movie(frames, target.suffix.lower()))


def _pixels(figure: Figure, film: Film) -> Image.Image:
    content, dpi = BytesIO(), film.size[0] / figure.get_figwidth()
    figure.savefig(content, format="png", dpi=dpi, pil_kwargs={"compress_level": 0})
    return Image.open(content).convert("RGB")


def _check(dataset: xr.Dataset, target: Path, look: Look, film: Film) -> None:
    if "run" in dataset.dims:
        raise InvalidInputError(
            f"An animation shows one run, this dataset holds {dataset.sizes['run']}: "
            "select one, as in `dataset.isel(run=0)`."
        )
    film.refuse(target)
    for name in ("width", "height"):
        if getattr(look, name) is not None:
            raise InvalidInputError(f"`{name}` is for pictures; a movie has a `size`.")
    for name in ("heads", "query", "x"):
        if getattr(look, name) is not None:
            raise InvalidInputError(f"`{name}` is for pictures, and idle in a movie.")
    if kind(dataset) == "grid":
        idle = [n for n in ("link", "metric", "colour") if getattr(look, n) is not None]
        idle += ["trails"] if film.trails is not None else []
        if idle:
            raise InvalidInputError(
                f"`{idle[0]}` is for movies of tokens; this is one of a density."
            )
    check_writable(target)


class _Play(NamedTuple):
    """The frames to show: their times, RMS radii, and what sets the scene."""

    times: np.ndarray
    sizes: np.ndarray
    set_scene: Callable[[Axes], tuple[AbstractScene, list[str]]]


def token_play(dataset: xr.Dataset, film: Film) -> _Play:
    """The frames of a run of tokens or of a Gaussian, in the plane."""
    run = cloud(dataset)
    run = run.at(even_frames(run.times.size, _FRAMES))
    seen = projection(run, 2)
    scene = partial(cloud_scene, seen=seen, trails=film.trails)
    return _Play(run.times, rms_radii(run), scene)


def _density_play(dataset: xr.Dataset, _: Film) -> _Play:
    run = density_run(dataset)
    run = run.at(even_frames(run.times.size, _FRAMES))
    sizes = np.sqrt((density_moments(run).factor ** 2).sum(axis=(-2, -1)))
    return _Play(run.times, sizes, lambda axes: density_scene(axes, run))


_PLAYS = {"grid": _density_play}  # of others, what is drawn are tokens


def stage(
    dataset: xr.Dataset, play: _Play, film: Film
) -> tuple[Figure, Callable[[int], None]]:
    """The figure, laid out once for all frames, and what shows a frame on it."""
    width, height = film.size
    inches = _INCHES / min(width, height)  # the shorter side has room for its text
    figure = titled_figure(dataset, (inches * width, inches * height))
    axes = figure.add_subplot()
    scene, notes = play.set_scene(axes)
    annotate(figure, *notes)
    times, sizes = play.times, play.sizes
    bar, look = _progress_bar(figure), look_of(dataset)

    def show(frame: int) -> None:
        scene.show(frame)
        set_limits(figure, look)
        axes.set_title(f"t = {times[frame]:.4g}      RMS radius {sizes[frame]:.3g}")
        bar.set_xdata([0.0, (frame + 1) / times.size])

    show(times.size - 1)
    finish(figure, look)
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
