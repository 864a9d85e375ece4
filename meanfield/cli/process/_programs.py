"""The folder of compiled programs: the user's alone, of bounded size, and whole.

What lies there is native code, and is run. JAX writes an entry in place, so that a
killed process leaves it torn, and hands whatever it finds to the compiler's loader. So
entries are written beside their place and digested together with their keys: one that
is not what was written under its key is compiled anew.

JAX's own bound of the size needs a further package, takes a lock at every look-up and
looks at all entries at every write.
"""

import contextlib
import hashlib
import importlib
import os
import re
import tempfile
import time
from pathlib import Path

from meanfield._user_folders import exposed_part, make_private, user_folder
from meanfield.cli.terminal._output import note

MOST = 1 << 30  # bytes: about fifty thousand programs
KEPT = 0.8  # the share of them that a cut leaves
SELDOM = 3600.0  # seconds between two looks at the folder
SWITCH = "JAX_ENABLE_COMPILATION_CACHE"  # children inherit it
_OFF = ("0", "false", "f", "n", "no", "off")
_STAMP = ".looked-at"
_PROGRAM = "-program"
_ENTRY = re.compile(r".+-(program|cache|atime)")  # the latter two are of older versions
_DIGEST = 32  # bytes


class Programs:
    """Compiled programs by their keys, as JAX asks for them and hands them over.

    Neither raises: what cannot be read is compiled, and what cannot be written is
    compiled again the next time.

    Args:
        folder: where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder  # JAX looks for it under this name

    def get(self, key: str) -> bytes | None:
        """The program that was written under a key; none if it is not whole."""
        entry = self._path / f"{key}{_PROGRAM}"
        try:
            content = entry.read_bytes() if entry.is_file() else b""
        except OSError:
            return None
        digest, program = content[:_DIGEST], content[_DIGEST:]
        return program if digest == _digest(key, program) else None

    def put(self, key: str, value: bytes) -> None:
        """Writes a program, whole or not at all."""
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


def keep_programs(folder: Path) -> None:
    """Has JAX keep compiled programs in a folder."""
    import jax

    cache = vars(importlib.import_module("jax._src.compilation_cache"))
    cache["get_file_cache"] = lambda path: (Programs(Path(path)), path)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def cache_folder() -> Path | None:
    """Where compiled programs are kept, in `XDG_CACHE_HOME`, if that is safe.

    A folder that other users can write to is told in a line, once for a command.
    """
    base = user_folder("XDG_CACHE_HOME", ".cache")
    if base is None or os.environ.get(SWITCH, "").lower() in _OFF:
        return None
    folder = base / "compiled"
    try:
        make_private(folder)
        part = exposed_part(folder)
    except OSError:
        return None
    if part is not None:
        note(
            f"compiled programs are not kept, for other users can write to `{part}`; "
            f"remove `{base}`, and `chmod go-w` what is yours above it"
        )
        os.environ[SWITCH] = "false"
        return None
    return folder.resolve() if os.access(folder, os.W_OK) else None


def prune(folder: Path, limit: int = MOST) -> None:
    """Removes the entries longest not read, once there is more than `limit` bytes.

    A file system that keeps no time of reading has them go by when they were written.
    """
    stamp = folder / _STAMP
    with contextlib.suppress(OSError):  # another process may do the same
        if stamp.exists() and time.time() - stamp.stat().st_mtime < SELDOM:
            return
        stamp.touch()
        entries = sorted(_sizes(folder), reverse=True)
        total = sum(size for _, size, _ in entries)
        if total <= limit:
            return
        while entries and total > KEPT * limit:
            _, size, path = entries.pop()
            path.unlink(missing_ok=True)
            total -= size


def _sizes(folder: Path) -> list[tuple[float, int, Path]]:
    """The time of the last use, the size and the place of each entry."""
    with os.scandir(folder) as entries:
        ours = [(Path(e), e.stat()) for e in entries if _ENTRY.fullmatch(e.name)]
    return [(max(s.st_atime, s.st_mtime), s.st_size, path) for path, s in ours]


def _digest(key: str, program: bytes) -> bytes:
    return hashlib.blake2b(key.encode() + b"\0" + program, digest_size=_DIGEST).digest()
