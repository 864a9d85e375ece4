"""A panel: the root of the trace of the covariance, over time."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from meanfield.plotting import covariances, panel, panels, titled_figure


@panels.register("radius")
@panel("relative", "xlim", "ylim")
def radius(dataset: xr.Dataset) -> Figure:
    r"""The radius $\sqrt{\mathrm{tr}\,\Sigma(t)}$ of any measure."""
    traces = np.trace(covariances(dataset), axis1=-2, axis2=-1)
    figure = titled_figure(dataset, (6.0, 4.0))
    axes = figure.subplots()
    axes.plot(dataset["time"], np.sqrt(traces).T)
    axes.set(xlabel="time $t$", ylabel=r"radius $\sqrt{\mathrm{tr}\,\Sigma}$")
    return figure
