"""The density of a grid, derived from what is stored of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray


def density(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    r"""Averages of the density over cells: masses over widths and $|\det D|$."""
    import xarray

    axes, mass = data["axes"], data["mass"]
    determinant = np.abs(np.linalg.det(axes.values))
    volume = xarray.DataArray(determinant, dims=axes.dims[:-2])
    for cell, edges in (("cell_x", "edges_x"), ("cell_y", "edges_y")):
        if edges in data:
            widths = np.diff(data[edges].values)
            volume = volume * xarray.DataArray(widths, dims=(cell,))
    return {"density": (mass / volume).transpose(*mass.dims)}
