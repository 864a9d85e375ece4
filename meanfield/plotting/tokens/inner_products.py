"""The panel `inner-products`: the distribution of cosines of tokens over time."""

import numpy as np
import xarray as xr
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from meanfield.clusters import unit_vectors
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.bands import annotate_ending, name_time, scale_time
from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.panels import registered_panel, titled_figure
from meanfield.plotting._figure.style import number_map
from meanfield.plotting.reading.data import Swarm, cloud
from meanfield.plotting.reading.observables import even_frames

_FRAMES = 200  # at most this many evenly spaced frames are drawn
_BINS = 100  # bins of cosines between -1 and 1
_TOKENS = 1_000  # at most this many tokens, evenly spaced, are compared


@registered_panel("inner-products")
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
    places = even_frames(run.state.x.shape[1], _TOKENS)
    directions = unit_vectors(run.state.x[:, places])
    pairs, rows = np.triu_indices(len(places), 1), []
    for x in directions:
        cosines = np.clip((x @ x.T)[pairs], -1, 1)
        rows.append(np.histogram(cosines, _BINS, (-1, 1), density=True)[0])
    figure = titled_figure(dataset, (6.6, 4.6), "inner products")
    axes = figure.add_subplot()
    scale_time(axes, run.times)
    begin = int(axes.get_xscale() == "log" and run.times[0] <= 0)
    edges = np.linspace(-1, 1, _BINS + 1)
    image = axes.pcolormesh(
        run.times[begin:],
        (edges[1:] + edges[:-1]) / 2,
        np.ma.masked_less_equal(np.stack(rows)[begin:].T, 0),
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
