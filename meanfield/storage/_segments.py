"""A segment on disk: a zarr group that is written once and never touched again."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from meanfield.errors import StoreError

from ._files import flush_tree, tree_digest
from ._schema import TIME

_CHUNK = 1 << 26  # bytes: a chunk holds whole frames, as many as fit, one at least


def static_folder(folder: Path) -> Path:
    """The group of a store's arrays without a time axis."""
    return folder / "data" / "static"


def segment_folder(folder: Path, index: int) -> Path:
    """The group of a store's segment."""
    return folder / "data" / "segments" / f"{index:05d}"


def write_hierarchy(folder: Path) -> None:
    """Writes the groups above the segments, so that plain zarr can walk the tree."""
    import zarr  # 0.3 s, and a run that writes nothing needs none of it

    segments = segment_folder(folder, 0).parent
    for group in (segments.parent, segments):
        zarr.open_group(group, mode="w-", zarr_format=3)


def clear_from(folder: Path, index: int) -> None:
    """Removes the segments from `index` on: what a killed writer never committed."""
    for place in segment_folder(folder, index).parent.iterdir():
        if place.name.isdigit() and int(place.name) >= index:
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


def read_array(folder: Path, name: str, digest: str) -> np.ndarray:
    """An array of a group, once its bytes are those that were written.

    Raises:
        StoreError: if they are not.
    """
    import zarr

    verify(folder, name, digest)
    return np.asarray(zarr.open_array(folder / name, mode="r", zarr_format=3)[...])


def verify(folder: Path, name: str, digest: str) -> None:
    """Compares an array's files with the digest taken when they were written.

    Raises:
        StoreError: if a bit flipped, or a chunk was cut short or is missing.
    """
    try:
        found = tree_digest(folder / name)
    except OSError as error:
        raise StoreError(
            f"The array `{name}` of `{folder}` cannot be read: {error.strerror}."
        ) from error
    if found != digest:
        raise StoreError(
            f"The array `{name}` of `{folder}` is damaged: bytes are missing or not "
            "those that were written. Restore it from a copy, or run again."
        )


def _chunks(array: np.ndarray, dims: tuple[str, ...]) -> tuple[int, ...]:
    shape = [max(1, size) for size in array.shape]
    if TIME in dims:
        axis = dims.index(TIME)
        frame = array.itemsize * math.prod(shape) // shape[axis]
        shape[axis] = min(shape[axis], max(1, _CHUNK // frame))
    return tuple(shape)
