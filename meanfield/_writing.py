"""Checks for output files, with one-line error messages."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import InvalidInputError, ResourceError

_HEAD = 1000  # the generator tag of a page lies within this many bytes of its start


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Context manager that turns an `OSError` in writing `path` into a one-line error.

    Raises:
        ResourceError: if `path` cannot be written, as when the disk is full.
    """
    try:
        yield
    except OSError as error:
        if not path.parent.is_dir():
            raise _unwritable(path, _homeless(path)) from error
        raise _unwritable(path, error.strerror or str(error)) from error


def check_absent(file: Path) -> None:
    """Raises if `file` exists, so that it is not overwritten.

    Raises:
        InvalidInputError: if `file` exists.
    """
    if file.exists():
        raise InvalidInputError(
            f"`{file}` exists: add --force to replace it, or name another file."
        )


def check_page(file: Path, command: str) -> None:
    """Raises if `file` exists but was not written by `command`.

    A command replaces only its own pages.

    Raises:
        InvalidInputError: if `file` exists and is not a page of this command.
    """
    if not file.is_file():
        return
    with file.open("rb") as stream:
        head = stream.read(_HEAD)
    if head and f'content="meanfield {command}"'.encode() not in head:
        raise InvalidInputError(
            f"`{file}` was not written by `meanfield {command}`, so it is not "
            "overwritten: name another file with `--out`, or remove this one."
        )


def check_writable(file: Path) -> None:
    """Raises if `file` cannot be written, before a long computation starts.

    Raises:
        ResourceError: if it cannot be written.
    """
    place = Path(os.path.realpath(file))
    if place.is_dir():
        raise _unwritable(file, "it is a folder")
    if not place.parent.is_dir():
        raise _unwritable(file, _homeless(file))
    is_replaced = place.is_file() or not place.exists()  # devices are not replaced
    if not os.access(place.parent if is_replaced else place, os.W_OK):
        raise _unwritable(file, "permission denied")


def _homeless(path: Path) -> str:
    return f"there is no folder `{path.parent}`; make it first"


def _unwritable(path: Path, reason: str) -> ResourceError:
    return ResourceError(
        f"`{path}` cannot be written: {reason}. Complete output is kept; free space on "
        "the disk, or choose a folder to which you can write."
    )
