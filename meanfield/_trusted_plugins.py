"""The plugins that the user has run before: a list of the user's own, outside any run.

A stored run names its plugins by path and digest, and whoever made the run wrote both.
So neither says that the user would run the file. This list does: `--plugin FILE.py`
adds the digest of a file that was run and the place where it lies, as `sha256sum`
prints them. A run goes on with the user's file, never with one that the run names.
"""

import contextlib
import os
from pathlib import Path

from ._user_folders import exposed_part, make_private, user_folder
from .errors import InputFileError

_LIST = "plugins.sha256"
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def trusted_places(digest: str) -> list[Path]:
    """Where files of this digest lay when the user gave them, the last one first.

    Raises:
        InputFileError: if other users can change the list, which then says nothing.
    """
    file = _list()
    if file is None or not file.exists():
        return []
    if (part := exposed_part(file)) is not None:
        raise InputFileError(
            f"Other users can change `{file}`, the list of your plugins, through "
            f"`{part}`; make it yours alone, or give each plugin by `--plugin`."
        )
    lines = [line.partition(b"  ") for line in file.read_bytes().splitlines()]
    places = [
        Path(os.fsdecode(place)) for key, _, place in lines if key == digest.encode()
    ]
    return places[::-1]


def trust_plugin(file: Path, digest: str) -> None:
    """Adds a file of the user's own to the list, if the list can be written."""
    place, target = os.fsencode(file.resolve()), _list()
    if target is None or b"\n" in place:
        return
    with contextlib.suppress(OSError, InputFileError):  # it is then asked for again
        if file.resolve() in trusted_places(digest):
            return
        make_private(target.parent)
        descriptor = os.open(target, _APPENDING, 0o600)
        try:
            os.write(descriptor, b"%s  %s\n" % (digest.encode(), place))
        finally:
            os.close(descriptor)


def _list() -> Path | None:
    folder = user_folder("XDG_DATA_HOME", ".local/share")
    return None if folder is None else folder / _LIST
