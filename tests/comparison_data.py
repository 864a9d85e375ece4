"""A small comparison of representations."""

import density_data
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from plotting_data import SPEC, moving_gaussian, shrinking

from meanfield.plotting import draw_comparison


def comparison() -> Figure:
    """Two representations that agree in everything but the distance."""
    t, rng = np.array([0.0, 1.0]), np.random.default_rng(5)
    rows = np.array([[0.1, 0.2], [0.1, 0.2], [1e-9, 1e-9]])
    pairs = ["points – gaussian", "points – grid", "gaussian – grid"]
    data = {
        f"{name}_gap": (("pair", "time"), rows)
        for name in ("mean", "covariance", "distance")
    }
    gaps = xr.Dataset(data, {"time": t, "pair": pairs}, {"spec": SPEC})
    gaps = gaps.assign(separation=("pair", np.full(3, np.nan)))
    states = {
        "points": shrinking(rng, frames=2).assign_coords(time=t),
        "gaussian": moving_gaussian(rng, frames=2).assign_coords(time=t),
        "grid": density_data.gaussian_in_plane(frames=2).assign_coords(time=t),
    }
    return draw_comparison(gaps, states)
