"""A committed run as an `xarray.Dataset`, whose frames are read when asked for."""

import copy
import math
from collections.abc import Iterable, Mapping
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
from ._schema import ENDING_FLAGS, RESUMABLE, SCHEMA, TIME, Derive, Ending, dims_of
from ._stored_frames import Key, StoredFrames, is_number, outer, vector


def lazy_dataset(folder: Path, record: Record, derive: Derive) -> xr.Dataset:
    """The dataset of a store as of a record; of its frames only the times are read.

    Args:
        folder: of the store.
        record: what was committed.
        derive: variables that are computed from others, frame by frame.
    """
    return xr.open_dataset(folder, engine=_Store, record=record, derive=derive)


class _Store(BackendEntrypoint):
    """A store for xarray, which keeps in memory a variable that was read whole."""

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
        data = _assembled(Path(filename_or_obj), record)
        if record.frames:
            data = data.assign(_derived(data, derive))
        return data.drop_vars(drop_variables or ())


def _assembled(folder: Path, record: Record) -> xr.Dataset:
    frames = {name: StoredFrames(folder, record, name) for name in record.variables}
    times = {n: (one.dims, one.whole()) for n, one in frames.items() if n == TIME}
    moving = {n: _on_demand(one.dims, one) for n, one in frames.items() if n != TIME}
    static = {
        name: xr.Variable(dims_of(name, array.ndim, record.dims), array)
        for name, array in read_static(folder, record).items()
    }
    _refuse_other_sizes(record, static)
    last = float(times[TIME][1][-1]) if times else math.nan
    attrs = {**copy.deepcopy(record.attrs), "schema": SCHEMA, "created": record.created}
    return xr.Dataset(
        {**times, **moving, **static, **_ending(record, last)}, attrs=attrs
    )


def _refuse_other_sizes(record: Record, static: dict[str, xr.Variable]) -> None:
    for name, variable in static.items():
        for dim, size in variable.sizes.items():
            expected = record.sizes.get(str(dim), size)
            if size != expected:
                raise StoreError(
                    f"The array `{name}` has {size} along `{dim}` where the record "
                    f"says {expected}; restore one of them from a copy."
                )


def _derived(data: xr.Dataset, derive: Derive) -> dict[str, xr.Variable]:
    """Derived variables; the first frame says of which shape and format they are."""
    known = derive(data.isel({TIME: slice(0, 1)}))
    return {
        name: _on_demand(
            first.dims, _DerivedFrames(data, derive, name, first), first.attrs
        )
        if TIME in first.dims
        else first.variable
        for name, first in known.items()
    }


class _DerivedFrames:
    """A derived variable, computed for the frames that are asked for."""

    def __init__(
        self, data: xr.Dataset, derive: Derive, name: str, first: xr.DataArray
    ) -> None:
        self._data, self._derive, self._name = data, derive, name
        self._axis = first.dims.index(TIME)
        self.dtype = first.dtype
        sizes = {**first.sizes, TIME: data.sizes[TIME]}
        self.shape = tuple(sizes[dim] for dim in first.dims)

    def __getitem__(self, key: Key) -> np.ndarray:
        axis = self._axis
        asked = vector(key[axis])
        numbers = self._derive(self._data.isel({TIME: asked}))[self._name].values
        place = 0 if is_number(key[axis]) else slice(None)
        return outer(numbers, (*key[:axis], place, *key[axis + 1 :]))


class _OnDemand(BackendArray):
    """An array that xarray asks for its parts."""

    def __init__(self, frames: StoredFrames | _DerivedFrames) -> None:
        self._frames = frames
        self.shape, self.dtype = frames.shape, frames.dtype

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        read, support = self._frames.__getitem__, IndexingSupport.OUTER
        return explicit_indexing_adapter(key, self.shape, support, read)


def _on_demand(
    dims: Iterable[Any],
    frames: StoredFrames | _DerivedFrames,
    attrs: Mapping[str, Any] | None = None,
) -> xr.Variable:
    return xr.Variable(tuple(dims), LazilyIndexedArray(_OnDemand(frames)), attrs)


def _ending(record: Record, last: float) -> dict[str, xr.Variable]:
    """How a run ended; one that recorded no ending runs still, or was killed."""
    ending = record.ending or Ending(RESUMABLE, "No ending was recorded.", last)
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


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
