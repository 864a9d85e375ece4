"""Comparison of a network's states with the flow of its attention, by layer."""

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ._figure.panels import titled_figure
from ._figure.style import CYCLE, GREY, INK, style

_PARTS = {"attention": CYCLE[0], "mlp": CYCLE[4], "norm": GREY}
_HEADROOM = 0.2  # room for the legend above the bars, as a share of their height
_NAMES = {"mlp": "MLP", "norm": "layer norms"}


@style()
def draw_layers(comparison: xr.Dataset) -> Figure:
    """Compare a network with the flow of its attention: distance, clustering, shares.

    Args:
        comparison: as returned by `models.Comparison.dataset`; its attributes `title`
            and `remark`, if any, become the title and small print.

    Examples:
        >>> from meanfield import models
        >>> from meanfield.plotting import draw_layers
        >>> both = models.compare(models.load("minilm"), "Alice was tired.", rtol=1e-2)
        >>> len(draw_layers(both.dataset()).axes)
        4
    """
    figure = titled_figure(comparison, (9.0, 6.2))
    (distance_axes, rank_axes), (similarity_axes, share_axes) = figure.subplots(2, 2)
    _distances(distance_axes, comparison)
    _draw_pair(rank_axes, comparison, "rank")
    rank_axes.set_title("effective rank of the covariance", fontsize=10)
    _draw_pair(similarity_axes, comparison, "similarity")
    similarity_axes.set_title("mean cosine of two tokens", fontsize=10)
    _bars(share_axes, comparison)
    for axes in (distance_axes, rank_axes, similarity_axes):
        axes.set(xlabel="delay in layers")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=True, axis="y")
        axes.legend(fontsize=9)
    return figure


def _distances(axes: Axes, comparison: xr.Dataset) -> None:
    """Plot how far the flow and the initial tokens are from the network's states."""
    states = comparison.isel(depth=slice(1, None))
    depths, label = states["depth"].values, "of the flow"
    axes.plot(
        depths, states["distance"].values, color=CYCLE[1], marker="o", label=label
    )
    baseline = states["initial_distance"].values
    axes.plot(depths, baseline, color=INK, dashes=(4, 3), label="of the initial tokens")
    axes.set_yscale("log")
    axes.set_title("distance from the network's states, relative", fontsize=10)


def _draw_pair(axes: Axes, comparison: xr.Dataset, name: str) -> None:
    """Plot one quantity of the network and of the flow by depth."""
    for place, cloud in enumerate(("network", "flow")):
        values = comparison[f"{cloud}_{name}"].values
        depths = comparison["depth"].values
        axes.plot(depths, values, color=CYCLE[place], marker="o", label=cloud)


def _bars(axes: Axes, comparison: xr.Dataset) -> None:
    """Draw the share of each part in a layer's displacement, as grouped bars."""
    layers, width = comparison["layer"].values, 0.8 / len(_PARTS)
    for place, (part, colour) in enumerate(_PARTS.items()):
        left = layers + (place - (len(_PARTS) - 1) / 2) * width
        label = _NAMES.get(part, part)
        axes.bar(left, 100 * comparison[part].values, width, color=colour, label=label)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    ticks = layers[:: 1 + len(layers) // 13]  # at most 13 labels
    axes.set(xlabel="layer", ylabel="%", xticks=ticks)
    axes.set_title("shares of the network's displacement", fontsize=10)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + _HEADROOM * (high - low))
    axes.legend(fontsize=9, ncols=len(_PARTS), loc="upper center")
