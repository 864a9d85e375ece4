"""What can be played: tokens or a Gaussian, a density, covariances in the cone."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._registry import Registry
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import Look, look_of
from meanfield.plotting._figure.marks import Key
from meanfield.plotting._figure.parts import AbstractScene
from meanfield.plotting._writing.film import Film
from meanfield.plotting.cone.march import marched
from meanfield.plotting.cone.scenes import cone_scene, disc_scene
from meanfield.plotting.density.scenes import density_scene
from meanfield.plotting.reading.data import cloud, kind
from meanfield.plotting.reading.density import density_moments, density_run
from meanfield.plotting.reading.observables import sizes_of
from meanfield.plotting.reading.pace import (
    between,
    frames_shown,
    held,
    jump_note,
    moments_shown,
    near_steps,
    sizes_between,
    straight_note,
)
from meanfield.plotting.tokens.scenes import cloud_scene
from meanfield.plotting.tokens.views import projection, rms_radii

from .headline import sizes_and_end
from .stage import Play
from .unseen import unseen_note

_Scene = Callable[[Axes], tuple[AbstractScene, Key]]


class Movie(NamedTuple):
    """A movie that can be asked for.

    Attributes:
        play: what it plays of a run.
        of: what it shows, as a message says it.
        suits: the kinds of runs of which it shows most, each with whether that is of
            an ensemble in the plane.
        of_several: whether it shows all runs of an ensemble.
    """

    play: Callable[[xr.Dataset, Film], Play]
    of: str
    suits: tuple[tuple[str, bool], ...] = ()
    of_several: bool = False


movies: Registry[Movie] = Registry("movie")


def suited(dataset: xr.Dataset) -> str:
    """The movie that shows most of a run, or of an ensemble; of any other the first."""
    several = "run" in dataset.dims and dataset.sizes["coord"] == 2
    shown = kind(dataset), several
    fitting = (name for name, movie in movies.items() if shown in movie.suits)
    return next(fitting, next(iter(movies)))


def token_play(dataset: xr.Dataset, film: Film) -> Play:
    """Tokens, or the ellipse of a Gaussian: on the line, in the plane or in space.

    Raises:
        InvalidInputError: for an ensemble, or a turn where there is no camera.
    """
    _refuse_several(dataset)
    run = cloud(dataset)
    is_near = near_steps(run)
    places = held(moments_shown(run.times.size, film), is_near)
    note = straight_note(places.size, is_near)
    sizes = sizes_between(rms_radii(run), places)
    run = between(run, places)
    in_space = run.dimension == 3
    if film.turn is not None and not in_space:
        raise InvalidInputError(
            "`turn` is for movies of tokens or a Gaussian in space, of dimension 3; "
            f"this is one of dimension {run.dimension}: leave it out."
        )
    seen = projection(run, 3 if in_space else 2)
    return Play(
        run.times,
        sizes_and_end(_sizes(sizes, run.look), run.ending),
        _setting(
            partial(cloud_scene, seen=seen, film=film),
            "3d" if in_space else None,
            note,
        ),
        partial(unseen_note, seen.cloud),
    )


def density_play(dataset: xr.Dataset, film: Film) -> Play:
    """A density: a curve, or a map; each stored frame stands as long as the next."""
    _refuse_several(dataset)
    run = density_run(dataset)
    frames = frames_shown(run.times.size, film)
    note, run = jump_note(run.times.size, frames.size), run.at(frames)
    sizes = sizes_of(density_moments(run).factor)
    return Play(
        run.times,
        sizes_and_end(_sizes(sizes, look_of(dataset)), run.ending),
        _setting(lambda axes: density_scene(axes, run, look_of(dataset)), None, note),
        _all_seen,
    )


def cone_play(dataset: xr.Dataset, film: Film) -> Play:
    """Covariances of order two on their way through the cone of positive matrices."""
    return _march_play(dataset, film, "cone", cone_scene)


def disc_play(dataset: xr.Dataset, film: Film) -> Play:
    """Shapes of covariances of order two on their way through the disc of trace one."""
    return _march_play(dataset, film, "disc", disc_scene)


def _march_play(
    dataset: xr.Dataset, film: Film, panel: str, scene: Callable[..., Any]
) -> Play:
    _refuse_dimension(dataset, panel)
    march = marched(dataset, film, panel)
    shown = partial(scene, march=march, dataset=dataset, film=film)
    projection = "3d" if panel == "cone" else None
    setting = _setting(shown, projection, march.note)
    return Play(march.times, march.count, setting, _all_seen)


def _setting(
    scene: _Scene, projection: str | None, note: str
) -> Callable[[Figure], tuple[Axes, AbstractScene, Key]]:
    """What sets a scene on axes of a figure, and adds a note to its own."""

    def set_scene(figure: Figure) -> tuple[Axes, AbstractScene, Key]:
        axes = figure.add_subplot(projection=projection)
        shown, key = scene(axes)
        return axes, shown, key._replace(notes=[*key.notes, note])

    return set_scene


def _sizes(radii: np.ndarray, look: Look) -> np.ndarray:
    """Sizes that are worth saying: NaN where they are all made one."""
    return np.full_like(radii, np.nan) if look.relative else radii


def _all_seen(_: Axes) -> str:
    """Nothing is said of tokens outside the view."""
    return ""


def _refuse_dimension(dataset: xr.Dataset, panel: str) -> None:
    """Refuse covariances of another order than two, and say which movie there is."""
    d = dataset.sizes["coord"]
    if d != 2:
        one = " of one of its runs" if "run" in dataset.dims else ""
        raise InvalidInputError(
            f"The movie `{panel}` draws covariances of dimension 2; this run has "
            f"dimension {d}: the movie `{suited(dataset)}`{one} shows it."
        )


def _refuse_several(dataset: xr.Dataset) -> None:
    if "run" in dataset.dims:
        names = [f"`{name}`" for name, movie in movies.items() if movie.of_several]
        several = " and ".join(names)
        raise InvalidInputError(
            f"This movie shows one run, this dataset holds {dataset.sizes['run']}: "
            f"select one, as in `dataset.isel(run=0)`; in the plane the movies "
            f"{several} show all."
        )


movies.register("tokens")(Movie(token_play, of="tokens or a Gaussian"))
movies.register("density")(
    Movie(
        density_play,
        of="a density",
        suits=(("grid", False), ("grid", True)),
    )
)
movies.register("cone")(
    Movie(
        cone_play,
        of="covariances",
        suits=(("gaussian", True),),
        of_several=True,
    )
)
movies.register("disc")(
    Movie(
        disc_play,
        of="covariances",
        of_several=True,
    )
)
