"""A network's own states beside the flow of its attention, layer by layer."""

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ._figure.panels import titled_figure
from ._figure.style import CYCLE, GREY, INK, style

_PARTS = {"attention": CYCLE[0], "mlp": CYCLE[4], "norm": GREY}
_HEADROOM = 0.2  # of the height, for the legend above all bars
_NAMES = {"mlp": "MLP", "norm": "layer norms"}


@style()
def draw_layers(comparison: xr.Dataset) -> Figure:
    """How far the flow is from the network, how both gather, what moves the network.

    Args:
        comparison: as `models.Comparison.dataset` has it, with a `title` and a `remark`
            among its attributes if it is to have them.

    Examples:
        >>> from meanfield import models
        >>> from meanfield.plotting import draw_layers
        >>> both = models.compare(models.load("minilm"), "Alice was tired.", rtol=1e-2)
        >>> len(draw_layers(both.dataset()).axes)
        4
    """
    figure = titled_figure(comparison, (9.0, 6.2))
    (apart, rank), (gathered, shares) = figure.subplots(2, 2)
    _distances(apart, comparison)
    _both(rank, comparison, "rank")
    rank.set_title("effective rank of the covariance", fontsize=10)
    _both(gathered, comparison, "similarity")
    gathered.set_title("mean cosine of two tokens", fontsize=10)
    _bars(shares, comparison)
    for axes in (apart, rank, gathered):
        axes.set(xlabel="layers behind")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=True, axis="y")
        axes.legend(fontsize=9)
    return figure


def _distances(axes: Axes, comparison: xr.Dataset) -> None:
    """The distance of the flow, and what it would be of tokens that stay."""
    after = comparison.isel(depth=slice(1, None))
    depths, label = after["depth"].values, "of the flow"
    axes.plot(depths, after["distance"].values, color=CYCLE[1], marker="o", label=label)
    still = after["unmoved"].values
    axes.plot(depths, still, color=INK, dashes=(4, 3), label="of tokens that stay")
    axes.set_yscale("log")
    axes.set_title("distance from the network's states, relative", fontsize=10)


def _both(axes: Axes, comparison: xr.Dataset, name: str) -> None:
    """One number of the network and of the flow."""
    for place, cloud in enumerate(("network", "flow")):
        values = comparison[f"{cloud}_{name}"].values
        depths = comparison["depth"].values
        axes.plot(depths, values, color=CYCLE[place], marker="o", label=cloud)


def _bars(axes: Axes, comparison: xr.Dataset) -> None:
    """Shares of a layer's displacement, beside each other."""
    layers, width = comparison["layer"].values, 0.8 / len(_PARTS)
    for place, (part, colour) in enumerate(_PARTS.items()):
        left = layers + (place - (len(_PARTS) - 1) / 2) * width
        label = _NAMES.get(part, part)
        axes.bar(left, 100 * comparison[part].values, width, color=colour, label=label)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    ticks = layers[:: 1 + len(layers) // 13]  # every layer, or some of many
    axes.set(xlabel="layer", ylabel="%", xticks=ticks)
    axes.set_title("shares of the network's displacement", fontsize=10)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + _HEADROOM * (high - low))
    axes.legend(fontsize=9, ncols=len(_PARTS), loc="upper center")
