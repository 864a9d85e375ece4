"""A run relative to its own mean and size: centred, with RMS radius 1."""

import numpy as np
import xarray as xr

from .data import kind
from .observables import map_runs, rounding, run_moments, sizes_of

NOTE = "relative to the cloud: its mean at 0, its RMS radius 1"
_PAIRS = (("mean", "factor"), ("closure_mean", "closure_factor"), ("origin", "axes"))


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
