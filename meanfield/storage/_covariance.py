"""The covariance of a Gaussian, derived from the factor that is stored of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray


def covariance(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    r"""$YY^\top$ of the factor $Y$, with `coord` down and `other` across."""
    import xarray

    factor = data["factor"]
    *leading, coord, _ = factor.dims
    product = np.matmul(factor.values, np.swapaxes(factor.values, -1, -2))
    return {"covariance": xarray.DataArray(product, dims=(*leading, coord, "other"))}
