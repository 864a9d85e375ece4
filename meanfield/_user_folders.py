"""The user's own folders, and whether other users can change what they hold."""

import os
import stat
from pathlib import Path


def user_folder(variable: str, default: str) -> Path | None:
    """The folder `meanfield` in one of the XDG base folders; `None` without a home.

    Args:
        variable: names the base, such as `XDG_CACHE_HOME`. A relative path is ignored,
            as the specification asks: it would lie in whatever folder one works in.
        default: the base in the home folder, if the variable is not set.
    """
    base = os.environ.get(variable, "")
    if Path(base).is_absolute():
        return Path(base) / "meanfield"
    try:
        return Path.home() / default / "meanfield"
    except RuntimeError:
        return None


def make_private(folder: Path) -> None:
    """Makes a folder, and those on the way to it, for this user alone.

    Raises:
        OSError: if the system refuses.
    """
    for place in (*reversed(folder.parents), folder):
        if not place.is_dir():
            place.mkdir(mode=0o700, exist_ok=True)


def exposed_part(path: Path) -> Path | None:
    """The part of a path through which another user can change what lies there.

    As OpenSSH asks of its files: the path and all folders above it belong to the user
    or to the system, and nobody else can write to them. Above it a folder may be open
    to all if each removes only files of their own, as in `/tmp`.

    Raises:
        OSError: if there is nothing at this path.
    """
    owners = {os.getuid(), 0, Path("/").stat().st_uid}
    real = path.resolve(strict=True)
    for place in (real, *real.parents):
        about = place.stat()
        is_sticky = place != real and bool(about.st_mode & stat.S_ISVTX)
        is_open = bool(about.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if about.st_uid not in owners or (is_open and not is_sticky):
            return place
    return None
