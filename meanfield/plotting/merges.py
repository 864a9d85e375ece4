"""The panel `merges`: the tree of clusters, from single tokens to the last ones."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from meanfield.clusters import component_labels
from meanfield.errors import InvalidInputError

from ._figure.bands import annotate_ending, name_time, scale_time
from ._figure.panels import add_subject, registered_panel, titled_figure
from ._figure.style import INK
from .clusters import link_of
from .reading.data import Swarm, cloud
from .reading.observables import even_frames

_FRAMES = 400  # clusters are found in at most this many evenly spaced frames
_WIDEST = 6.0  # width of the line of a cluster with all the weight, in points


@registered_panel("merges")
def merges(dataset: xr.Dataset) -> Figure:
    """The tree of clusters over time; a line is a cluster, as wide as it is heavy.

    Lines join where clusters merge. The order of the tokens, on the vertical axis, puts
    those that merge early next to each other. Clusters are those of the panel
    `clusters`. If frames are spaced logarithmically, so is the axis.

    Raises:
        InvalidInputError: if the dataset holds no tokens, or a single frame.
    """
    link, run = link_of(dataset), cloud(dataset)
    run = run.take(even_frames(run.times.size, _FRAMES))
    state = run.state
    assert isinstance(state, Swarm)
    if run.times.size == 1:
        raise InvalidInputError("A tree of clusters needs two frames; this run has 1.")
    x, radii = link.metric.embed(state, link.distance)
    labels = np.stack([component_labels(*pair) for pair in zip(x, radii, strict=True)])
    figure = titled_figure(add_subject(dataset, "tree of clusters"), (6.6, 4.6))
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
