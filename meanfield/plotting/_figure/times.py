"""The axis of time: for the layers of a network it says where each begins."""

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from meanfield.plotting._runs.depth import layers_passed
from meanfield.plotting._runs.described import spec_of

from .style import PALE


def name_time(axes: Axes, dataset: xr.Dataset) -> None:
    """Name the horizontal axis; lines stand where a layer of a model ends."""
    spec = spec_of(dataset)
    if spec is None or spec.model is None:
        axes.set_xlabel("time $t$")
        return
    axes.set_xlabel("time $t$: layers passed")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for layer in layers_passed(dataset)[1:]:
        for part in axes.figure.axes:
            part.axvline(layer.start, color=PALE, linewidth=0.8, zorder=0)


def layer_at(dataset: xr.Dataset, time: float) -> str:
    """The layer that moves tokens at a time, counted from zero; or nothing.

    At the end of a layer it is the next one, and at the end of the last the last.
    """
    layers = layers_passed(dataset)
    if not layers:
        return ""
    index = sum(layer.start <= time for layer in layers) - 1
    return f"layer {layers[max(index, 0)].number}"
