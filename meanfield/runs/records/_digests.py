"""SHA-256 digests of files, as a run records them, and what has become of the files."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from meanfield._reading import OPEN
from meanfield.errors import InputFileError, StoreError

Digests = dict[str, str]  # of files, by their names
Files = dict[str, Path]


def sha256(path: Path) -> str:
    """The digest of a file.

    Raises:
        InputFileError: if it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputFileError(
            f"`{path}` cannot be read: {error.strerror}; {OPEN}"
        ) from error


def texts(record: object, group: str) -> Digests:
    """A group of what a run recorded of its files: texts by their names.

    Raises:
        StoreError: if it is no such thing.
    """
    digests = record.get(group, {}) if isinstance(record, Mapping) else None
    if isinstance(digests, dict) and all(isinstance(v, str) for v in digests.values()):
        return digests
    raise StoreError(
        f"The digests of `{group}` in the record of the run are none; restore the "
        "record from a copy, or begin a new run."
    )


def refuse_changed_file(name: str, old: str, new: str | None) -> None:
    """Refuses a file whose digest is another now, or which is gone.

    Raises:
        InputFileError: naming it.
    """
    if old != new:
        raise InputFileError(
            f"`{name}` is not what it was when the run began: its SHA-256 was "
            f"{old[:12]}… and is {(new or 'none')[:12]}…; restore it, or begin anew."
        )
