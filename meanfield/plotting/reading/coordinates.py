"""Coordinates of a run for a picture: some of them, its main axes, or its own scale."""

import numpy as np
import xarray as xr

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.options import MAIN

from .data import cloud, kind, runs
from .observables import (
    map_runs,
    moments,
    principal_axes,
    rounding,
    run_moments,
    sizes_of,
)

NOTE = "relative to the cloud: its mean at 0, its RMS radius 1"
_PAIRS = (("mean", "factor"), ("closure_mean", "closure_factor"), ("origin", "axes"))


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


def relative(dataset: xr.Dataset) -> xr.Dataset:
    r"""The dataset under $x \mapsto (x - m(t)) / \sqrt{\operatorname{tr}\Sigma(t)}$.

    $m$ and $\Sigma$ are the run's own moments; a closure or overlaid tokens in the
    dataset are transformed by them, too. Frames without spread are only centred.

    Raises:
        InvalidInputError: if the dataset contains no tokens, Gaussian or density.

    Examples:
        >>> import numpy as np
        >>> import xarray as xr
        >>> from meanfield.plotting import relative
        >>> x = (("time", "token", "coord"), [[[1.0], [5.0]]])
        >>> weight = ("token", [0.5, 0.5])
        >>> parts = {"x": x, "weight": weight}
        >>> run = xr.Dataset(parts, {"time": [0.0]}, {"kind": "points"})
        >>> relative(run)["x"].values.ravel()
        array([-1.,  1.])
    """
    kind(dataset)
    mean = map_runs(dataset, lambda run: run_moments(run).mean)
    sizes = map_runs(dataset, lambda run: sizes_of(run_moments(run).factor))
    lead = ("run", "time") if "run" in dataset.dims else ("time",)
    centre = xr.DataArray(mean, dims=(*lead, "coord"))
    radius = xr.DataArray(np.where(sizes > 0, sizes, 1.0), dims=lead)
    names = {"x": "x"} | {place: place for place, _ in _PAIRS}
    centred_arrays = {n: (dataset[n] - centre) / radius for n in names if n in dataset}
    scaled_arrays = {n: dataset[n] / radius for _, n in _PAIRS if n in dataset}
    if "density" in dataset:
        scaled_arrays["density"] = dataset["density"] * radius ** dataset.sizes["coord"]
    arrays = {
        name: array.transpose(*dataset[name].dims).astype(dataset[name].dtype)
        for name, array in (centred_arrays | scaled_arrays).items()
    }
    left = (lead, map_runs(dataset, rounding) / radius.values)
    return dataset.assign(arrays).assign_coords(rounding=left).assign_attrs(remark=NOTE)
