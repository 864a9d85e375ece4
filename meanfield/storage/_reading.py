"""Committed arrays, read back and checked against their digests."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meanfield.errors import StoreError

from ._places import segment_folder, static_folder
from ._record import Record, Variable
from ._schema import TIME
from ._segments import opened, verify

if TYPE_CHECKING:
    import zarr


def read_static(folder: Path, record: Record) -> dict[str, np.ndarray]:
    """The arrays without a time axis.

    Raises:
        StoreError: if one is damaged.
    """
    group = static_folder(folder)
    return {
        name: np.asarray(opened(folder, group, name, digest)[...])
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
        name: _frames_first(variable, _part(folder, record, name, segment))[
            place, ...
        ].copy()
        for name, variable in record.variables.items()
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
        verify(folder, static_folder(folder), name, digest)
    for index, segment in enumerate(record.segments):
        for name, digest in segment.checksums.items():
            verify(folder, segment_folder(folder, index), name, digest)


def array_folders(folder: Path, record: Record) -> Iterator[Path]:
    """Where the committed arrays lie."""
    yield from (static_folder(folder) / name for name in record.static)
    for index, segment in enumerate(record.segments):
        yield from (segment_folder(folder, index) / name for name in segment.checksums)


def _whole(folder: Path, record: Record, name: str) -> np.ndarray:
    variable = record.variables[name]
    # All are looked at before memory is asked for: a record may lie about sizes.
    parts = [_part(folder, record, name, i) for i in range(len(record.segments))]
    sizes = {**record.sizes, TIME: record.frames}
    whole = np.empty([sizes[dim] for dim in variable.dims], variable.dtype)
    rest = np.moveaxis(whole, variable.axis, 0)
    for segment, part in zip(record.segments, parts, strict=True):
        rest[: segment.frames] = _frames_first(variable, part)
        rest = rest[segment.frames :]
    return whole


def _part(folder: Path, record: Record, name: str, index: int) -> "zarr.Array":
    """One variable in one segment, whose shape and format are those of the record.

    Raises:
        StoreError: if they are not, or the array is damaged.
    """
    segment, variable = record.segments[index], record.variables[name]
    group = segment_folder(folder, index)
    part = opened(folder, group, name, segment.checksums[name])
    sizes = {**record.sizes, TIME: segment.frames}
    shape = tuple(sizes[dim] for dim in variable.dims)
    if part.shape != shape or part.dtype != np.dtype(variable.dtype):
        raise StoreError(
            f"The array `{name}` of `{group}` has the shape {part.shape} and the "
            f"format {part.dtype} where the record says {shape} and {variable.dtype}; "
            "restore one of them from a copy."
        )
    return part


def _frames_first(variable: Variable, part: "zarr.Array") -> np.ndarray:
    return np.moveaxis(np.asarray(part[...]), variable.axis, 0)
