"""Folders in the user's home, and checks that other users cannot change them."""

import os
import stat
from pathlib import Path


def user_folder(variable: str, default: str) -> Path | None:
    """The folder `meanfield` in an XDG base folder; `None` if the user has no home.

    Args:
        variable: environment variable of the base folder, such as `XDG_CACHE_HOME`. A
            relative path is ignored, as the XDG specification requires.
        default: the base folder, relative to the home, if the variable is not set.
    """
    base = os.environ.get(variable, "")
    if Path(base).is_absolute():
        return Path(base) / "meanfield"
    try:
        return Path.home() / default / "meanfield"
    except RuntimeError:
        return None


def make_private(folder: Path) -> None:
    """Creates a folder and its missing parents, accessible to this user only.

    Raises:
        OSError: if a folder cannot be created.
    """
    for place in (*reversed(folder.parents), folder):
        if not place.is_dir():
            place.mkdir(mode=0o700, exist_ok=True)


def find_insecure_part(path: Path) -> Path | None:
    """The innermost part of a path that other users can change; `None` if all are safe.

    The rule is that of OpenSSH: the path and all folders above it must belong to the
    user or to the system and must not be writable by anyone else. The exception is that
    folders above the path can be world-writable if they are sticky, like `/tmp`.

    Raises:
        OSError: if the path does not exist.
    """
    owners = {os.getuid(), 0, Path("/").stat().st_uid}
    real = path.resolve(strict=True)
    for place in (real, *real.parents):
        info = place.stat()
        is_sticky = place != real and bool(info.st_mode & stat.S_ISVTX)
        is_open = bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if info.st_uid not in owners or (is_open and not is_sticky):
            return place
    return None
