"""Files that survive a power cut: flushed to the disk, and digested."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from meanfield._reading import OPEN
from meanfield.errors import InputFileError, StoreError

MEND = "Restore it from a copy, or run it again in another folder"
_BLOCK = 1 << 20  # bytes read at a time


def touch(path: Path) -> float:
    """Makes a file if there is none; the time, by the clock of the disk.

    Raises:
        StoreError: if a link is there.
        OSError: if it cannot be written.
    """
    flags = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(link_message(path)) from error
        raise
    try:
        os.utime(descriptor)
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


def flush(path: Path) -> None:
    """Waits until a file or a folder is on the disk itself."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Waits until all that a folder holds is on the disk."""
    for path in folder.rglob("*"):
        flush(path)
    flush(folder)


def tree_digest(folder: Path) -> str:
    """A digest of every file of a folder: its place, its length and its bytes.

    Hidden files are left out: editors and file systems drop such things anywhere.

    Raises:
        StoreError: if one is a link.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("[!.]*")):
        if path.is_symlink():
            raise StoreError(link_message(path))
        if not path.is_file():
            continue
        place = path.relative_to(folder).as_posix()
        digest.update(f"{place}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def json_digest(body: Mapping[str, object]) -> str:
    """A digest of JSON values, whatever the order of their keys."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def read_plain(path: Path) -> bytes:
    """The bytes of a file that is no link, and no pipe that would never end.

    Raises:
        StoreError: if it is anything but a plain file.
        OSError: if it cannot be read.
    """
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise StoreError(link_message(path))
    if not stat.S_ISREG(mode):
        raise StoreError(f"`{path}` is damaged: it is no plain file.")
    return path.read_bytes()


def sha256(path: Path) -> str:
    """The SHA-256 of a file.

    Raises:
        InputFileError: if it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InputFileError:
    """The error of a file that the system does not let us read."""
    return InputFileError(f"`{path}` cannot be read: {error.strerror}; {OPEN}")


def damaged(place: Path, why: str, mend: str = MEND) -> str:
    """What is said of something stored that is not what was written.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import damaged
        >>> print(damaged(Path("run.zarr"), "a digest differs").split(". ")[0])
        `run.zarr` is damaged: a digest differs
    """
    return f"`{place}` is damaged: {why}. {mend}."


def link_message(path: Path) -> str:
    """What is said of a link where a store should hold a file or a folder."""
    return f"`{path}` is a link, and a store holds none; put what it names there."
