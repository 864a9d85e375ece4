"""The registry of movies: tokens or a Gaussian, a density, covariances in the cone."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from meanfield._counting import count_phrase
from meanfield._registry import Registry
from meanfield.clusters import cluster_counts
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import Look, look_of
from meanfield.plotting._writing.film import Film
from meanfield.plotting.cone.path_animation import animate_paths
from meanfield.plotting.cone.scenes import cone_scene, disc_scene
from meanfield.plotting.density.scenes import density_scene
from meanfield.plotting.reading.data import Cloud, Swarm, cloud, kind
from meanfield.plotting.reading.density import density_moments, density_run
from meanfield.plotting.reading.metrics import link_of
from meanfield.plotting.reading.observables import sizes_of
from meanfield.plotting.reading.pace import (
    frames_shown,
    interpolable_steps,
    interpolate_run,
    interpolate_sizes,
    places_shown,
)
from meanfield.plotting.tokens.line import band
from meanfield.plotting.tokens.scenes import cloud_scene
from meanfield.plotting.tokens.views import (
    ellipses,
    projection,
    rms_radii,
    robust_windows,
    view_limits,
    window,
)

from .headline import notes_and_end, size_note
from .stage import Play


class Movie(NamedTuple):
    """A registered movie.

    Attributes:
        play: builds the `Play` of a run.
        subject: what it shows, for error messages.
        suits: the runs for which this movie is the default, as pairs: the kind of the
            run, and whether it is an ensemble in the plane.
        is_for_ensembles: whether it shows all runs of an ensemble.
    """

    play: Callable[[xr.Dataset, Film], Play]
    subject: str
    suits: tuple[tuple[str, bool], ...] = ()
    is_for_ensembles: bool = False


movies: Registry[Movie] = Registry("movie")


def default_movie(dataset: xr.Dataset) -> str:
    """The default movie of a dataset; the first registered one if no movie suits it."""
    several = "run" in dataset.dims and dataset.sizes["coord"] == 2
    run_kind = kind(dataset), several
    fitting = (name for name, movie in movies.items() if run_kind in movie.suits)
    return next(fitting, next(iter(movies)))


def token_play(dataset: xr.Dataset, film: Film) -> Play:
    """A movie of tokens, or of the ellipse of a Gaussian, in one to three dimensions.

    Raises:
        InvalidInputError: for an ensemble, or if `turn` is set but the run is not 3D.
    """
    _check_single_run(dataset)
    run = cloud(dataset)
    places, note = places_shown(interpolable_steps(run), film)
    sizes = interpolate_sizes(rms_radii(run), places)
    is_3d = run.dimension == 3
    if film.turn is not None and not is_3d:
        raise InvalidInputError(
            "`turn` is for movies of tokens or a Gaussian of dimension 3; this run has "
            f"dimension {run.dimension}. Leave out `turn`."
        )
    picture = projection(run, 3 if is_3d else 2)  # of stored frames, as in pictures
    run, image = interpolate_run(run, places), interpolate_run(picture.cloud, places)
    whole = None if picture.cloud.whole is None else run
    image = picture._replace(cloud=replace(image, whole=whole))
    notes = _size_notes(sizes, run.look) if run.is_flat else _cluster_notes(run)
    scene = partial(cloud_scene, image=image, film=film)
    return Play(
        run.times,
        notes_and_end(notes, run.ending),
        scene,
        "3d" if is_3d else None,
        note,
        partial(overflow_note, image.cloud),
    )


def density_play(dataset: xr.Dataset, film: Film) -> Play:
    """A movie of a density, as a curve or a map, without interpolation in time."""
    _check_single_run(dataset)
    run = density_run(dataset)
    frames, note = frames_shown(run.times.size, film)
    run = run.take(frames)
    look, sizes = look_of(dataset), sizes_of(density_moments(run).factor)
    frame_notes = notes_and_end(_size_notes(sizes, look), run.ending)
    scene = partial(density_scene, run=run, look=look)
    return Play(run.times, frame_notes, scene, None, note)


def cone_play(dataset: xr.Dataset, film: Film) -> Play:
    """A movie of 2 × 2 covariances as points of the cone of semidefinite matrices."""
    return _path_play(dataset, film, "cone", cone_scene)


def disc_play(dataset: xr.Dataset, film: Film) -> Play:
    """A movie of the shapes of 2 × 2 covariances as points of the disc of trace one."""
    return _path_play(dataset, film, "disc", disc_scene)


def _path_play(
    dataset: xr.Dataset, film: Film, panel: str, scene: Callable[..., Any]
) -> Play:
    _check_dimension(dataset, panel)
    animation = animate_paths(dataset, film, panel)
    draw_scene = partial(scene, animation=animation, dataset=dataset, film=film)
    projection = "3d" if panel == "cone" else None
    times, frame_notes = animation.times, animation.count
    return Play(times, frame_notes, draw_scene, projection, animation.note)


def _size_notes(radii: np.ndarray, look: Look) -> list[str]:
    """The radii in the headline; empty if the look scales each to 1."""
    return ["" if look.relative else size_note(float(radius)) for radius in radii]


def _cluster_notes(run: Cloud) -> list[str]:
    """The numbers of clusters in the headline, of tokens on a sphere."""
    state = run.state
    assert isinstance(state, Swarm)
    if run.look.relative:  # directions are not those seen from 0
        return [""] * run.times.size
    link = link_of(run.look, state, moves_directions=run.moves_directions)
    x, radii = link.embed(state)
    counts = cluster_counts(x, state.weights, radii).counts
    return [count_phrase(int(count), "cluster") for count in counts]


def overflow_note(cloud: Cloud, axes: Axes) -> str:
    """A note with the largest number of tokens outside user-set limits in any frame.

    The note is empty if the user set no limits. Tokens outside the default view are
    mentioned in the note on the view.
    """
    if not (cloud.look.xlim or cloud.look.ylim):
        return ""
    places, low, high = (
        _line_places(cloud) if cloud.dimension == 1 else _plane_places(cloud, axes)
    )
    n_outside = np.any((places < low) | (places > high), axis=-1).sum(axis=1).max()
    if n_outside == 0:
        return ""
    if isinstance(cloud.state, Swarm):
        return f"up to {n_outside} of {places.shape[1]} tokens are outside the view"
    return "two deviations reach outside the view"


def _plane_places(
    cloud: Cloud, axes: Axes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens or ellipses (time, n, 2), and the axis limits of each frame."""
    state = cloud.state
    places = state.x if isinstance(state, Swarm) else ellipses(state)
    room, (views, _) = np.array(axes.bbox.size), robust_windows(cloud)
    corners = [view_limits(view, room, cloud.look) for view in views]
    low, high = np.stack(corners, axis=1)[:, :, None]
    return places, low, high


