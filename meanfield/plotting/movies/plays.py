"""What can be played: tokens or a Gaussian, a density, covariances in the cone."""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._registry import Registry
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.scenes import AbstractScene
from meanfield.plotting._runs.data import cloud, kind
from meanfield.plotting._runs.density import density_moments, density_run
from meanfield.plotting._writing.film import Film
from meanfield.plotting.cone.march import marched
from meanfield.plotting.cone.scenes import cone_scene, disc_scene
from meanfield.plotting.density.scenes import density_scene
from meanfield.plotting.tokens.scenes import cloud_scene
from meanfield.plotting.tokens.space_scene import space_scene
from meanfield.plotting.tokens.views import projection, rms_radii

from .pace import between, moments_shown, pace_note
from .stage import Play, end_note, size_note

plays: Registry[Callable[[xr.Dataset, Film], Play]] = Registry("movie")
SEVERAL = ("cone", "disc")  # these show all runs of an ensemble
_Scene = Callable[[Axes], tuple[AbstractScene, list[str]]]


# What shows most: of one run, and of an ensemble in the plane; tokens of any other.
_SUITED = {"grid": ("density", "density"), "gaussian": ("tokens", "cone")}


def suited(dataset: xr.Dataset) -> str:
    """The movie that shows most: of an ensemble of Gaussians in the plane the cone."""
    several = "run" in dataset.dims and dataset.sizes["coord"] == 2
    return _SUITED.get(kind(dataset), ("tokens", "tokens"))[several]


@plays.register("tokens")
def token_play(dataset: xr.Dataset, film: Film) -> Play:
    """Tokens, or the ellipse of a Gaussian: on the line, in the plane or in space."""
    _refuse_several(dataset)
    run = cloud(dataset)
    places = moments_shown(run.times.size, film)
    note, run = pace_note(run.times.size, places), between(run, places)
    in_space = run.dimension == 3
    seen = projection(run, 3 if in_space else 2)
    scene = space_scene if in_space else cloud_scene
    sizes = rms_radii(run)
    return Play(
        run.times,
        lambda frame: size_note(float(sizes[frame])),
        end_note(run.ending),
        _setting(
            partial(scene, seen=seen, film=film), "3d" if in_space else None, note
        ),
    )


@plays.register("density")
def density_play(dataset: xr.Dataset, film: Film) -> Play:
    """A density: a curve, or a map; each stored frame stands as long as the next."""
    _refuse_several(dataset)
    run = density_run(dataset)
    run = run.at(moments_shown(run.times.size, film).round().astype(np.intp))
    sizes = np.sqrt((density_moments(run).factor ** 2).sum(axis=(-2, -1)))
    return Play(
        run.times,
        lambda frame: size_note(float(sizes[frame])),
        end_note(run.ending),
        _setting(lambda axes: density_scene(axes, run), None, ""),
    )


@plays.register("cone")
def cone_play(dataset: xr.Dataset, film: Film) -> Play:
    """Covariances of order two on their way through the cone of positive matrices."""
    march = marched(dataset, film, "cone")
    scene = partial(cone_scene, march=march, dataset=dataset, film=film)
    return Play(march.times, march.count, "", _setting(scene, "3d", march.note))


@plays.register("disc")
def disc_play(dataset: xr.Dataset, film: Film) -> Play:
    """Shapes of covariances of order two on their way through the disc of trace one."""
    march = marched(dataset, film, "disc")
    scene = partial(disc_scene, march=march, dataset=dataset, film=film)
    return Play(march.times, march.count, "", _setting(scene, None, march.note))


def _setting(
    scene: _Scene, projection: str | None, note: str
) -> Callable[[Figure], tuple[Axes, AbstractScene, list[str]]]:
    """What sets a scene on axes of a figure, and adds a note to its own."""

    def set_scene(figure: Figure) -> tuple[Axes, AbstractScene, list[str]]:
        axes = figure.add_subplot(projection=projection)
        shown, notes = scene(axes)
        return axes, shown, [*notes, note]

    return set_scene


def _refuse_several(dataset: xr.Dataset) -> None:
    if "run" in dataset.dims:
        raise InvalidInputError(
            f"This movie shows one run, this dataset holds {dataset.sizes['run']}: "
            "select one, as in `dataset.isel(run=0)`; in the plane the movies `cone` "
            "and `disc` show all."
        )
