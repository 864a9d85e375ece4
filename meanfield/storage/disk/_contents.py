"""The names of files that stores write; files with other names are never removed."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Contents(NamedTuple):
    """Patterns of the relative paths of files and folders that we write."""

    files: re.Pattern[str]
    folders: re.Pattern[str]


DRAFT = r"\.meanfield-draft-[0-9a-f]{16}"  # the end of the name of a draft

_PARTIAL = r"\.[0-9a-f]{32}\.partial"  # end of the name of a file that zarr is writing
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


def foreign_paths(folder: Path, contents: Contents) -> Iterator[Path]:
    """The files and folders in a folder, at any depth, that we did not write.

    These include all links.
    """
    for place, folders, files in os.walk(folder):
        for names, pattern in ((folders, contents.folders), (files, contents.files)):
            for path in (Path(place, name) for name in names):
                part = path.relative_to(folder).as_posix()
                if path.is_symlink() or not pattern.fullmatch(part):
                    yield path


def names_at(path: Path) -> list[str]:
    """The names in a folder; `[""]` for a file, and `[]` if nothing is there."""
    if path.is_dir():
        return [entry.name for entry in path.iterdir()]
    return [""] if path.exists() else []
