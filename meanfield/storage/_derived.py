"""Variables that a dataset derives from what is stored: densities and covariances."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from meanfield.cells import volumes

if TYPE_CHECKING:
    import xarray


def density(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    r"""Averages of the density over cells: masses over widths and $|\det D|$."""
    import xarray

    axes, mass = data["axes"], data["mass"]
    edges = [data[name].values for name in ("edges_x", "edges_y") if name in data]
    sizes = volumes(edges, np.abs(np.linalg.det(axes.values)))
    dims = (*axes.dims[:-2], *mass.dims[-len(edges) :])
    volume = xarray.DataArray(sizes, dims=dims)
    return {"density": (mass / volume).transpose(*mass.dims)}


def covariance(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    r"""$YY^\top$ of the factor $Y$, with `coord` down and `other` across."""
    import xarray

    factor = data["factor"]
    *leading, coord, _ = factor.dims
    product = np.matmul(factor.values, np.swapaxes(factor.values, -1, -2))
    return {"covariance": xarray.DataArray(product, dims=(*leading, coord, "other"))}
