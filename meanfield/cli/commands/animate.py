"""`meanfield animate`: movies of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from meanfield import plotting, runs
from meanfield.cli.jobs._pictures import (
    carrying,
    more_frames,
    opened,
    refuse_comparison,
    requested,
    stem,
)
from meanfield.cli.options._looks import film_of, with_film
from meanfield.cli.process._plugins import load_measure_of
from meanfield.cli.terminal._console import FrameProgress
from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray


def movie_names(_: object) -> list[str]:
    """The names of movies, read when they are asked for."""
    from meanfield.plotting.movies.plays import movies

    return list(movies)


MOVIE = Parameter(metavar="NAME", completer=movie_names)


@with_film
def animate(
    run: Path,
    /,
    *,
    panel: Annotated[str | None, MOVIE] = None,
    out: Path | None = None,
    member: int | None = None,
    tokens: Path | None = None,
    plugin: list[Path] | None = None,
    **options: Any,
) -> None:
    """Make a movie of a run: a GIF; MP4 or WebM where ffmpeg is.

    For example:
        meanfield animate first.zarr
        meanfield animate first.zarr --seconds 12 --out slow.gif
        meanfield animate first.zarr --size 1280x720 --style talk --out lecture.mp4
        meanfield animate first.zarr --panel cone         # a Gaussian in the plane

    Words of a model's text go beside their tokens, and the layer is told. Many starts
    of a Gaussian in the plane go through the cone of covariances.

    Args:
        run: the folder of the run.
        panel: tokens, density, or cone or disc for covariances in the plane; by default
            what suits the run.
        out: file to write, `.gif`, `.mp4` or `.webm`; by default RUN.gif beside the
            run.
        member: which of several draws or starts to show, from 0.
        tokens: a run of tokens, to draw over a density.
        plugin: a Python file in place of one that the run began with; may be repeated.
            Those of the run are run again for a measure that only they have.
        **options: the movie and its look.
    """
    request, film = requested(options), film_of(options)
    refuse_comparison(run)
    if runs.is_sweep(run):
        raise InvalidInputError(
            f"A movie is of one run, and `{run}` is a sweep: draw it by "
            f"`meanfield plot {run}`."
        )
    load_measure_of(run, plugin)
    target = out or run.parent / f"{stem(run)}.gif"
    data = carrying(_shown(opened(run, request), member, panel), tokens)
    drawing = FrameProgress("drawing")
    look = request.look
    plotting.animate(data, target, panel=panel, look=look, film=film, progress=drawing)
    wide, high = film.pixels(target)
    even = "" if (wide, high) == film.size else ": sides of a video are even"
    note(f"wrote {target}, {wide} × {high}{even}")
    if "run" not in data.dims:
        _note_few_frames(data)


def _note_few_frames(data: "xarray.Dataset") -> None:
    """Says how to see more of a blow-up, if a run has few frames of it."""
    spec, ending = plotting.spec_and_ending(data)
    if few := more_frames(spec, data.sizes["time"], ending.t_star):
        note(f"frames: {few}")


def _shown(
    data: "xarray.Dataset", member: int | None, panel: str | None
) -> "xarray.Dataset":
    """One run, or all where a movie shows them together."""
    from meanfield.plotting.movies.plays import movies, suited

    # An unknown name is told before any member is asked for.
    movie = movies[suited(data) if panel is None else panel]
    if member is None and movie.of_several:
        return data
    return _one_of(data, member)


def _one_of(data: "xarray.Dataset", member: int | None) -> "xarray.Dataset":
    """The run itself, or one of its members.

    Raises:
        InvalidInputError: if it has several and none is chosen, or not so many.
    """
    count = data.sizes.get("run")
    if count is None and member is None:
        return data
    if count is None:
        raise InvalidInputError(
            "`--member` is for several draws or starts, and this is one run: leave it "
            "out."
        )
    if member is None or not 0 <= member < count:
        raise InvalidInputError(
            f"This movie shows one run and this holds {count}: choose one by "
            f"`--member`, from 0 to {count - 1}; `--panel cone` shows all in the plane."
        )
    return data.isel(run=member)
