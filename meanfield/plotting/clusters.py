"""The panel `clusters`: number of clusters, and weight of the heaviest, over time."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from meanfield.clusters import cluster_counts
from meanfield.errors import InvalidInputError

from ._figure.bands import annotate_ending, draw_steps, name_time, spans_decades
from ._figure.look import look_of, options_for
from ._figure.panels import (
    add_subject,
    panel,
    panels,
    titled_figure,
)
from ._figure.style import CYCLE, INK
from .reading.data import NOTHING, kind, runs, swarm, values
from .reading.metrics import EUCLIDEAN, AbstractMetric, metrics
from .reading.observables import even_frames, map_runs

# Clusters are counted in at most `_FRAMES` evenly spaced frames.
_FRAMES = 200


@panels.register("clusters")
@panel(*options_for("clusters"))
def clusters(dataset: xr.Dataset) -> Figure:
    r"""Number of clusters of the tokens over time, and weight of the heaviest cluster.

    A cluster is a connected component of the graph that links two tokens at a distance
    of at most `link` times the RMS radius $\sqrt{\operatorname{tr}\Sigma}$ of the
    frame or of the first frame, whichever is larger. `link` is a field of the look; its
    default is 5 %, or half the median distance to the nearest token in the first frame
    if that is larger. With the `metric` `cosine`, two tokens are linked if the cosine
    of their angle seen from 0 is at least $1 - $ `link`; the default of `link` is then
    0.1. An ensemble is drawn as its median and its 10–90 % band.

    Raises:
        InvalidInputError: if the dataset contains no tokens.
    """
    if kind(dataset) != "points":
        raise InvalidInputError(
            "The panel `clusters` needs tokens, not a Gaussian or a density. Use the "
            "panel `spectrum` or `density`."
        )
    look = look_of(dataset)
    metric = metrics[look.metric or EUCLIDEAN]
    first = swarm(next(runs(dataset)))
    link = look.link or metric.default_link(first.x[0], first.weights)
    frames = even_frames(dataset.sizes["time"], _FRAMES)
    sample = dataset.isel(time=frames)
    results = map_runs(sample, lambda run: _run_counts(run, metric, link))
    counts, bulk = results[..., 0, :], results[..., 1, :]
    if not np.isfinite(counts).any():
        raise InvalidInputError(NOTHING)
    times = values(sample, "time", ("time",))
    figure = titled_figure(add_subject(dataset, "clusters"), (6.6, 5.8))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.5, 1])
    draw_steps(top, times, counts, CYCLE[0])
    _count_scale(top, counts)
    draw_steps(bottom, times, bulk, INK)
    bottom.set(ylim=(-0.04, 1.04), ylabel="weight of\nthe heaviest")
    name_time(bottom, dataset)
    top.set_ylabel("clusters")
    for axes in (top, bottom):
        axes.grid(visible=True, axis="y")
    annotate_ending(figure, dataset, metric.note(link))
    return figure


def _run_counts(run: xr.Dataset, metric: AbstractMetric, link: float) -> np.ndarray:
    """Cluster counts and weight of the heaviest cluster of one run: (2, time)."""
    state = swarm(run)
    x, radii = metric.embed(state, link)
    return np.stack(cluster_counts(x, state.weights, radii))


def _count_scale(axes: Axes, counts: np.ndarray) -> None:
    """Scale the axis for whole numbers, logarithmically if they span decades."""
    if spans_decades(counts):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ScalarFormatter())
    else:
        axes.set_ylim(0, 1.08 * np.nanmax(counts))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
