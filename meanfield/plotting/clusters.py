"""The number of clusters of tokens over time, and the weight of the heaviest."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from meanfield.clusters import cluster_counts
from meanfield.errors import InvalidInputError

from ._figure.bands import draw_steps, name_time, spans_decades, tell_ending
from ._figure.look import look_of, options_for
from ._figure.panels import (
    about,
    panel,
    panels,
    titled_figure,
)
from ._figure.style import CYCLE, INK
from .reading.data import NOTHING, kind, runs, swarm, values
from .reading.metrics import EUCLIDEAN, AbstractMetric, metrics
from .reading.observables import even_frames, per_run

# Frames that are counted; a longer run is thinned evenly.
_FRAMES = 200


@panels.register("clusters")
@panel(*options_for("clusters"))
def clusters(dataset: xr.Dataset) -> Figure:
    r"""How many clusters the tokens form, and what the heaviest of them weighs.

    A cluster is a connected component of the graph that links two tokens at a distance
    of at most `link` times the RMS radius $\sqrt{\operatorname{tr}\Sigma}$, of the
    frame or of the first one, whichever is larger. `link` is the choice of the look, by
    default 5 %, or half of the median distance to the nearest token at first, if that
    is more. With the `metric` `cosine` two tokens are linked whose angle seen from 0
    has a cosine of at least $1 - $ `link`, by default 0.9. An ensemble is drawn by
    its median and its 10–90 % band.

    Raises:
        InvalidInputError: if the dataset holds no tokens.
    """
    if kind(dataset) != "points":
        raise InvalidInputError(
            "The panel `clusters` counts tokens; a Gaussian and a density have none: "
            "use `spectrum`, or `density`."
        )
    look = look_of(dataset)
    metric = metrics[look.metric or EUCLIDEAN]
    first = swarm(next(runs(dataset)))
    link = look.link or metric.default_link(first.x[0], first.weights)
    frames = even_frames(dataset.sizes["time"], _FRAMES)
    sample = dataset.isel(time=frames)
    results = per_run(sample, lambda run: _run_counts(run, metric, link))
    counts, bulk = results[..., 0, :], results[..., 1, :]
    if not np.isfinite(counts).any():
        raise InvalidInputError(NOTHING)
    times = values(sample, "time", ("time",))
    figure = titled_figure(about(dataset, "clusters"), (6.6, 5.8))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.5, 1])
    draw_steps(top, times, counts, CYCLE[0])
    _count_scale(top, counts)
    draw_steps(bottom, times, bulk, INK)
    bottom.set(ylim=(-0.04, 1.04), ylabel="weight of\nthe heaviest")
    name_time(bottom, dataset)
    top.set_ylabel("clusters")
    for axes in (top, bottom):
        axes.grid(visible=True, axis="y")
    tell_ending(figure, dataset, metric.note(link))
    return figure


def _run_counts(run: xr.Dataset, metric: AbstractMetric, link: float) -> np.ndarray:
    """Counts and bulk of one run: (2, time)."""
    state = swarm(run)
    x, radii = metric.linked(state, link)
    return np.stack(cluster_counts(x, state.weights, radii))


def _count_scale(axes: Axes, counts: np.ndarray) -> None:
    """Whole numbers, on a logarithmic scale when they span decades."""
    if spans_decades(counts):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ScalarFormatter())
    else:
        axes.set_ylim(0, 1.08 * np.nanmax(counts))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
