"""Files that survive a kill or a power cut: flushed, digested, replaced at once."""

import contextlib
import fcntl
import glob
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from meanfield.errors import ResourceError, StoreError

_BLOCK = 1 << 20  # bytes read at a time


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write below `path` into one line.

    Raises:
        ResourceError: if the disk is full, or a folder may not or cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ResourceError(
            f"`{path}` could not be written: {error.strerror or error}. What was "
            "complete is kept; free space, or choose a folder you may write to."
        ) from error


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


def draft_prefix(path: Path) -> str:
    """How the names of unfinished files begin that are to become `path`."""
    return f".{path.name}.draft-"


def replace_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Puts what `write` writes in the place of `path`, whole or not at all.

    Drafts that killed processes have left beside it are removed.

    Raises:
        ResourceError: if it cannot be written; the old file then stays.
    """
    with writing(path):
        _clear_drafts(path)
        with _draft(path) as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
            Path(stream.name).replace(path)
        flush(path.parent)


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path`, locked for as long as it is written, gone afterwards."""
    while True:
        draft = path.with_name(f"{draft_prefix(path)}{secrets.token_hex(4)}")
        with draft.open("xb") as stream:
            try:
                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(stream, fcntl.LOCK_EX)
                # Before it was locked, another process may have taken it for an orphan.
                if not draft.exists():
                    continue
                yield stream
            finally:
                draft.unlink(missing_ok=True)
        return


def _clear_drafts(path: Path) -> None:
    """Removes the drafts of `path` whose writers are gone: nobody holds their locks."""
    for draft in path.parent.glob(f"{glob.escape(draft_prefix(path))}*"):
        with contextlib.suppress(OSError), draft.open("r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if it is held
            draft.unlink()


def tree_digest(folder: Path) -> str:
    """A digest of every file of a folder: its place, its length and its bytes.

    Hidden files are left out: editors and file systems drop such things anywhere.
    """
    digest = hashlib.blake2b(digest_size=16)
    files = (path for path in folder.rglob("[!.]*") if path.is_file())
    for path in sorted(files):
        place = path.relative_to(folder).as_posix()
        digest.update(f"{place}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def lock(path: Path) -> int:
    """The descriptor of a lock that its process holds alone, until closed or killed.

    Raises:
        StoreError: if another writer holds it.
        ResourceError: if the file cannot be written, or its file system has no locks.
    """
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise StoreError(
                f"`{path.parent}` is being written by another process; "
                "wait until it ends, or stop it."
            ) from error
        except OSError:
            os.close(descriptor)
            raise
    return descriptor
