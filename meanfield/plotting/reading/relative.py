"""A run relative to its own size: its mean taken out, its RMS radius made one."""

import numpy as np
import xarray as xr

from .data import kind
from .observables import per_run, rounding, run_moments, sizes_of

NOTE = "relative to the cloud: its mean at 0, its RMS radius 1"
_PAIRS = (("mean", "factor"), ("closure_mean", "closure_factor"), ("origin", "axes"))


def relative(dataset: xr.Dataset) -> xr.Dataset:
    r"""The image under $x \mapsto (x - m(t)) / \sqrt{\operatorname{tr}\Sigma(t)}$.

    Whatever the dataset carries, a closure or tokens, is seen with the mean and the
    radius of what moved. Frames without spread are only centred.

    Raises:
        InvalidInputError: if the dataset holds no tokens, Gaussian or density.

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
    mean = per_run(dataset, lambda run: run_moments(run).mean)
    sizes = per_run(dataset, lambda run: sizes_of(run_moments(run).factor))
    lead = ("run", "time") if "run" in dataset.dims else ("time",)
    centre = xr.DataArray(mean, dims=(*lead, "coord"))
    radius = xr.DataArray(np.where(sizes > 0, sizes, 1.0), dims=lead)
    names = {"x": "x"} | {place: place for place, _ in _PAIRS}
    moved = {n: (dataset[n] - centre) / radius for n in names if n in dataset}
    scaled = {n: dataset[n] / radius for _, n in _PAIRS if n in dataset}
    if "density" in dataset:
        scaled["density"] = dataset["density"] * radius ** dataset.sizes["coord"]
    ordered = {
        name: array.transpose(*dataset[name].dims).astype(dataset[name].dtype)
        for name, array in (moved | scaled).items()
    }
    left = (lead, per_run(dataset, rounding) / radius.values)
    return (
        dataset.assign(ordered).assign_coords(rounding=left).assign_attrs(remark=NOTE)
    )
