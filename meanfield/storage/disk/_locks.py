"""Locks on files: held by one process alone, until released, closed or killed."""

import contextlib
import fcntl
import io
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

from meanfield._writing import writing
from meanfield.errors import StoreError

_MAKING = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_LOOKING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class Lock:
    """A lock that an interrupt between any two instructions leaves held or free.

    An opened file belongs to this object before it is locked, and closing a file twice
    does nothing: `release` frees whatever an interrupted `acquire` or `release` left.

    Args:
        path: of the file that stands for the lock; it is made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: io.FileIO | None = None

    @property
    def is_in_place(self) -> bool:
        """Whether the file that is locked is still the one at `path`."""
        try:
            return self._file is not None and os.path.samestat(
                os.fstat(self._file.fileno()), self.path.lstat()
            )
        except OSError:
            return False

    def acquire(self) -> None:
        """Takes the lock; harmless if it is held already.

        Raises:
            StoreError: if another process, or another object, holds it.
            ResourceError: if the file cannot be written, or its file system has no
                locks.
        """
        with writing(self.path):
            if self._file is None:
                self._file = _opened(self.path, _MAKING)
                weakref.finalize(self, self._file.close)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self.release()
                raise StoreError(
                    f"`{self.path.parent}` is being written by another process; "
                    "wait until it ends, or stop it."
                ) from error
            except OSError:
                self.release()
                raise

    def release(self) -> None:
        """Lets others in; harmless if the lock is not held."""
        if self._file is not None:
            self._file.close()
            self._file = None


@contextlib.contextmanager
def taken(path: Path) -> Iterator[None]:
    """Holds the lock on a file that is there, for the length of a block.

    Raises:
        OSError: if another process holds it, there is no such file, or its file system
            has no locks.
    """
    with _opened(path, _LOOKING) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _opened(path: Path, flags: int) -> io.FileIO:
    mode = "r+" if flags & os.O_RDWR else "r"
    return io.FileIO(path, mode, opener=lambda name, _: os.open(name, flags, 0o666))
