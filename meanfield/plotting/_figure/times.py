"""The axis of time: for the layers of a network it says where each begins."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

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
    last = float(dataset["time"].values[-1])
    for t in np.arange(1, np.ceil(last)):
        for part in axes.figure.axes:
            part.axvline(t, color=PALE, linewidth=0.8, zorder=0)


def layer_at(dataset: xr.Dataset, time: float) -> str:
    """The layer of a model that moves tokens at a time, counted from zero; or nothing.

    At the end of a layer it is the next one, and at the end of the last the last.
    """
    spec = spec_of(dataset)
    if spec is None or spec.model is None:
        return ""
    last = float(dataset["time"].values[-1])
    index = int(min(np.floor(time), np.ceil(last) - 1))
    layers = spec.model_layers
    return f"layer {index if layers is None else layers[min(index, len(layers) - 1)]}"
