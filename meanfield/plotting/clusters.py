"""The panels `clusters` and `merges`: clusters of tokens over time, and their tree."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from meanfield.clusters import cluster_counts, component_labels
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
from ._figure.panels import registered_panel, titled_figure
from ._figure.style import CYCLE, INK
from .reading.data import Swarm, check_finite, cloud, kind, swarm, values
from .reading.data import runs as members
from .reading.description import moves_directions
from .reading.metrics import Link, link_of
from .reading.observables import even_frames, map_runs

# Clusters are counted in at most `_FRAMES` evenly spaced frames.
_FRAMES = 200
_SHARE = "weight of\nthe heaviest"
_TREE_FRAMES = 400  # clusters are found in at most this many evenly spaced frames
_WIDEST = 6.0  # width of the line of a cluster with all the weight, in points


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
    link = _dataset_link(dataset)
    sample = _sample(dataset)
    counts, bulk = _counts(sample, link)
    check_finite(counts)
    times = values(sample, "time", ("time",))
    figure = titled_figure(dataset, (6.6, 5.8), "clusters")
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
    link = _dataset_link(next(iter(runs.values())))
    samples = {label: _sample(run) for label, run in runs.items()}
    counts = [_counts(run, link) for run in samples.values()]
    rows = (
        Row("clusters", [pair[:1] for pair in counts], _count_scale, draw_steps),
        Row(_SHARE, [pair[1:] for pair in counts], _frame_share, draw_steps),
    )
    return draw_rows(samples, "clusters", *rows, note=link.note)


def _dataset_link(dataset: xr.Dataset) -> Link:
    """The link of the look; by default, that of the first frame of the first run."""
    _check_kind(dataset)
    first, is_moving = swarm(next(members(dataset))), moves_directions(dataset)
    return link_of(look_of(dataset), first, moves_directions=is_moving)


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
        x, radii = link.embed(state)
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


@registered_panel("merges")
def merges(dataset: xr.Dataset) -> Figure:
    """The tree of clusters over time; a line is a cluster, as wide as it is heavy.

    Lines join where clusters merge. The order of the tokens, on the vertical axis, puts
    those that merge early next to each other. Clusters are those of the panel
    `clusters`. If frames are spaced logarithmically, so is the axis.

    Raises:
        InvalidInputError: if the dataset holds no tokens, or a single frame.
    """
    link, run = _dataset_link(dataset), cloud(dataset)
    run = run.take(even_frames(run.times.size, _TREE_FRAMES))
    state = run.state
    assert isinstance(state, Swarm)
    if run.times.size == 1:
        raise InvalidInputError("A tree of clusters needs two frames; this run has 1.")
    x, radii = link.embed(state)
    labels = np.stack([component_labels(*pair) for pair in zip(x, radii, strict=True)])
    figure = titled_figure(dataset, (6.6, 4.6), "tree of clusters")
    axes = figure.add_subplot()
    scale_time(axes, run.times)
    _draw_tree(axes, run.times, labels, state.weights)
    axes.set(ylabel="tokens, in the order of the tree", yticks=[])
    name_time(axes, dataset)
    annotate_ending(figure, dataset, link.note)
    return figure


def _draw_tree(
    axes: Axes, times: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> None:
    """Draw the line of each cluster, with steps where clusters merge or split."""
    places = np.empty(labels.shape[1])
    order = np.lexsort(labels)  # the last frame counts most
    places[order] = np.arange(order.size)
    starts = times if axes.get_xscale() == "linear" else times[times > 0]
    rows = labels[len(times) - len(starts) :]
    heights, masses = (np.empty(rows.shape) for _ in range(2))
    for row, height, mass in zip(rows, heights, masses, strict=True):
        totals = np.bincount(row, weights=weights)
        height[:] = (np.bincount(row, weights=weights * places) / totals)[row]
        mass[:] = totals[row]
    first = np.unique(heights.T, axis=0, return_index=True)[1]  # a path for each branch
    paths = [
        np.column_stack([np.repeat(starts, 2)[1:], np.repeat(heights[:, i], 2)[:-1]])
        for i in first
    ]
    segments = [path[k : k + 2] for path in paths for k in range(len(path) - 1)]
    widths = [np.repeat(masses[:, i], 2)[1:-1] for i in first]
    lines = LineCollection([*segments], colors=INK, capstyle="butt")
    lines.set_linewidth((0.6 + _WIDEST * np.concatenate(widths)).tolist())
    axes.add_collection(lines)
    axes.set(xlim=(starts[0], starts[-1]), ylim=(-0.5, labels.shape[1] - 0.5))
