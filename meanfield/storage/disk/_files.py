"""Flushes files to disk, and computes their digests."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from meanfield._reading import OPEN
from meanfield.errors import InputFileError, StoreError

REMEDY = "Restore it from a copy, or run it again in another folder"
_BLOCK = 1 << 20  # number of bytes that are read at a time


def touch(path: Path) -> float:
    """Creates or touches a file; returns its modification time by the disk's clock.

    Raises:
        StoreError: if it is a link.
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
    """Waits until a file or a folder is on disk (`fsync`)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Waits until a folder and everything in it are on disk."""
    for path in folder.rglob("*"):
        flush(path)
    flush(folder)


def tree_digest(folder: Path) -> str:
    """A digest of all files in a folder: their relative paths, lengths and bytes.

    Hidden files are left out, since editors and file systems may add some.

    Raises:
        StoreError: if a file or a folder is a link.
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
    """A digest of JSON values that does not depend on the order of keys."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def read_plain(path: Path) -> bytes:
    """The bytes of a regular file; links and pipes are not read.

    Raises:
        StoreError: if it is not a regular file.
        OSError: if it cannot be read.
    """
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise StoreError(link_message(path))
    if not stat.S_ISREG(mode):
        raise StoreError(f"`{path}` is damaged: it is not a regular file.")
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
        raise unreadable_error(path, error) from error


def unreadable_error(path: Path, error: OSError) -> InputFileError:
    """The error for a file that the system cannot read."""
    return InputFileError(f"`{path}` cannot be read: {error.strerror}; {OPEN}")


def damage_message(place: Path, reason: str, remedy: str = REMEDY) -> str:
    """The error message for a damaged stored file or folder.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import damage_message
        >>> print(damage_message(Path("run.zarr"), "a digest differs").split(". ")[0])
        `run.zarr` is damaged: a digest differs
    """
    return f"`{place}` is damaged: {reason}. {remedy}."


def link_message(path: Path) -> str:
    """The error message for a link in a store."""
    return f"`{path}` is a link, which a store cannot hold; replace it by its target."
