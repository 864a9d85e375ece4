"""Checks for output files, with one-line error messages."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import InvalidInputError, ResourceError


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


def check_output(*files: Path, force: bool) -> None:
    """Raises unless all files can be written and, without `force`, are absent.

    Raises:
        InvalidInputError: if a file exists and `force` is false.
        ResourceError: if a file cannot be written.
    """
    for file in files:
        if not force:
            check_absent(file)
        check_writable(file)


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
