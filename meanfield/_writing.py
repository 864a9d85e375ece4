"""Files and folders for others to read: what the system refuses is told in one line."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import InvalidInputError, ResourceError

_HEAD = 1000  # bytes of a page in which it says what wrote it


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write at or below `path` into one line.

    Raises:
        ResourceError: if the disk is full, or a folder may not or cannot be written.
    """
    try:
        yield
    except OSError as error:
        if not path.parent.is_dir():
            raise _unwritable(path, _homeless(path)) from error
        raise _unwritable(path, error.strerror or str(error)) from error


def check_absent(file: Path) -> None:
    """Keeps a file that exists.

    Raises:
        InvalidInputError: if there is one.
    """
    if file.exists():
        raise InvalidInputError(
            f"`{file}` exists: add --force to replace it, or name another file."
        )


def check_page(file: Path, command: str) -> None:
    """Keeps a file that is no page of this command, which alone replaces its own.

    Raises:
        InvalidInputError: if there is one.
    """
    if not file.is_file():
        return
    with file.open("rb") as stream:
        head = stream.read(_HEAD)
    if head and f'content="meanfield {command}"'.encode() not in head:
        raise InvalidInputError(
            f"`{file}` is no page of `meanfield {command}`, and is kept: name another "
            "by `--out`, or remove it."
        )


def check_writable(file: Path) -> None:
    """Lets a file that cannot be written fail before minutes of work, not after.

    Raises:
        ResourceError: if it cannot.
    """
    place = Path(os.path.realpath(file))
    if place.is_dir():
        raise _unwritable(file, "it is a folder")
    if not place.parent.is_dir():
        raise _unwritable(file, _homeless(file))
    is_replaced = place.is_file() or not place.exists()  # and else written as it is
    if not os.access(place.parent if is_replaced else place, os.W_OK):
        raise _unwritable(file, "permission denied")


def _homeless(path: Path) -> str:
    return f"there is no folder `{path.parent}`; make it first"


def _unwritable(path: Path, reason: str) -> ResourceError:
    return ResourceError(
        f"`{path}` cannot be written: {reason}. What was complete is kept; free space, "
        "or choose a place that you may write to."
    )
