"""Committed arrays, read back and checked against their digests."""

from pathlib import Path

import numpy as np

from meanfield.errors import StoreError

from ._record import Record
from ._schema import TIME
from ._segments import read_array, segment_folder, static_folder, verify


def read_static(folder: Path, record: Record) -> dict[str, np.ndarray]:
    """The arrays without a time axis.

    Raises:
        StoreError: if one is damaged.
    """
    return {
        name: read_array(static_folder(folder), name, digest)
        for name, digest in record.static.items()
    }


def read_last(folder: Path, record: Record) -> dict[str, np.ndarray]:
    """The last frame of every frame variable.

    Raises:
        StoreError: if there is no frame, or an array is damaged.
    """
    return _frame(folder, record, -1)


def read_first(folder: Path, record: Record) -> dict[str, np.ndarray]:
    """The first frame of every frame variable.

    Raises:
        StoreError: if there is no frame, or an array is damaged.
    """
    return _frame(folder, record, 0)


def _frame(folder: Path, record: Record, place: int) -> dict[str, np.ndarray]:
    """The first frame of the first segment, or the last of the last."""
    if not record.segments:
        raise StoreError(f"`{folder}` holds no frame yet; start the run again.")
    segment = range(len(record.segments))[place]
    return {
        name: _part(folder, record, name, segment)[place, ...].copy()
        for name in record.variables
    }


def read_frames(folder: Path, record: Record) -> dict[str, np.ndarray]:
    """All frames of every frame variable; needs the memory of one segment besides.

    Raises:
        StoreError: if an array is damaged.
    """
    return {name: _whole(folder, record, name) for name in record.variables}


def verify_all(folder: Path, record: Record) -> None:
    """Compares every array with its digest.

    Raises:
        StoreError: naming the first that is damaged.
    """
    for name, digest in record.static.items():
        verify(static_folder(folder), name, digest)
    for index, segment in enumerate(record.segments):
        for name, digest in segment.checksums.items():
            verify(segment_folder(folder, index), name, digest)


def _whole(folder: Path, record: Record, name: str) -> np.ndarray:
    variable = record.variables[name]
    sizes = {**record.sizes, TIME: record.frames}
    whole = np.empty([sizes[dim] for dim in variable.dims], variable.dtype)
    rest = np.moveaxis(whole, variable.axis, 0)
    for index, segment in enumerate(record.segments):
        rest[: segment.frames] = _part(folder, record, name, index)
        rest = rest[segment.frames :]
    return whole


def _part(folder: Path, record: Record, name: str, index: int) -> np.ndarray:
    """The frames of one variable in one segment, time first."""
    digest = record.segments[index].checksums[name]
    part = read_array(segment_folder(folder, index), name, digest)
    return np.moveaxis(part, record.variables[name].axis, 0)
