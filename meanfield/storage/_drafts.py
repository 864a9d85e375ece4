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

from meanfield.errors import ResourceError, StoreError

from ._files import flush, writing
from ._locks import Lock, taken

LOCK = ".lock"
_DRAFT = re.compile(r"\..+\.draft-[0-9a-f]{8}", re.DOTALL)
_OURS = re.compile(
    r"\.lock|data|commit\.json|sweep\.json|todo|claimed|done|\..+\.draft-[0-9a-f]{8}"
)
_OLD = 3600.0  # seconds after which a folder without a lock has no writer


def replace_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Puts what `write` writes in the place of `path`, whole or not at all.

    Raises:
        ResourceError: if it cannot be written; the old file then stays.
    """
    with writing(path):
        clear_drafts(path.parent)
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


def draft_folder(target: Path) -> tuple[Path, Lock]:
    """A new folder beside `target` that is to become it, and the lock in it.

    Where the file system has no locks it is not held, and the draft safe while young.
    """
    while True:
        draft = _draft(target)
        draft.mkdir()
        lock = Lock(draft / LOCK)
        try:
            lock.acquire()
        except StoreError:
            continue  # another has just taken the draft for abandoned
        except ResourceError:
            return draft, lock
        if lock.is_in_place:
            return draft, lock


def clear_drafts(folder: Path) -> None:
    """Removes the drafts in a folder whose writers were killed, and nothing else."""
    with os.scandir(folder) as entries:
        drafts = [entry for entry in entries if _DRAFT.fullmatch(entry.name)]
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
        contents = os.listdir(path)  # noqa: PTH208 - names, of one folder
        if not all(map(_OURS.fullmatch, contents)):
            return
        if LOCK in contents:
            with taken(path / LOCK):
                shutil.rmtree(path)
        elif time.time() - about.st_mtime > _OLD:
            shutil.rmtree(path)


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
    return path.with_name(f".{path.name}.draft-{secrets.token_hex(4)}")
