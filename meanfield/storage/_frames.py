"""What is given to a store, checked before a byte of it is written."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meanfield.endings import Status
from meanfield.errors import InvalidInputError

from ._schema import TIME, Ending, dims_of

Dims = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Arrays:
    """Named arrays with their dimensions, and the size of each dimension."""

    values: dict[str, np.ndarray]
    dims: dict[str, tuple[str, ...]]
    sizes: dict[str, int]


def static_arrays(given: Mapping[str, np.ndarray], extra: Dims) -> Arrays:
    """Arrays that no frame changes.

    Raises:
        InvalidInputError: if one depends on time, or has the wrong axes or dtype.
    """
    arrays = _arrays(given, extra, {})
    for name, dims in arrays.dims.items():
        if TIME in dims:
            raise InvalidInputError(
                f"`{name}` has a `{TIME}` axis, so it belongs to the frames; "
                "give other dimensions for it in `dims` if it is static."
            )
    return arrays


def frame_arrays(
    given: Mapping[str, np.ndarray], extra: Dims, sizes: Mapping[str, int]
) -> Arrays:
    """Arrays of successive frames; `sizes` are those of the run so far.

    Raises:
        InvalidInputError: if there is no `time`, an array has no time axis, or the
            axes do not fit each other or the run.
    """
    if TIME not in given:
        raise InvalidInputError(f"Frames must hold `{TIME}`; got {sorted(given)}.")
    arrays = _arrays(given, extra, sizes)
    for name, dims in arrays.dims.items():
        if TIME not in dims:
            raise InvalidInputError(
                f"`{name}` has no `{TIME}` axis, so it belongs in `static`."
            )
    return arrays


def real_frames(arrays: Arrays, ending: Ending | None) -> Arrays:
    """The frames that were reached: after an early end the rest repeat the last."""
    if ending is None or ending.code == Status.FINISHED:
        return arrays
    time = arrays.values[TIME]
    repeated = time > time.dtype.type(ending.stop_time)  # rounded as the times were
    kept = int(np.count_nonzero(~repeated))
    values = {
        name: np.moveaxis(np.moveaxis(array, axis, 0)[:kept], 0, axis)
        for name, array in arrays.values.items()
        for axis in (arrays.dims[name].index(TIME),)
    }
    return Arrays(values, arrays.dims, {**arrays.sizes, TIME: kept})


def _arrays(
    given: Mapping[str, np.ndarray], extra: Dims, sizes: Mapping[str, int]
) -> Arrays:
    values = {name: _numbers(name, array) for name, array in given.items()}
    dims = {name: dims_of(name, array.ndim, extra) for name, array in values.items()}
    found = dict(sizes)
    for name, array in values.items():
        for dim, size in zip(dims[name], array.shape, strict=True):
            if found.setdefault(dim, size) != size:
                raise InvalidInputError(
                    f"`{name}` has {size} along `{dim}` where {found[dim]} belong."
                )
    return Arrays(values, dims, found)


def _numbers(name: str, array: np.ndarray) -> np.ndarray:
    """The same numbers in native byte order."""
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > np.dtype("f8").itemsize:
        raise InvalidInputError(
            f"`{name}` must hold floats or integers of at most 64 bits; "
            f"got {array.dtype}."
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("="))
