"""The folder of compiled programs: of bounded size, and rid of what cannot be read.

JAX writes an entry in place, so that a killed process leaves it torn, and never writes
over one: unless it goes, a torn entry is compiled again at every start. JAX's own bound
needs a further package, takes a lock at every look-up and looks at all entries at every
write.
"""

import contextlib
import os
import re
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

MOST = 1 << 30  # bytes: about fifty thousand programs
KEPT = 0.8  # the share of them that a cut leaves
SELDOM = 3600.0  # seconds between two looks at the folder
_STAMP = ".looked-at"
_ENTRY = re.compile(r".+-(cache|atime)")
_UNREADABLE = re.compile("Error reading persistent compilation cache entry for '(.+?)'")
_ZLIB = b"\x78"

Show = Callable[..., None]


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


def heal(folder: Path) -> None:
    """Has entries removed that JAX says it cannot read; it then writes them anew."""
    show = warnings.showwarning

    def healing(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        match = _UNREADABLE.match(str(message))
        if match is None:
            show(message, category, filename, lineno, file, line)
        else:
            remove_torn(folder, match[1])

    warnings.showwarning = healing


def remove_torn(folder: Path, program: str) -> None:
    """Removes the torn entries of a program, or all where none can be told."""
    entries = list(folder.glob(f"{program}-*-cache"))
    for path in [path for path in entries if _is_torn(path)] or entries:
        path.unlink(missing_ok=True)


def _sizes(folder: Path) -> list[tuple[float, int, Path]]:
    """The time of the last use, the size and the place of each entry."""
    with os.scandir(folder) as entries:
        ours = [(Path(e), e.stat()) for e in entries if _ENTRY.fullmatch(e.name)]
    return [(max(s.st_atime, s.st_mtime), s.st_size, path) for path, s in ours]


def _is_torn(path: Path) -> bool:
    """Whether an entry ends before its time; what is packed otherwise is not told."""
    content = path.read_bytes()
    if not content.startswith(_ZLIB):
        return not content
    try:
        zlib.decompress(content)
    except zlib.error:
        return True
    return False
