"""SHA-256 digests of files, as a run records them, and what has become of the files."""

from collections.abc import Mapping
from pathlib import Path

from meanfield.errors import InputFileError, StoreError
from meanfield.storage.disk import sha256 as sha256

Digests = dict[str, str]  # of files, by their names
Files = dict[str, Path]


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
