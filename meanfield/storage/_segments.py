"""A segment on disk: a zarr group that is written once and never touched again."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meanfield._reading import OPEN
from meanfield.errors import StoreError

from ._places import refuse_links, segment_folder
from ._schema import TIME
from .disk import ARRAYS, flush_tree, strangers, tree_digest

if TYPE_CHECKING:
    import zarr

_CHUNK = 1 << 26  # bytes: a chunk holds whole frames, as many as fit, one at least


def write_hierarchy(folder: Path) -> None:
    """Writes the groups above the segments, so that plain zarr can walk the tree."""
    import zarr  # 0.3 s, and a run that writes nothing needs none of it

    segments = segment_folder(folder, 0).parent
    for group in (segments.parent, segments):
        zarr.open_group(group, mode="w-", zarr_format=3)


def clear(folder: Path, index: int) -> None:
    """Removes the segment `index`: what a killed writer never committed.

    Raises:
        StoreError: if it is a link, or holds what no segment holds.
    """
    place = segment_folder(folder, index)
    refuse_links(folder, place)
    if not place.exists():
        return
    for path in strangers(place, ARRAYS):
        raise StoreError(
            f"`{path}` was not written by this run, which goes on at this place; "
            "move it elsewhere."
        )
    shutil.rmtree(place)


def write_arrays(
    folder: Path,
    arrays: Mapping[str, np.ndarray],
    dims: Mapping[str, tuple[str, ...]],
) -> dict[str, str]:
    """Writes a new group, waits for the disk, and returns each array's digest.

    Chunks are raw little-endian bytes, and written even where all zero: `-0.0` equals
    zarr's fill value, so a skipped chunk would come back as `0.0`.
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


def opened(store: Path, group: Path, name: str, digest: str) -> "zarr.Array":
    """An array of a group, to be read, once its bytes are those that were written.

    Raises:
        StoreError: if they are not.
    """
    import zarr

    verify(store, group, name, digest)
    return zarr.open_array(group / name, mode="r", zarr_format=3)


def verify(store: Path, group: Path, name: str, digest: str) -> None:
    """Compares an array's files with the digest taken when they were written.

    Raises:
        StoreError: if a bit flipped, a chunk was cut short or is missing, or something
            is a link.
    """
    refuse_links(store, group / name)
    try:
        found = tree_digest(group / name)
    except OSError as error:
        raise StoreError(
            f"The array `{name}` of `{group}` cannot be read: {error.strerror}; {OPEN}"
        ) from error
    if found != digest:
        raise StoreError(
            f"The array `{name}` of `{group}` is damaged: bytes are missing or not "
            "those that were written. Restore it from a copy, or run again."
        )


def _chunks(array: np.ndarray, dims: tuple[str, ...]) -> tuple[int, ...]:
    shape = [max(1, size) for size in array.shape]
    if TIME in dims:
        axis = dims.index(TIME)
        frame = array.itemsize * math.prod(shape) // shape[axis]
        shape[axis] = min(shape[axis], max(1, _CHUNK // frame))
    return tuple(shape)
