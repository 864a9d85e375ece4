"""A committed run as an `xarray.Dataset`: all its frames, and how it ended."""

import copy
import math
from collections.abc import Mapping

import numpy as np
import xarray as xr

from ._record import Record
from ._schema import ENDING_FLAGS, RESUMABLE, SCHEMA, TIME, Ending, dims_of


def assemble(
    record: Record,
    frames: Mapping[str, np.ndarray],
    static: Mapping[str, np.ndarray],
) -> xr.Dataset:
    """The dataset of a record whose arrays have been read."""
    variables = {
        name: (record.variables[name].dims, array) for name, array in frames.items()
    } | {
        name: (dims_of(name, array.ndim, record.dims), array)
        for name, array in static.items()
    }
    attrs = {**copy.deepcopy(record.attrs), "schema": SCHEMA, "created": record.created}
    return xr.Dataset({**variables, **_ending(record, frames)}, attrs=attrs)


def _ending(record: Record, frames: Mapping[str, np.ndarray]) -> dict[str, xr.Variable]:
    ending = record.ending or _cut_short(frames)
    about = {
        **ENDING_FLAGS,
        "reason": ending.reason,
    }
    return {
        "status": xr.Variable((), np.int8(ending.code), about),
        "stop_time": xr.Variable((), ending.stop_time),
        "t_star": xr.Variable((), _or_nan(ending.t_star)),
        "t_star_error": xr.Variable((), _or_nan(ending.t_star_error)),
    }


def _cut_short(frames: Mapping[str, np.ndarray]) -> Ending:
    """The ending of a run that recorded none: it runs still, or was killed."""
    last = float(frames[TIME][-1]) if TIME in frames else math.nan
    return Ending(RESUMABLE, "No ending was recorded.", last)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
