"""A density on the circle or a sphere: a map over time and angle, and its orders."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.marks import colour_bar, entry, legend
from meanfield.plotting._figure.picture import Picture
from meanfield.plotting._figure.style import CYCLE
from meanfield.plotting.reading.data import NOTHING, Ending, ending, values

from .line import midpoints
from .views import scale

N_CURVES = 5  # order parameters that are drawn
_ANGLES = (-np.pi, -np.pi / 2, 0.0, np.pi / 2, np.pi)
_NAMES = ("−π", "−π/2", "0", "π/2", "π")


def is_on_sphere(run: xr.Dataset) -> bool:
    """Whether a dataset holds a density on a circle or a sphere."""
    return "angle" in run.dims and "edges" in run


def draw_angles(figure: Picture, run: xr.Dataset) -> Ending:
    """Draw one run; return how it ended.

    Raises:
        InvalidInputError: if no frame is finite.
    """
    density = values(run, "density", ("time", "angle"))
    is_finite = np.isfinite(density).all(axis=1)
    if not is_finite.any():
        raise InvalidInputError(NOTHING)
    density, times = density[is_finite], run["time"].values[is_finite]
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    shades = scale(density, figure.look)
    edges = run["edges"].values
    corners = np.meshgrid(midpoints(times), edges, indexing="ij")
    colours = {"cmap": shades.cmap, "norm": shades.norm}
    upper.pcolormesh(*corners, density, **colours, rasterized=True)
    suffix = ", logarithmic" if isinstance(shades.norm, LogNorm) else ""
    colour_bar(upper, shades, f"density, uniform = 1{suffix}", aspect=30)
    names = dict(zip(_ANGLES, _NAMES, strict=True))
    ticks = [angle for angle in _ANGLES if angle >= edges[0]]
    upper.set_yticks(ticks, [names[angle] for angle in ticks])
    upper.set_ylabel(r"angle $\theta$")
    _draw_orders(lower, run.isel(time=is_finite))
    return ending(run)


def _draw_orders(axes: Axes, run: xr.Dataset) -> None:
    """Draw the first order parameters over time."""
    orders = values(run, "order", ("time", "degree"))
    handles = []
    for k in range(N_CURVES):
        axes.plot(run["time"], orders[:, k], color=CYCLE[k], linewidth=1.4)
        handles.append(entry(f"$k$ = {k + 1}", CYCLE[k]))
    axes.set(xlabel="time $t$", ylabel="order parameter")
    axes.grid(visible=True, axis="y")
    legend(axes, handles, len(handles))
