"""Movies of runs: GIFs, and videos (which need ffmpeg)."""

from collections.abc import Callable
from pathlib import Path

import xarray as xr
from PIL import Image

from meanfield._writing import check_writable
from meanfield.errors import InvalidInputError

from ._figure.look import OPTIONS, Look, look_of
from ._figure.options import options_of
from ._figure.panels import prepare
from ._writing.files import write_file
from ._writing.film import Film
from .movies.painter import Painter
from .movies.plays import Movie, default_movie, movies
from .movies.stage import Play, stage


def _ignore_progress(n_done: int, total: int) -> None:
    """Do nothing; the default of `progress`."""


def animate(
    dataset: xr.Dataset,
    path: str | Path,
    *,
    panel: str | None = None,
    look: Look | None = None,
    film: Film | None = None,
    progress: Callable[[int, int], None] = _ignore_progress,
) -> Path:
    """Write a movie of a run: tokens with short trails, ellipses, a density, the cone.

    In one dimension paths grow with time; in three the camera turns; above three the
    plane of the two main axes is shown. Words, if the tokens have them, are drawn
    beside the tokens, and the headline names the current layer. The view contains all
    tokens at all times, except the outermost 1 % at either end of an axis if these
    would make the view more than 1.6 times as wide. The view follows a cloud that grows
    beyond thirty initial radii, or that consists of words and drifts; a cloud that
    blows up leaves the view. The small print notes each of these cases.

    A Gaussian is drawn with its past ellipses, and an ensemble of Gaussians as paths in
    the cone of covariances. A density is drawn as a curve with marks at its quantiles,
    or as a map, together with the tokens if the dataset contains them.

    In a wide frame the picture takes the full height, with the text in a column beside
    it; otherwise text shrinks if the picture would get less than 60 % of the shorter
    side. The small print counts the tokens outside user-chosen limits.

    If a run has fewer frames than the movie, states are interpolated linearly between
    frames that are close; otherwise the earlier frame is held. Densities are not
    interpolated: each stored frame is shown for the same time. The small print says so.

    Args:
        dataset: one run of tokens, of a Gaussian or of a density; or an ensemble in the
            plane, for `cone` and `disc`.
        path: a file name that ends in `.gif`; or in `.mp4` or `.webm`, which need the
            program ffmpeg.
        panel: `tokens`, `density`, `cone` or `disc`; if None, the default for this run.
        look: appearance; if None, the dataset's look, or else the paper style.
        film: frames per second, length, pixels, trails, camera turn and hold.
        progress: called after each frame with the numbers of finished frames and of
            all frames.

    Returns:
        The file written.

    Raises:
        InvalidInputError: if the movie shows one run but the dataset is an ensemble,
            the run has a single frame, the suffix is unknown, or an option has no
            effect here.
        ResourceError: if the file cannot be written.
        UnknownNameError: if `panel` is not a registered movie.
        UnsupportedError: if ffmpeg is needed and not installed.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import Film, animate
        >>> keys = {"n": 8, "d": 2, "A": -1.0, "t": 1.0, "frames": 3}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> animate(meanfield.open("run.zarr"), "a.gif", film=Film(seconds=0.5)).name
        'a.gif'
    """
    target, film = Path(path), film or Film()
    look = look_of(dataset) if look is None else look
    name = default_movie(dataset) if panel is None else panel
    movie = movies[name]
    film.check_target(target)
    _check(name, movie, [*look.choices, *film.choices])
    check_writable(target)
    data = prepare(dataset, look)
    with look.rc_context():
        play = movie.play(data, film)
        if play.times.size == 1:
            raise InvalidInputError(
                "A movie needs at least two frames; this run has one. Draw it with "
                "`meanfield plot`, or store more frames with `simulate --frames`."
            )
        frames = _paint_frames(data, play, film, progress)
    return write_file(target, film.movie(frames, target.suffix.lower()))


def _paint_frames(
    data: xr.Dataset, play: Play, film: Film, progress: Callable[[int, int], None]
) -> list[Image.Image]:
    """The frames of the movie as images."""
    figure, show = stage(data, play, film)
    total = play.times.size
    painter, frames = Painter(figure, film.size[0]), []
    for frame in range(total):
        show(frame)
        frames.append(painter.image())
        progress(frame + 1, total)
    return frames


def _check(name: str, movie: Movie, choices: list[str]) -> None:
    """Raises if one of the options has no effect in this movie.

    Raises:
        InvalidInputError: for the first such option.
    """
    options = OPTIONS | options_of(Film)
    for choice in choices:
        takers = options[choice].option.movies
        if takers == ():
            size = "; use `size` for a movie" if choice in ("width", "height") else ""
            idle = size or " and has no effect in a movie"
            raise InvalidInputError(f"`{choice}` is for pictures{idle}.")
        if takers is not None and name not in takers:
            raise InvalidInputError(
                f"`{choice}` is for movies of {', '.join(takers)}; this is a movie of "
                f"{movie.subject}."
            )
