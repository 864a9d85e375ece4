"""The panel `inner-products`: the distribution of cosines of tokens over time."""

import numpy as np
import xarray as xr
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from meanfield.clusters import unit_vectors
from meanfield.errors import InvalidInputError

from ._figure.bands import annotate_ending, name_time, scale_time
from ._figure.look import look_of, options_for
from ._figure.panels import add_subject, panel, panels, titled_figure
from ._figure.style import number_map
from .reading.data import Swarm, cloud
from .reading.observables import even_frames

_FRAMES = 200  # at most this many evenly spaced frames are drawn
_BINS = 100  # bins of cosines between -1 and 1
_TOKENS = 1_000  # at most this many tokens, evenly spaced, are compared


@panels.register("inner-products")
@panel(*options_for("inner-products"))
def inner_products(dataset: xr.Dataset) -> Figure:
    """The distribution of the cosines of pairs of tokens, by frame.

    Colours show the density of the cosine of two different tokens. Each frame has 100
    bins. Of more than 1000 tokens, 1000 are drawn.

    Raises:
        InvalidInputError: if the dataset holds fewer than two tokens.
    """
    run = cloud(dataset)
    run = run.take(even_frames(run.times.size, _FRAMES))
    if not isinstance(run.state, Swarm) or run.state.x.shape[1] < 2:
        raise InvalidInputError("The panel `inner-products` needs two tokens or more.")
    densities = np.stack([_density(x) for x in unit_vectors(run.state.x)])
    figure = titled_figure(add_subject(dataset, "inner products"), (6.6, 4.6))
    axes = figure.add_subplot()
    scale_time(axes, run.times)
    begin = int(axes.get_xscale() == "log" and run.times[0] <= 0)
    times = run.times[begin:]
    image = axes.pcolormesh(
        times,
        _centres(),
        np.ma.masked_less_equal(densities[begin:].T, 0),
        norm=LogNorm(),
        cmap=number_map(look_of(dataset)),
        shading="nearest",
        rasterized=True,
    )
    figure.colorbar(image, ax=axes, label="density")
    axes.set(ylim=(-1, 1), ylabel="cosine of two tokens")
    name_time(axes, dataset)
    annotate_ending(figure, dataset)
    return figure


def _density(directions: np.ndarray) -> np.ndarray:
    x = directions[even_frames(len(directions), _TOKENS)]
    cosines = np.clip((x @ x.T)[np.triu_indices(len(x), 1)], -1, 1)
    return np.histogram(cosines, bins=_BINS, range=(-1, 1), density=True)[0]


def _centres() -> np.ndarray:
    edges = np.linspace(-1, 1, _BINS + 1)
    return (edges[1:] + edges[:-1]) / 2
