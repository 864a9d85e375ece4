"""The two ways to write a store: create it, or append a segment."""

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
    Record,
    RunAttrs,
    Segment,
    Variable,
    plain_json,
    write_record,
)
from ._schema import TIME
from ._segments import clear, write_arrays, write_hierarchy
from .disk import Lock, flush, flush_tree, names_at, place_folder


def create_store(
    folder: Path,
    attrs: Mapping[str, object],
    static: Mapping[str, np.ndarray],
    dims: Mapping[str, tuple[str, ...]],
) -> Lock:
    """Creates a store without frames, atomically.

    Returns:
        the lock on the store, which was taken before the store became visible.

    Raises:
        InvalidInputError: if the folder is not empty, or `attrs` or an array cannot be
            stored.
        ResourceError: if it cannot be written.
    """
    record = Record(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        attrs=cast(RunAttrs, plain_json("attrs", attrs)),
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
        check_folder_free(folder)
        return _build(Path(os.path.realpath(folder)), record, arrays)


def append_segment(
    folder: Path, base: Record, frames: Mapping[str, np.ndarray]
) -> Record:
    """Writes a segment to disk and returns the record that includes it.

    Raises:
        InvalidInputError: if an array cannot be stored.
        StoreError: if the run has other variables.
        ResourceError: if it cannot be written.
    """
    arrays = real_frames(frame_arrays(frames, base.dims, base.sizes), base.ending)
    variables = {
        name: Variable(array.dtype.str, arrays.dims[name])
        for name, array in arrays.values.items()
    }
    if base.segments and variables != base.variables:
        raise StoreError(
            f"The segments of `{folder}` hold {_describe_variables(base.variables)}; "
            f"the new segment holds {_describe_variables(variables)}."
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
        check_folder_free(target)  # another writer may have been faster
        raise


def check_folder_free(folder: Path) -> None:
    """Checks that a new run can be stored in a folder.

    Raises:
        InvalidInputError: if the folder is not empty; the message says what it holds.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import check_folder_free
        >>> check_folder_free(Path("new.zarr"))  # nothing is there yet
    """
    if (folder / RECORD).exists():
        raise InvalidInputError(
            f"`{folder}` already holds a run, which is not overwritten: choose another "
            "folder, or remove this one. If the run was interrupted, "
            f"`meanfield resume {folder}` continues it."
        )
    if names_at(folder):
        folder_text = "not empty and holds no run"
        description = (
            folder_text if folder.is_dir() else "a file, but a run is a folder"
        )
        raise InvalidInputError(f"`{folder}` is {description}; choose another place.")


def _describe_variables(variables: Mapping[str, Variable]) -> str:
    return ", ".join(f"{name} ({v.dtype})" for name, v in variables.items())
