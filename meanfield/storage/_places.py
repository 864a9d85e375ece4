"""Where the parts of a store lie: inside it, reached through no link."""

import os
from collections.abc import Iterable
from pathlib import Path

from meanfield.errors import StoreError

from .disk import link_message


def static_folder(folder: Path) -> Path:
    """The group of a store's arrays without a time axis."""
    return folder / "data" / "static"


def segment_folder(folder: Path, index: int) -> Path:
    """The group of a store's segment."""
    return folder / "data" / "segments" / f"{index:05d}"


def refuse_links(folder: Path, place: Path) -> None:
    """Refuses a place in a store that is reached through a link.

    Raises:
        StoreError: naming the link.
    """
    part = folder
    for name in place.relative_to(folder).parts:
        part = part / name
        if part.is_symlink():
            raise StoreError(link_message(part))


def refuse_losses(folder: Path, count: int) -> None:
    """Refuses to write to a store that has lost one of its first `count` segments.

    Raises:
        StoreError: naming the first of its places that is gone, or is a link.
    """
    segments = segment_folder(folder, 0).parent
    for place in (static_folder(folder), segments):
        refuse_links(folder, place)
        if not place.is_dir():
            raise StoreError(_lost(folder, place))
    with os.scandir(segments) as entries:
        names = {e.name for e in entries if e.is_dir(follow_symlinks=False)}
    for index in range(count):
        place = segment_folder(folder, index)
        if place.name not in names:
            refuse_links(folder, place)
            raise StoreError(_lost(folder, place))


def refuse_lost_arrays(folder: Path, places: Iterable[Path]) -> None:
    """Refuses to end a run whose store has lost an array.

    Raises:
        StoreError: naming the first array that is gone.
    """
    for place in places:
        if not (place / "zarr.json").is_file():
            raise StoreError(_lost(folder, place))


def _lost(folder: Path, place: Path) -> str:
    return (
        f"`{place}` is gone: it was removed or moved while the run was written. Put it "
        f"back and `meanfield resume {folder}`, or run again."
    )