def _line_places(cloud: Cloud) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (time, coordinate) as (time, n, 2), and the limits that the user set."""
    state, look = cloud.state, cloud.look
    x = state.x[..., 0] if isinstance(state, Swarm) else band(state, window(cloud)).T
    places = np.stack(np.broadcast_arrays(cloud.times[:, None], x), axis=-1)
    limits = (look.xlim or (-np.inf, np.inf), look.ylim or (-np.inf, np.inf))
    low, high = np.array(limits).T
    return places, low, high


def _check_dimension(dataset: xr.Dataset, panel: str) -> None:
    """Raises unless the dimension is two; the message names a suitable movie."""
    d = dataset.sizes["coord"]
    if d != 2:
        suffix = " of one of its runs" if "run" in dataset.dims else ""
        raise InvalidInputError(
            f"The movie `{panel}` draws covariances of dimension 2; this run has "
            f"dimension {d}. Use the movie `{default_movie(dataset)}`{suffix}."
        )


def _check_single_run(dataset: xr.Dataset) -> None:
    if "run" in dataset.dims:
        several = " or ".join(f"`{n}`" for n, m in movies.items() if m.is_for_ensembles)
        raise InvalidInputError(
            f"This movie shows one run; this dataset has {dataset.sizes['run']} runs. "
            f"Select a run, as in `dataset.isel(run=0)`, or in two dimensions use the "
            f"movie {several}, which shows all runs."
        )


movies.register("tokens")(Movie(token_play, "tokens or a Gaussian"))
movies.register("density")(
    Movie(density_play, "a density", suits=(("grid", False), ("grid", True)))
)
movies.register("cone")(
    Movie(cone_play, "covariances", suits=(("gaussian", True),), is_for_ensembles=True)
)
movies.register("disc")(Movie(disc_play, "covariances", is_for_ensembles=True))
