"""Reads committed arrays and checks them against their digests."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from meanfield.errors import StoreError

from ._places import segment_folder, static_folder
from ._record import Record
from ._segments import open_array
from ._stored_frames import StoredFrames


def read_static(folder: Path, record: Record) -> dict[str, np.ndarray]:
    """The arrays of a store that have no time axis.

    Raises:
        StoreError: if an array is damaged.
    """
    group = static_folder(folder)
    return {
        name: np.asarray(open_array(folder, group, name, digest)[...])
        for name, digest in record.static.items()
    }


def read_frame(folder: Path, record: Record, place: int) -> dict[str, np.ndarray]:
    """All variables at the frame `place` (-1 for the last one), without a time axis.

    Raises:
        StoreError: if there is no frame, or an array is damaged.
    """
    if not record.segments:
        raise StoreError(f"`{folder}` holds no frame yet; start the run again.")
    variables = (StoredFrames(folder, record, name) for name in record.variables)
    frame = range(record.frames)[place]
    return {variable.name: variable.frame(frame) for variable in variables}


def committed_arrays(folder: Path, record: Record) -> Iterator[tuple[Path, str, str]]:
    """The group, the name and the digest of each committed array."""
    groups = {static_folder(folder): record.static}
    for index, segment in enumerate(record.segments):
        groups[segment_folder(folder, index)] = segment.checksums
    for group, digests in groups.items():
        yield from ((group, name, digest) for name, digest in digests.items())
