"""The list of plugins that this user has run before, kept outside any run.

A stored run names its plugins by path and digest. Both were written by the creator of
the run, so neither shows that this user trusts the file. Only this list does:
`--plugin FILE.py` adds the digest and path of the file, in the format of `sha256sum`. A
resumed run loads plugins from this list, never a file that only the run names.
"""

import contextlib
import os
from pathlib import Path

from ._user_folders import find_insecure_part, make_private, user_folder
from .errors import InputFileError

_LIST = "plugins.sha256"
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def trusted_paths(digest: str) -> list[Path]:
    """Paths of the user's plugins with this digest, most recent first.

    Raises:
        InputFileError: if other users can change the list, which is then not trusted.
    """
    file = _list()
    if file is None or not file.exists():
        return []
    if (part := find_insecure_part(file)) is not None:
        raise InputFileError(
            f"`{file}`, the list of your plugins, cannot be trusted, since other users "
            f"can change `{part}`; allow only yourself to write to it, or name each "
            "plugin with `--plugin`."
        )
    lines = [line.partition(b"  ") for line in file.read_bytes().splitlines()]
    places = [
        Path(os.fsdecode(place)) for key, _, place in lines if key == digest.encode()
    ]
    return places[::-1]


def trust_plugin(file: Path, digest: str) -> None:
    """Adds a plugin file to the list, if the list can be written."""
    place, target = os.fsencode(file.resolve()), _list()
    if target is None or b"\n" in place:
        return
    with contextlib.suppress(OSError, InputFileError):  # a missing entry does no harm
        if file.resolve() in trusted_paths(digest):
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
