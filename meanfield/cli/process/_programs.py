"""Cache of compiled programs: private to the user, bounded in size, with digests.

The entries are native code that is executed. JAX writes an entry in place, so a killed
process leaves a truncated file, and JAX loads whatever it finds. Here an entry is
written to a temporary file, which is renamed, and begins with a digest of its key and
content; if the digest does not match, the program is compiled again.

JAX's own size limit needs another package, takes a lock at every look-up and scans all
entries at every write.
"""

import contextlib
import hashlib
import importlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from meanfield._user_folders import find_insecure_part, make_private, user_folder
from meanfield.cli.terminal._output import note

MAX_BYTES = 1 << 30  # bytes, for about fifty thousand programs
KEEP_FRACTION = 0.8  # fraction of `MAX_BYTES` that pruning keeps
PRUNE_INTERVAL = 3600.0  # seconds between two scans of the folder
SWITCH = "JAX_ENABLE_COMPILATION_CACHE"  # variable that child processes inherit
_FALSE_VALUES = ("0", "false", "f", "n", "no", "off")
_PRUNE_STAMP = ".last-prune"
_PROGRAM = "-program"
# Older versions wrote entries whose names end in `-cache` and `-atime`.
_ENTRY = re.compile(r".+-(program|cache|atime)")
_DIGEST = 32  # length of a digest in bytes


class Programs:
    """Store of compiled programs by key, with the interface that JAX expects.

    Its methods never raise: a program that cannot be read or written is compiled again.

    Args:
        folder: folder of the entries.
    """

    is_paused: ClassVar = False  # whether all stores look empty and keep nothing

    def __init__(self, folder: Path) -> None:
        self._path = folder  # JAX reads this attribute, under this name

    def get(self, key: str) -> bytes | None:
        """The program stored under a key; `None` if it is missing or damaged."""
        if self.is_paused:
            return None
        entry = self._path / f"{key}{_PROGRAM}"
        try:
            content = entry.read_bytes() if entry.is_file() else b""
        except OSError:
            return None
        digest, program = content[:_DIGEST], content[_DIGEST:]
        return program if digest == _digest(key, program) else None

    def put(self, key: str, value: bytes) -> None:
        """Stores a program atomically."""
        if self.is_paused:
            return
        with contextlib.suppress(OSError):
            draft = tempfile.NamedTemporaryFile(  # noqa: SIM115 - it becomes the entry
                dir=self._path, suffix=_PROGRAM, delete=False
            )
            try:
                with draft:
                    draft.write(_digest(key, value) + value)
                Path(draft.name).replace(self._path / f"{key}{_PROGRAM}")
            finally:
                Path(draft.name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Context in which all stores look empty and keep nothing."""
        Programs.is_paused = True
        try:
            yield
        finally:
            Programs.is_paused = False


def keep_programs(folder: Path) -> None:
    """Makes JAX cache compiled programs in a folder."""
    import jax

    cache = vars(importlib.import_module("jax._src.compilation_cache"))
    cache["get_file_cache"] = lambda path: (Programs(Path(path)), path)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def cache_folder() -> Path | None:
    """The folder of compiled programs, in `XDG_CACHE_HOME`; `None` if it is unsafe.

    If other users can write to it, a note says so, once per command.
    """
    base = user_folder("XDG_CACHE_HOME", ".cache")
    if base is None or os.environ.get(SWITCH, "").lower() in _FALSE_VALUES:
        return None
    folder = base / "compiled"
    try:
        make_private(folder)
        part = find_insecure_part(folder)
    except OSError:
        return None
    if part is not None:
        note(
            f"compiled programs are not cached, because other users can write to "
            f"`{part}`; remove `{base}`, and `chmod go-w` your folders above it"
        )
        os.environ[SWITCH] = "false"
        return None
    return folder.resolve() if os.access(folder, os.W_OK) else None


def prune(folder: Path, limit: int = MAX_BYTES) -> None:
    """Removes the least recently read entries if they exceed `limit` bytes.

    On a file system without access times, the least recently written ones are removed.
    """
    stamp = folder / _PRUNE_STAMP
    with contextlib.suppress(OSError):  # another process may be pruning too
        if stamp.exists() and time.time() - stamp.stat().st_mtime < PRUNE_INTERVAL:
            return
        stamp.touch()
        entries = sorted(_sizes(folder), reverse=True)
        total = sum(size for _, size, _ in entries)
        if total <= limit:
            return
        while entries and total > KEEP_FRACTION * limit:
            _, size, path = entries.pop()
            path.unlink(missing_ok=True)
            total -= size


def _sizes(folder: Path) -> list[tuple[float, int, Path]]:
    """Time of the last use, size and path of each entry."""
    with os.scandir(folder) as entries:
        ours = [(Path(e), e.stat()) for e in entries if _ENTRY.fullmatch(e.name)]
    return [(max(s.st_atime, s.st_mtime), s.st_size, path) for path, s in ours]


def _digest(key: str, program: bytes) -> bytes:
    return hashlib.blake2b(key.encode() + b"\0" + program, digest_size=_DIGEST).digest()
