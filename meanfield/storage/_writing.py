"""The two writes of a store: its founding, and one more segment."""

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import numpy as np

from meanfield._writing import writing
from meanfield.errors import InvalidInputError, StoreError

from ._frames import Arrays, frame_arrays, real_frames, static_arrays
from ._places import segment_folder, static_folder
from ._record import (
    RECORD,
    About,
    Record,
    Segment,
    Variable,
    plain_json,
    write_record,
)
from ._schema import TIME
from ._segments import clear, write_arrays, write_hierarchy
from .disk import Lock, flush, flush_tree, names_at, place_folder


def found(
    folder: Path,
    attrs: Mapping[str, object],
    static: Mapping[str, np.ndarray],
    dims: Mapping[str, tuple[str, ...]],
) -> Lock:
    """Builds an empty store beside its place and moves it there in one step.

    Returns:
        the lock on the store, held since before there was one.

    Raises:
        InvalidInputError: if the folder is taken, or `attrs` or an array is unfit.
        ResourceError: if it cannot be written.
    """
    record = Record(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        attrs=cast(About, plain_json("attrs", attrs)),
        dims={name: tuple(names) for name, names in dims.items()},
        static={},
        sizes={},
        variables={},
        segments=(),
        state={},
        ending=None,
    )
    arrays = static_arrays(static, record.dims)
    with writing(folder):
        refuse_taken(folder)
        return _build(Path(os.path.realpath(folder)), record, arrays)


def extended(folder: Path, base: Record, frames: Mapping[str, np.ndarray]) -> Record:
    """The record with one more segment, once that segment is on the disk.

    Raises:
        InvalidInputError: if an array is unfit.
        StoreError: if the run holds other variables.
        ResourceError: if the disk refuses.
    """
    arrays = real_frames(frame_arrays(frames, base.dims, base.sizes), base.ending)
    variables = {
        name: Variable(array.dtype.str, arrays.dims[name])
        for name, array in arrays.values.items()
    }
    if base.segments and variables != base.variables:
        raise StoreError(
            f"`{folder}` holds {_named(base.variables)}; got {_named(variables)}."
        )
    sizes = {dim: size for dim, size in arrays.sizes.items() if dim != TIME}
    count = arrays.sizes[TIME]
    if count == 0:
        return base
    index = len(base.segments)
    with writing(folder):
        clear(folder, index)
        place = segment_folder(folder, index)
        digests = write_arrays(place, arrays.values, arrays.dims)
        flush(place.parent)
    segments = (*base.segments, Segment(count, digests))
    return replace(base, sizes=sizes, variables=variables, segments=segments)


def _build(target: Path, record: Record, static: Arrays) -> Lock:
    def fill(draft: Path) -> None:
        write_hierarchy(draft)
        digests = write_arrays(static_folder(draft), static.values, static.dims)
        write_record(draft, replace(record, static=digests, sizes=static.sizes))
        flush_tree(draft)

    try:
        return place_folder(target, fill)
    except OSError:
        refuse_taken(target)  # another writer of the same name came first
        raise


def refuse_taken(folder: Path) -> None:
    """Refuses a folder that a new run cannot be stored in.

    Raises:
        InvalidInputError: saying what is there.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import refuse_taken
        >>> refuse_taken(Path("new.zarr"))  # nothing is there yet
    """
    if (folder / RECORD).exists():
        raise InvalidInputError(
            f"`{folder}` already holds a run, which is kept: choose another folder, "
            f"remove it, or go on with what is unfinished by `meanfield resume "
            f"{folder}`."
        )
    if names_at(folder):
        other = "a folder with something else in it"
        what = other if folder.is_dir() else "a file, and a run is a folder"
        raise InvalidInputError(f"`{folder}` is {what}; choose another place.")


def _named(variables: Mapping[str, Variable]) -> str:
    return ", ".join(f"{name} ({each.dtype})" for name, each in variables.items())
