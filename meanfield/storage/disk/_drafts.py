"""Drafts: what takes its place in one step, and what killed writers left of such.

A writer holds a lock on its draft, or on a file in it if the draft is a folder, for as
long as the draft lies there. So a draft whose lock is free has lost its writer.
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

from ._contents import DRAFT, NEW_STORE, strangers
from ._files import flush
from ._locks import Lock, taken

LOCK = ".lock"
_OLD = 3600.0  # seconds after which a folder without a lock has no writer


def replace_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Puts what `write` writes in the place of `path`, whole or not at all.

    What killed writers of the same file have left goes, too.

    Raises:
        ResourceError: if it cannot be written; the old file then stays.

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
        _clear_drafts(path.parent, re.escape(path.name))
    place_file(path, write)


def place_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """The same for one file of many: it looks at no other file of the folder.

    Raises:
        ResourceError: if it cannot be written; the old file then stays.
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
    """Puts a new folder that `fill` fills in its place, whole or not at all.

    Returns:
        the lock in it, held since before it was there.

    Raises:
        OSError: if it cannot be written, or a folder with something in it is there.
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
    """A new folder beside `target` that is to become it, and the lock in it.

    Where the file system has no locks it is not held, and the draft safe while young.
    """
    while True:
        draft = _draft(target)
        lock = Lock(draft / LOCK)
        try:
            draft.mkdir()
            lock.acquire()
        except StoreError:
            continue  # another has just taken the draft for abandoned
        except ResourceError:
            return draft, lock
        except BaseException:  # a signal: nobody would dare to remove it while young
            shutil.rmtree(draft, ignore_errors=True)
            raise
        if lock.is_in_place:
            return draft, lock


def clear_drafts(folder: Path) -> None:
    """Removes the drafts in a folder whose writers were killed, and nothing else."""
    _clear_drafts(folder, ".+")


def _clear_drafts(folder: Path, names: str) -> None:
    """Those of the files and folders whose names match a pattern."""
    pattern = re.compile(rf"\.({names}){DRAFT}", re.DOTALL)
    with os.scandir(folder) as entries:
        drafts = [entry for entry in entries if pattern.fullmatch(entry.name)]
    for entry in drafts:
        with contextlib.suppress(OSError):  # it has a writer, or is not ours to remove
            _clear(entry)


def _clear(entry: os.DirEntry[str]) -> None:
    path, about = Path(entry.path), entry.stat(follow_symlinks=False)
    if about.st_uid != os.getuid():
        return
    if entry.is_file(follow_symlinks=False):
        with taken(path):
            path.unlink()
    elif entry.is_dir(follow_symlinks=False):
        if (path / LOCK).exists():
            with taken(path / LOCK):
                _remove(path)
        elif time.time() - about.st_mtime > _OLD:
            _remove(path)


def _remove(draft: Path) -> None:
    if next(strangers(draft, NEW_STORE), None) is None:
        shutil.rmtree(draft)


def _draft_file(path: Path) -> IO[bytes]:
    """A new file beside `path`, locked where the file system has locks."""
    while True:
        stream = _draft(path).open("xb")
        with contextlib.suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        if Path(stream.name).exists():
            return stream
        stream.close()  # another had just taken it for abandoned


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.meanfield-draft-{secrets.token_hex(8)}")
