"""The panel `clusters`: number of clusters, and weight of the heaviest, over time."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from meanfield.clusters import cluster_counts
from meanfield.errors import InvalidInputError

from ._figure.bands import (
    annotate_ending,
    draw_steps,
    name_time,
    scale_time,
    spans_decades,
)
from ._figure.joint import Row, Runs, draw_rows, joint_panel
from ._figure.look import look_of, options_for
from ._figure.panels import add_subject, registered_panel, titled_figure
from ._figure.style import CYCLE, INK
from .reading.data import check_finite, kind, swarm, values
from .reading.data import runs as members
from .reading.description import moves_directions
from .reading.metrics import Metric, metric_of
from .reading.observables import even_frames, map_runs

# Clusters are counted in at most `_FRAMES` evenly spaced frames.
_FRAMES = 200
_SHARE = "weight of\nthe heaviest"


@registered_panel("clusters")
def clusters(dataset: xr.Dataset) -> Figure:
    r"""Number of clusters of the tokens over time, and weight of the heaviest cluster.

    A cluster is a connected component of the graph that links two tokens at a distance
    of at most `link` times the RMS radius $\sqrt{\operatorname{tr}\Sigma}$ of the
    frame or of the first frame, whichever is larger. `link` is a field of the look; its
    default is 5 %, or half the median distance to the nearest token in the first frame
    if that is larger. With the `metric` `cosine`, the default on spheres, two tokens
    are linked if the cosine of their angle seen from 0 is at least $1 - $ `link`. The
    default of `link` is then 0.001 on spheres and with layer norms, and otherwise 0.1.
    An ensemble is drawn as its median and its 10–90 % band.

    Raises:
        InvalidInputError: if the dataset contains no tokens.
    """
    link = link_of(dataset)
    sample = _sample(dataset)
    counts, bulk = _counts(sample, link)
    check_finite(counts)
    times = values(sample, "time", ("time",))
    figure = titled_figure(add_subject(dataset, "clusters"), (6.6, 5.8))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.5, 1])
    scale_time(top, times)
    draw_steps(top, times, counts, CYCLE[0])
    _count_scale(top, counts)
    draw_steps(bottom, times, bulk, INK)
    _frame_share(bottom, bulk)
    bottom.set_ylabel(_SHARE)
    name_time(bottom, dataset)
    top.set_ylabel("clusters")
    for axes in (top, bottom):
        axes.grid(visible=True, axis="y")
    annotate_ending(figure, dataset, link.note)
    return figure


@joint_panel("clusters", *options_for("clusters"))
def joint_clusters(runs: Runs) -> Figure:
    """Number of clusters of the tokens of several runs, and weight of the heaviest.

    The default of `link` is that of the first run.
    """
    link = link_of(next(iter(runs.values())))
    samples = {label: _sample(run) for label, run in runs.items()}
    counts = [_counts(run, link) for run in samples.values()]
    rows = (
        Row("clusters", [pair[:1] for pair in counts], _count_scale, draw_steps),
        Row(_SHARE, [pair[1:] for pair in counts], _frame_share, draw_steps),
    )
    return draw_rows(samples, "clusters", *rows, note=link.note)


class Link(NamedTuple):
    """A metric, and the distance in it within which tokens are linked."""

    metric: Metric
    distance: float

    @property
    def note(self) -> str:
        """A note on which tokens are linked."""
        return self.metric.note(self.distance)


def link_of(dataset: xr.Dataset) -> Link:
    """The link of the look; by default, that of the first frame of the first run."""
    _check_kind(dataset)
    look = look_of(dataset)
    metric = metric_of(look.metric, moves_directions=moves_directions(dataset))
    first = swarm(next(members(dataset)))
    return Link(metric, look.link or metric.default_link(first.x[0], first.weights))


def _check_kind(dataset: xr.Dataset) -> None:
    if kind(dataset) != "points":
        raise InvalidInputError(
            "The panel `clusters` needs tokens, not a Gaussian or a density. Use the "
            "panel `spectrum` or `density`."
        )


def _sample(dataset: xr.Dataset) -> xr.Dataset:
    frames = even_frames(dataset.sizes["time"], _FRAMES)
    return dataset.isel(time=frames)


def _counts(dataset: xr.Dataset, link: Link) -> np.ndarray:
    """Cluster counts and weight of the heaviest cluster, of shape (2, …, time)."""
    _check_kind(dataset)

    def count(run: xr.Dataset) -> np.ndarray:
        state = swarm(run)
        x, radii = link.metric.embed(state, link.distance)
        return np.stack(cluster_counts(x, state.weights, radii))

    return np.moveaxis(map_runs(dataset, count), -2, 0)


def _count_scale(axes: Axes, counts: np.ndarray) -> None:
    """Scale the axis for whole numbers, logarithmically if they span decades."""
    if spans_decades(counts):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ScalarFormatter())
    else:
        axes.set_ylim(0, 1.08 * np.nanmax(counts))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _frame_share(axes: Axes, shares: np.ndarray) -> None:
    del shares  # shares are between 0 and 1
    axes.set_ylim(-0.04, 1.04)
