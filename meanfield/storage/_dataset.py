"""A committed run as an `xarray.Dataset` whose frames are read lazily."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from typing_extensions import override
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core.indexing import (
    ExplicitIndexer,
    IndexingSupport,
    LazilyIndexedArray,
    explicit_indexing_adapter,
)

from meanfield.errors import StoreError

from ._reading import read_static
from ._record import Record
from ._schema import ENDING_FLAGS, RESUMABLE, RUN, SCHEMA, TIME, Derive, Ending, dims_of
from ._stored_frames import Key, StoredFrames, is_number, outer, vector


def lazy_dataset(folder: Path, record: Record, derive: Derive) -> xr.Dataset:
    """The dataset of a store; only its times and static arrays are read immediately.

    Args:
        folder: the folder of the store.
        record: the commit record of the store.
        derive: computes further variables from the frames; see `Kind`.
    """
    return xr.open_dataset(folder, engine=_Store, record=record, derive=derive)


class _Store(BackendEntrypoint):
    """The xarray backend of a store; xarray caches variables that are read in full."""

    open_dataset_parameters = ("filename_or_obj", "drop_variables", "record", "derive")

    @override
    def open_dataset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        record: Record,
        derive: Derive,
    ) -> xr.Dataset:
        data = _assemble(Path(filename_or_obj), record)
        if record.frames:
            data = data.assign(_derive_variables(data, derive))
        return data.drop_vars(drop_variables or ())


def _assemble(folder: Path, record: Record) -> xr.Dataset:
    frames = {name: StoredFrames(folder, record, name) for name in record.variables}
    moving = {name: _lazy_variable(variable) for name, variable in frames.items()}
    last = math.nan
    if TIME in frames:
        times = frames[TIME].read_all()
        moving[TIME], last = xr.Variable(TIME, times), float(times[-1])
    static = {
        name: xr.Variable(dims_of(name, array.ndim, record.dims), array)
        for name, array in read_static(folder, record).items()
    }
    _check_sizes(record, static)
    attrs = {**copy.deepcopy(record.attrs), "schema": SCHEMA, "created": record.created}
    return xr.Dataset({**moving, **static, **_ending(record, last)}, attrs=attrs)


def _check_sizes(record: Record, static: dict[str, xr.Variable]) -> None:
    for name, variable in static.items():
        for dim, size in variable.sizes.items():
            expected = record.sizes.get(str(dim), size)
            if size != expected:
                raise StoreError(
                    f"The array `{name}` has size {size} along `{dim}`, but its record "
                    f"says {expected}; restore the array or the record from a copy."
                )


def _derive_variables(data: xr.Dataset, derive: Derive) -> dict[str, xr.Variable]:
    """The derived variables; the first frame gives their shapes and dtypes."""
    first_frame = derive(data.isel({TIME: slice(0, 1)}))
    return {
        name: _lazy_variable(_DerivedFrames(data, derive, name, first), first.attrs)
        if TIME in first.dims
        else first.variable
        for name, first in first_frame.items()
    }


def lazy_numbers(
    data: xr.Dataset, numbers: Mapping[str, Callable[[xr.Dataset], np.ndarray]]
) -> dict[str, xr.Variable]:
    """Variables with one number per frame, computed lazily for the requested frames.

    Args:
        data: the dataset of a store.
        numbers: functions from frames of `data` to an array `[time]`, or `[run, time]`.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.storage import lazy_numbers
        >>> keys = {"n": 5, "A": -1.0, "t": 0.1, "frames": 2}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> data = runs.dataset(Path("run.zarr"))
        >>> largest = lambda frames: frames["x"].max(("token", "coord")).values
        >>> data.assign(lazy_numbers(data, {"largest": largest}))["largest"].shape
        (2,)
    """
    dims = [dim for dim in (RUN, TIME) if dim in data.dims]
    shape = [1 if dim == TIME else data.sizes[dim] for dim in dims]
    template = xr.DataArray(np.empty(shape), dims=dims)

    def lazy(name: str) -> xr.Variable:
        def derive(part: xr.Dataset) -> dict[str, xr.DataArray]:
            return {name: xr.DataArray(numbers[name](part), dims=dims)}

        return _lazy_variable(_DerivedFrames(data, derive, name, template))

    return {name: lazy(name) for name in numbers}


class _DerivedFrames:
    """A derived variable, computed lazily for the requested frames."""

    def __init__(
        self, data: xr.Dataset, derive: Derive, name: str, first: xr.DataArray
    ) -> None:
        self._data, self._derive, self._name = data, derive, name
        self._axis = first.dims.index(TIME)
        self.dims, self.dtype = first.dims, first.dtype
        sizes = {**first.sizes, TIME: data.sizes[TIME]}
        self.shape = tuple(sizes[dim] for dim in first.dims)

    def __getitem__(self, key: Key) -> np.ndarray:
        axis = self._axis
        indices = vector(key[axis])
        numbers = self._derive(self._data.isel({TIME: indices}))[self._name].values
        place = 0 if is_number(key[axis]) else slice(None)
        return outer(numbers, (*key[:axis], place, *key[axis + 1 :]))


class _LazyArray(BackendArray):
    """An array whose parts xarray reads lazily."""

    def __init__(self, frames: StoredFrames | _DerivedFrames) -> None:
        self._frames = frames
        self.shape, self.dtype = frames.shape, frames.dtype

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        read, support = self._frames.__getitem__, IndexingSupport.OUTER
        return explicit_indexing_adapter(key, self.shape, support, read)


def _lazy_variable(
    frames: StoredFrames | _DerivedFrames, attrs: Mapping[str, Any] | None = None
) -> xr.Variable:
    return xr.Variable(frames.dims, LazilyIndexedArray(_LazyArray(frames)), attrs)


def _ending(record: Record, last: float) -> dict[str, xr.Variable]:
    """How a run ended; a run without a recorded ending is running or was killed."""
    ending = record.ending or Ending(RESUMABLE, "No ending was recorded.", last)
    attrs = {**ENDING_FLAGS, "reason": ending.reason}
    t_star, error = np.array([ending.t_star, ending.t_star_error], float)  # None is NaN
    return {
        "status": xr.Variable((), np.int8(ending.code), attrs),
        "stop_time": xr.Variable((), ending.stop_time),
        "t_star": xr.Variable((), t_star),
        "t_star_error": xr.Variable((), error),
    }
