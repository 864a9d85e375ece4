"""What stores write, told from what others put among it: nothing else is removed."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Contents(NamedTuple):
    """The places, relative to a folder, of all that one of ours may hold."""

    files: re.Pattern[str]
    folders: re.Pattern[str]


DRAFT = r"\.meanfield-draft-[0-9a-f]{16}"  # how the names of drafts end

_PARTIAL = r"\.[0-9a-f]{32}\.partial"  # how those of zarr's unfinished files do
_ZARR = rf"zarr(\.json|{_PARTIAL})"
_ARRAY_FILES = rf"(\w+/)?{_ZARR}|\w+/c(/\d+)*({_PARTIAL})?"
_ARRAY_FOLDERS = r"\w+(/c(/\d+)*)?"

ARRAYS = Contents(re.compile(_ARRAY_FILES), re.compile(_ARRAY_FOLDERS))
NEW_STORE = Contents(
    re.compile(
        rf"\.lock|(commit|sweep)\.json|\.(commit|sweep)\.json{DRAFT}|todo/\d+"
        rf"|data/(segments/)?{_ZARR}|data/static/({_ARRAY_FILES})"
    ),
    re.compile(rf"data|todo|claimed|done|data/(segments|static(/{_ARRAY_FOLDERS})?)"),
)


def strangers(folder: Path, ours: Contents) -> Iterator[Path]:
    """What a folder holds, at any depth, that is not ours; links never are."""
    for place, folders, files in os.walk(folder):
        for names, pattern in ((folders, ours.folders), (files, ours.files)):
            for path in (Path(place, name) for name in names):
                part = path.relative_to(folder).as_posix()
                if path.is_symlink() or not pattern.fullmatch(part):
                    yield path


def names_at(path: Path) -> list[str]:
    """The names in a folder; an empty name for a file; none where there is nothing."""
    if path.is_dir():
        return [entry.name for entry in path.iterdir()]
    return [""] if path.exists() else []
