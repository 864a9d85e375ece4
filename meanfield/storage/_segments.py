"""A segment on disk: a zarr group that is written once and never modified."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meanfield._reading import OPEN
from meanfield.errors import StoreError

from ._places import check_no_links, segment_folder
from ._schema import TIME
from .disk import ARRAYS, flush_tree, foreign_paths, tree_digest

if TYPE_CHECKING:
    import zarr

_CHUNK = 1 << 26  # size of a chunk in bytes, rounded to one or more whole frames


def write_hierarchy(folder: Path) -> None:
    """Writes the groups above the segments, so that zarr can find segments."""
    import zarr  # takes 0.3 s, so runs without a store do not import it

    segments = segment_folder(folder, 0).parent
    for group in (segments.parent, segments):
        zarr.open_group(group, mode="w-", zarr_format=3)


def clear(folder: Path, index: int) -> None:
    """Removes the uncommitted segment `index` of a killed writer.

    Raises:
        StoreError: if the segment is a link, or contains a file that does not belong to
            a segment.
    """
    place = segment_folder(folder, index)
    check_no_links(folder, place)
    if not place.exists():
        return
    for path in foreign_paths(place, ARRAYS):
        raise StoreError(
            f"`{path}` was not written by this run, but is in the way of its next "
            "segment; move it elsewhere."
        )
    shutil.rmtree(place)


def write_arrays(
    folder: Path, arrays: Mapping[str, np.ndarray], dims: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """Writes a new group, flushes it to disk, and returns the digest of each array.

    Chunks are raw little-endian bytes. Chunks of zeros are written, too: `-0.0` equals
    zarr's fill value, so a chunk that was skipped would be read as `0.0`.
    """
    import zarr

    group = zarr.open_group(folder, mode="w-", zarr_format=3)
    for name, array in arrays.items():
        target = group.create_array(
            name,
            shape=array.shape,
            dtype=array.dtype,
            chunks=_chunks(array, dims[name]),
            compressors=None,
            fill_value=0,
            dimension_names=dims[name],
            config={"write_empty_chunks": True},
        )
        target[...] = array
    flush_tree(folder)
    return {name: tree_digest(folder / name) for name in arrays}


def open_array(store: Path, group: Path, name: str, digest: str) -> "zarr.Array":
    """An array of a group, opened for reading after a check of its digest.

    Raises:
        StoreError: if the array is damaged.
    """
    import zarr

    verify(store, group, name, digest)
    return zarr.open_array(group / name, mode="r", zarr_format=3)


def verify(store: Path, group: Path, name: str, digest: str) -> None:
    """Compares an array's files with the digest taken when they were written.

    Raises:
        StoreError: if a byte differs, a chunk is missing or truncated, or a file is a
            link.
    """
    check_no_links(store, group / name)
    try:
        actual = tree_digest(group / name)
    except OSError as error:
        raise StoreError(
            f"The array `{name}` of `{group}` cannot be read: {error.strerror}; {OPEN}"
        ) from error
    if actual != digest:
        raise StoreError(
            f"The array `{name}` of `{group}` is damaged: bytes are missing or differ "
            "from those written. Restore it from a copy, or start the run again."
        )


def _chunks(array: np.ndarray, dims: tuple[str, ...]) -> tuple[int, ...]:
    shape = [max(1, size) for size in array.shape]
    if TIME in dims:
        axis = dims.index(TIME)
        frame = array.itemsize * math.prod(shape) // shape[axis]
        shape[axis] = min(shape[axis], max(1, _CHUNK // frame))
    return tuple(shape)
