"""`meanfield animate`: movies of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from meanfield import plotting, runs
from meanfield._writing import check_output
from meanfield.cli.jobs._pictures import (
    add_tokens,
    check_not_comparison,
    frames_hint,
    open_dataset,
    parse_request,
    stem,
)
from meanfield.cli.options._looks import add_movie_options, film_of
from meanfield.cli.process._plugins import load_measure_of
from meanfield.cli.terminal._console import FrameProgress
from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray


def movie_names(_: object) -> list[str]:
    """Names of all movies, for shell completion; imports the movies when called."""
    from meanfield.plotting.movies.plays import movies

    return list(movies)


MOVIE = Parameter(metavar="NAME", completer=movie_names)


@add_movie_options
def animate(
    run: Path,
    /,
    *,
    panel: Annotated[str | None, MOVIE] = None,
    out: Path | None = None,
    force: bool = False,
    member: int | None = None,
    tokens: Path | None = None,
    plugin: list[Path] | None = None,
    **options: Any,
) -> None:
    """Make a movie of a run: GIF, or MP4 or WebM with ffmpeg.

    For example:
        meanfield animate first.zarr
        meanfield animate first.zarr --seconds 12 --out slow.gif
        meanfield animate first.zarr --size 1280x720 --style talk --out lecture.mp4
        meanfield animate first.zarr --panel cone         # a Gaussian in the plane

    In the movie of a text, the tokens are labelled with their words, and the current
    layer is shown. A family of Gaussians in the plane is drawn in the cone of
    covariances.

    Args:
        run: folder of the run.
        panel: panel of the movie: tokens, density, or cone or disc for covariances in
            the plane; by default the one that suits the run.
        out: output file, `.gif`, `.mp4` or `.webm`; by default RUN.gif next to the run.
        force: whether to replace an existing file (flag).
        member: index of the draw or start to show, from 0.
        tokens: run whose tokens are drawn over the density.
        plugin: Python file of a plugin of the run, if it was moved; may be repeated.
            Plugins that were loaded before and have not changed load automatically.
        **options: settings and style of the movie.
    """
    request, film = parse_request(options), film_of(options)
    check_not_comparison(run)
    if runs.is_sweep(run):
        raise InvalidInputError(
            f"A movie shows one run, and `{run}` is a sweep. Draw it with "
            f"`meanfield plot {run}`."
        )
    load_measure_of(run, plugin)
    target = out or run.parent / f"{stem(run)}.gif"
    check_output(target, force=force)
    data = add_tokens(_select_runs(open_dataset(run, request), member, panel), tokens)
    drawing = FrameProgress("drawing")
    look = request.look
    plotting.animate(data, target, panel=panel, look=look, film=film, progress=drawing)
    wide, high = film.pixels(target)
    even = "" if (wide, high) == film.size else ": the sides of a video must be even"
    note(f"wrote {target}, {wide} × {high}{even}")
    _note_few_frames(data)


def _note_few_frames(data: "xarray.Dataset") -> None:
    """Prints a hint to store more frames, if a run has few frames before a blow-up."""
    if "run" in data.dims:
        return
    spec, ending = plotting.spec_and_ending(data)
    if hint := frames_hint(spec, data.sizes["time"], ending.t_star):
        note(f"frames: {hint}")


def _select_runs(
    data: "xarray.Dataset", member: int | None, panel: str | None
) -> "xarray.Dataset":
    """The dataset of one flow, or of a whole family if the movie can show families."""
    from meanfield.plotting.movies.plays import default_movie, movies

    # Look up the name first: an unknown name is a clearer error than a missing member.
    movie = movies[default_movie(data) if panel is None else panel]
    if member is None and movie.is_for_ensembles:
        return data
    return _select_member(data, member)


def _select_member(data: "xarray.Dataset", member: int | None) -> "xarray.Dataset":
    """The dataset of one member, or of a run that has one flow only.

    Raises:
        InvalidInputError: if `member` is missing, does not exist, or is not needed.
    """
    count = data.sizes.get("run")
    if count is None and member is None:
        return data
    if count is None:
        raise InvalidInputError(
            "Leave out `--member`: it selects one of several draws or starts, and this "
            "run has only one."
        )
    if member is None or not 0 <= member < count:
        raise InvalidInputError(
            f"The run has {count} members, and this movie shows one: choose `--member` "
            f"from 0 to {count - 1}, or `--panel cone` for Gaussians in the plane."
        )
    return data.isel(run=member)
