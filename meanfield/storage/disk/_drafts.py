"""Atomic writes through drafts, and removal of drafts left behind by killed writers.

A writer holds a lock on its draft (on a file in it, if the draft is a folder) for as
long as the draft exists. A draft whose lock is free has therefore lost its writer.
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from meanfield._writing import writing
from meanfield.errors import ResourceError, StoreError

from ._contents import DRAFT, NEW_STORE, foreign_paths
from ._files import flush
from ._locks import Lock, hold_lock

LOCK = ".lock"
_OLD = 3600.0  # seconds after which a draft folder without a lock counts as abandoned


def replace_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Atomically replaces the contents of `path` with the bytes that `write` writes.

    Drafts of this file that were left behind by killed writers are removed.

    Raises:
        ResourceError: if it cannot be written; the old file is then left unchanged.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import replace_file
        >>> replace_file(
        ...     Path("note.txt"), lambda file: file.write(b"whole, or not at all")
        ... )
        >>> Path("note.txt").read_bytes()
        b'whole, or not at all'
    """
    with writing(path):
        clear_drafts(path.parent, re.escape(path.name))
    place_file(path, write)


def place_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Atomically replaces the file `path`, without removing old drafts in its folder.

    This is faster than `replace_file` in a folder with many files.

    Raises:
        ResourceError: if it cannot be written; the old file is then left unchanged.
    """
    with writing(path):
        stream = _draft_file(path)
        draft = Path(stream.name)
        try:
            with stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
                draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        flush(path.parent)


def place_folder(target: Path, fill: Callable[[Path], object]) -> Lock:
    """Creates the folder `target` atomically, with the content that `fill` writes.

    Returns:
        the lock in the folder, which was taken before the folder became visible.

    Raises:
        OSError: if it cannot be written, or `target` is a folder that is not empty.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    clear_drafts(target.parent)
    draft, lock = draft_folder(target)
    try:
        fill(draft)
        draft.replace(target)
        flush(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    lock.path = target / LOCK
    return lock


def draft_folder(target: Path) -> tuple[Path, Lock]:
    """A new folder next to `target`, later renamed to `target`, and the lock in it.

    If the file system has no locks, the lock is not held; `clear_drafts` then spares
    the draft while it is young.
    """
    while True:
        draft = _draft(target)
        lock = Lock(draft / LOCK)
        try:
            draft.mkdir()
            lock.acquire()
        except StoreError:
            continue  # another process is removing the draft as abandoned
        except ResourceError:
            return draft, lock
        except BaseException:
            # After a signal, a draft without a lock file would remain for an hour.
            shutil.rmtree(draft, ignore_errors=True)
            raise
        if lock.is_in_place:
            return draft, lock


def clear_drafts(folder: Path, names: str = ".+") -> None:
    """Removes the drafts left in a folder by killed writers, and nothing else.

    Args:
        folder: the folder.
        names: a pattern of the names of the files and folders that were being written.
    """
    pattern = re.compile(rf"\.({names}){DRAFT}", re.DOTALL)
    with os.scandir(folder) as entries:
        drafts = [entry for entry in entries if pattern.fullmatch(entry.name)]
    for entry in drafts:
        with contextlib.suppress(OSError):  # the draft is in use or not removable
            _clear(entry)


def _clear(entry: os.DirEntry[str]) -> None:
    path, info = Path(entry.path), entry.stat(follow_symlinks=False)
    if info.st_uid != os.getuid():
        return
    if entry.is_file(follow_symlinks=False):
        with hold_lock(path):
            path.unlink()
    elif entry.is_dir(follow_symlinks=False):
        if (path / LOCK).exists():
            with hold_lock(path / LOCK):
                _remove(path)
        elif time.time() - info.st_mtime > _OLD:
            _remove(path)


def _remove(draft: Path) -> None:
    if next(foreign_paths(draft, NEW_STORE), None) is None:
        shutil.rmtree(draft)


def _draft_file(path: Path) -> IO[bytes]:
    """A new file next to `path`, locked if the file system has locks."""
    while True:
        stream = _draft(path).open("xb")
        with contextlib.suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        if Path(stream.name).exists():
            return stream
        stream.close()  # another process removed the draft as abandoned


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.meanfield-draft-{secrets.token_hex(8)}")
