"""Checks of the arrays passed to a store, before anything is written."""

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


def static_arrays(raw_arrays: Mapping[str, np.ndarray], extra: Dims) -> Arrays:
    """Checks arrays without a time axis, and returns them with their dimensions.

    Raises:
        InvalidInputError: if an array depends on time, or has wrong axes or dtype.
    """
    arrays = _arrays(raw_arrays, extra, {})
    for name, dims in arrays.dims.items():
        if TIME in dims:
            raise InvalidInputError(
                f"`{name}` has a `{TIME}` axis, but a static array has none. If the "
                "array does not depend on time, give its dimensions in `dims`."
            )
    return arrays


def frame_arrays(
    raw_arrays: Mapping[str, np.ndarray], extra: Dims, sizes: Mapping[str, int]
) -> Arrays:
    """Checks arrays of successive frames; `sizes` are the sizes of earlier frames.

    Raises:
        InvalidInputError: if `time` is missing, an array has no time axis, or the
            sizes of axes disagree with each other or with earlier frames.
    """
    if TIME not in raw_arrays:
        raise InvalidInputError(f"Frames must hold `{TIME}`; got {sorted(raw_arrays)}.")
    arrays = _arrays(raw_arrays, extra, sizes)
    for name, dims in arrays.dims.items():
        if TIME not in dims:
            raise InvalidInputError(
                f"`{name}` has no `{TIME}` axis; pass it as one of the `static` arrays."
            )
    return arrays


def real_frames(arrays: Arrays, ending: Ending | None) -> Arrays:
    """The frames up to an early end; later frames only repeat the last state."""
    if ending is None or ending.code == Status.FINISHED:
        return arrays
    time = arrays.values[TIME]
    # The stop time is rounded to the dtype of `time`, like the stored times.
    is_repeated = time > time.dtype.type(ending.stop_time)
    n_frames = int(np.count_nonzero(~is_repeated))
    values = {
        name: np.moveaxis(np.moveaxis(array, axis, 0)[:n_frames], 0, axis)
        for name, array in arrays.values.items()
        for axis in (arrays.dims[name].index(TIME),)
    }
    return Arrays(values, arrays.dims, {**arrays.sizes, TIME: n_frames})


def _arrays(
    raw_arrays: Mapping[str, np.ndarray], extra: Dims, sizes: Mapping[str, int]
) -> Arrays:
    values = {name: _numbers(name, array) for name, array in raw_arrays.items()}
    dims = {name: dims_of(name, array.ndim, extra) for name, array in values.items()}
    all_sizes = dict(sizes)
    for name, array in values.items():
        for dim, size in zip(dims[name], array.shape, strict=True):
            if all_sizes.setdefault(dim, size) != size:
                raise InvalidInputError(
                    f"`{name}` has size {size} along `{dim}`; it must be "
                    f"{all_sizes[dim]}."
                )
    return Arrays(values, dims, all_sizes)


def _numbers(name: str, array: np.ndarray) -> np.ndarray:
    """Checks the dtype of an array, and returns the array in native byte order."""
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > np.dtype("f8").itemsize:
        raise InvalidInputError(
            f"`{name}` must hold floats or integers of at most 64 bits; "
            f"got {array.dtype}."
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("="))
