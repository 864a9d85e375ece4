"""The paths of the parts of a store, and checks that these paths contain no links."""

import os
from collections.abc import Iterable
from pathlib import Path

from meanfield.errors import StoreError

from .disk import link_message


def static_folder(folder: Path) -> Path:
    """The folder of a store that holds the arrays without a time axis."""
    return folder / "data" / "static"


def segment_folder(folder: Path, index: int) -> Path:
    """The folder of the segment `index` of a store."""
    return folder / "data" / "segments" / f"{index:05d}"


def check_no_links(folder: Path, place: Path) -> None:
    """Checks that a path in a store contains no link.

    Raises:
        StoreError: if it contains a link; the message names the link.
    """
    part = folder
    for name in place.relative_to(folder).parts:
        part = part / name
        if part.is_symlink():
            raise StoreError(link_message(part))


def check_segments(folder: Path, count: int) -> None:
    """Checks that a store still has its first `count` segments.

    Raises:
        StoreError: if a folder is gone or is a link; the message names it.
    """
    segments = segment_folder(folder, 0).parent
    for place in (static_folder(folder), segments):
        check_no_links(folder, place)
        if not place.is_dir():
            raise StoreError(_missing_message(folder, place))
    with os.scandir(segments) as entries:
        names = {e.name for e in entries if e.is_dir(follow_symlinks=False)}
    for index in range(count):
        place = segment_folder(folder, index)
        if place.name not in names:
            check_no_links(folder, place)
            raise StoreError(_missing_message(folder, place))


def check_arrays(folder: Path, places: Iterable[Path]) -> None:
    """Checks that a store still has all its arrays.

    Raises:
        StoreError: if an array is gone; the message names it.
    """
    for place in places:
        if not (place / "zarr.json").is_file():
            raise StoreError(_missing_message(folder, place))


def _missing_message(folder: Path, place: Path) -> str:
    return (
        f"`{place}` was removed or moved while the run was written. Put it back and "
        f"call `meanfield resume {folder}`, or start the run again."
    )
