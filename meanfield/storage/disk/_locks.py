"""Locks on files, each held by one process until it releases the lock or ends."""

import contextlib
import fcntl
import io
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

from meanfield._writing import writing
from meanfield.errors import StoreError

_CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class Lock:
    """A lock on a file; a signal at any instruction does not make it inconsistent.

    The object owns the opened file before it is locked, and closing a file twice does
    nothing. So `release` cleans up after any interrupted `acquire` or `release`.

    Args:
        path: the file that stands for the lock; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: io.FileIO | None = None

    @property
    def is_in_place(self) -> bool:
        """Whether the locked file is still the one at `path`."""
        try:
            return self._file is not None and os.path.samestat(
                os.fstat(self._file.fileno()), self.path.lstat()
            )
        except OSError:
            return False

    def acquire(self) -> None:
        """Takes the lock; does nothing if this object holds it already.

        Raises:
            StoreError: if another process or another object holds it.
            ResourceError: if the file cannot be written, or its file system has no
                locks.
        """
        with writing(self.path):
            if self._file is None:
                self._file = _open_file(self.path, _CREATE_FLAGS)
                weakref.finalize(self, self._file.close)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self.release()
                raise StoreError(
                    f"`{self.path.parent}` is being written by another process; "
                    "wait until that process ends, or stop it."
                ) from error
            except OSError:
                self.release()
                raise

    def release(self) -> None:
        """Releases the lock; does nothing if it is not held."""
        if self._file is not None:
            self._file.close()
            self._file = None


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Holds the lock on an existing file during a `with` block.

    Raises:
        OSError: if another process holds it, there is no such file, or its file system
            has no locks.
    """
    with _open_file(path, _READ_FLAGS) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _open_file(path: Path, flags: int) -> io.FileIO:
    mode = "r+" if flags & os.O_RDWR else "r"
    return io.FileIO(path, mode, opener=lambda name, _: os.open(name, flags, 0o666))
