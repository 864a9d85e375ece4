"""Coordinates of a run for a picture: some of them, or its main axes."""

import numpy as np
import xarray as xr

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.options import MAIN

from .data import cloud, runs
from .observables import moments, principal_axes


def project(dataset: xr.Dataset, axes: str) -> xr.Dataset:
    """The run in some of its coordinates, or along the main axes of its first flow.

    Covariances become those of the image; the coordinates keep their names.

    Args:
        dataset: tokens or Gaussians.
        axes: coordinates such as `1,3`, or `main:3`; see `Look`.

    Raises:
        InvalidInputError: if the run has no such coordinate, or is a density.

    Examples:
        >>> import xarray as xr
        >>> from meanfield.plotting.reading.coordinates import project
        >>> x = (("time", "token", "coord"), [[[1.0, 2.0, 3.0]]])
        >>> parts = {"x": x, "weight": ("token", [1.0])}
        >>> run = xr.Dataset(parts, {"time": [0.0]}, {"kind": "points"})
        >>> project(run, "1,3")["x"].values.ravel()
        array([1., 3.])
    """
    matrix, origin, names, note = _image(dataset, axes)
    arrays = {}
    for name, array in dataset.data_vars.items():
        if "coord" in array.dims:
            places = array if "factor" in str(name) else array - origin
            image = xr.dot(places, matrix, dim="coord").rename(axis="coord")
            arrays[name] = image.transpose(*array.dims).astype(array.dtype)
    rest = dataset.drop_vars([*arrays, "coord", "limit"], errors="ignore")
    remark = "; ".join(filter(None, [str(dataset.attrs.get("remark") or ""), note]))
    attrs = {"remark": remark, "dimension": dataset.sizes["coord"]}
    return rest.assign(arrays).assign_coords(coord=names).assign_attrs(attrs)


def _image(
    dataset: xr.Dataset, axes: str
) -> tuple[xr.DataArray, xr.DataArray, list[str], str]:
    """The axes (coord, axis), the origin, the names of the axes, and a note."""
    d, state = dataset.sizes["coord"], cloud(next(runs(dataset)))
    if axes.startswith(MAIN):
        k = int(axes.removeprefix(f"{MAIN}:")) if ":" in axes else 2
        _check_dimension(axes, k, d)
        columns, shares = principal_axes(state, k)
        origin = moments(state.state).mean[0]
        names = [f"PC {i + 1}" for i in range(k)]
        percents = ", ".join(f"{100 * share:.3g}" for share in shares)
        note = f"main {k} of {d} axes, with {percents} % of the spread"
    else:
        places = [int(text) - 1 for text in axes.split(",")]
        _check_dimension(axes, max(places) + 1, d)
        columns, origin = np.eye(d)[:, places], np.zeros(d)
        names = [f"$x_{{{place + 1}}}$" for place in places]
        note = f"coordinates {axes.replace(',', ', ')} of {d}"
    matrix = xr.DataArray(columns, dims=("coord", "axis"))
    return matrix, xr.DataArray(origin, dims="coord"), names, note


def _check_dimension(axes: str, largest: int, d: int) -> None:
    if largest > d:
        raise InvalidInputError(
            f"`axes` = {axes} needs {largest} coordinates or more; the run has {d}."
        )
