"""Runs as movies: GIFs, for which no other program is needed, and videos."""

from collections.abc import Callable
from pathlib import Path

import xarray as xr
from PIL import Image

from meanfield._writing import check_writable
from meanfield.errors import InvalidInputError

from ._figure.look import OPTIONS, Look, look_of
from ._figure.options import options_of
from ._writing.files import put
from ._writing.film import Film
from .movies.painter import Painter
from .movies.plays import Movie, movies, suited
from .movies.stage import Play, stage
from .reading.relative import relative


def _unheard(done: int, total: int) -> None:
    """Progress that nobody listens to."""


def animate(
    dataset: xr.Dataset,
    path: str | Path,
    *,
    panel: str | None = None,
    look: Look | None = None,
    film: Film | None = None,
    progress: Callable[[int, int], None] = _unheard,
) -> Path:
    """Write a run as a movie: tokens with short trails, ellipses, a density, the cone.

    In one dimension paths grow with time, in space a camera turns; above three, the
    main plane is shown. Tokens that have words have them beside them, and the headline
    says which layer moves them. The view holds all tokens at all times, but for the
    farthest hundredth at either end of each axis where they would take over 1.6 times
    the room. If the cloud grows beyond thirty initial radii the view follows it, as it
    follows words that drift; a cloud that blows up leaves it. Small print says so.

    A Gaussian leaves its past ellipses behind, and an ensemble of them goes through the
    cone of covariances. A density is a curve with marks at its quantiles, or a map;
    with tokens, if the dataset carries them.

    In a wide frame the picture takes the height, and words stand beside it; in others
    words shrink where the picture would have less than six tenths of the shorter side.
    Small print counts the tokens that chosen limits leave out.

    A run of few frames moves straight from one to the next if they are near; else the
    earlier one is held, so that no number is false. A density jumps, and each of its
    frames stands as long as the next. Small print says so.

    Args:
        dataset: one run, of tokens, of a Gaussian or of a density; or several, in the
            plane, for `cone` and `disc`.
        path: a file name that ends in `.gif`; or in `.mp4` or `.webm`, for which the
            program ffmpeg must be there.
        panel: `tokens`, `density`, `cone` or `disc`; if None, what suits the run.
        look: how it looks; as on paper if None.
        film: its frames per second, length, pixels, trails, turns and hold.
        progress: called with the frames done and their number, after each.

    Returns:
        The file written.

    Raises:
        InvalidInputError: for an ensemble that has no movie, a run of one frame,
            another suffix, or a choice that is idle.
        ResourceError: if the file cannot be written.
        UnknownNameError: if there is no such movie.
        UnsupportedError: if ffmpeg is needed and not there.

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
    name = suited(dataset) if panel is None else panel
    movie = movies[name]
    film.refuse(target)
    _check(name, movie, [*look.chosen, *film.chosen])
    check_writable(target)
    data = look.upon(relative(dataset) if look.relative else dataset)
    with look.applied():
        play = movie.play(data, film)
        if play.times.size == 1:
            raise InvalidInputError(
                "This run has one frame to draw, which makes no movie: draw it by "
                "`meanfield plot`, or store more by `simulate --frames`."
            )
        frames = _painted(data, play, film, progress)
    return put(target, film.movie(frames, target.suffix.lower()))


def _painted(
    data: xr.Dataset, play: Play, film: Film, progress: Callable[[int, int], None]
) -> list[Image.Image]:
    """All frames as pixels."""
    figure, show = stage(data, play, film)
    total = play.times.size
    painter, frames = Painter(figure, film.size[0]), []
    for frame in range(total):
        show(frame)
        frames.append(painter.image())
        progress(frame + 1, total)
    return frames


def _check(name: str, movie: Movie, chosen: list[str]) -> None:
    """Refuse the first choice that does nothing in a movie.

    Raises:
        InvalidInputError: if there is one.
    """
    options = OPTIONS | options_of(Film)
    for choice in chosen:
        takers = options[choice].option.movies
        if takers == ():
            size = "; a movie has a `size`" if choice in ("width", "height") else ""
            idle = size or ", and idle in a movie"
            raise InvalidInputError(f"`{choice}` is for pictures{idle}.")
        if takers is not None and name not in takers:
            raise InvalidInputError(
                f"`{choice}` is for movies of {', '.join(takers)}; this is one of "
                f"{movie.of}."
            )
