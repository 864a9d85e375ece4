"""The plugins of a run: known by name and digest, and run if the user has given them.

A plugin is code, and is run. A run records the path and the SHA-256 of each, so that
what goes on with it runs the same code again, or none. The record may be a stranger's:
what is run is a file that the user gives now, or has given before.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from meanfield._trusted_plugins import trusted_places
from meanfield.errors import InputFileError, StoreError
from meanfield.storage.digests import (
    check_none_new,
    check_unchanged,
    digests_by_name,
    missing_digests,
    sha256,
)

OWNER = "run"
_DIGESTS, _PATHS = "plugins", "plugin_paths"


def texts(record: object, group: str) -> dict[str, str]:
    """A group of what a run recorded of its files: texts by their names.

    Raises:
        StoreError: if it is no such thing.
    """
    digests = record.get(group, {}) if isinstance(record, Mapping) else None
    if isinstance(digests, dict) and all(isinstance(v, str) for v in digests.values()):
        return digests
    raise StoreError(
        f"The digests of `{group}` in the record of the run are none; restore the "
        "record from a copy, or begin a new run."
    )


def plugins_as_recorded(plugins: Sequence[Path]) -> dict[str, dict[str, str]]:
    """What a run records of its plugins: their digests and absolute paths, by name.

    Raises:
        InputFileError: if one cannot be read.
        InvalidInputError: if two have one name.
    """
    digests = digests_by_name(plugins, owner=OWNER)
    paths = {path.name: str(path.absolute()) for path in plugins}
    return {_DIGESTS: digests, _PATHS: paths}


def completed_plugins(record: object, files: Sequence[Path]) -> list[Path]:
    """The files that are given, and for all other recorded plugins those given before.

    Args:
        record: the `inputs` of a run; one of an older version is believed.
        files: what the user names, in place of recorded ones too.

    Raises:
        InputFileError: naming a plugin that has changed, or that was never given.
        StoreError: if what was recorded is no such thing.
    """
    if record is None:
        return list(files)
    missing = missing_plugins(record, files).items()
    return [*files, *(_given_before(name, digest) for name, digest in missing)]


def refuse_missing_plugins(record: object, plugins: Sequence[Path]) -> None:
    """Refuses to go on without a plugin that a run began with.

    Raises:
        InputFileError: naming the plugin, and saying whether it has changed.
        StoreError: if what was recorded is no such thing.
    """
    for name, digest in missing_plugins(record, plugins).items():
        raise InputFileError(_lacking(name, digest))


def refuse_new_plugins(record: object, plugins: Sequence[Path]) -> None:
    """Refuses plugins that a run did not begin with.

    Raises:
        InputFileError: naming the first.
        StoreError: if what was recorded is no such thing.
    """
    check_none_new(texts(record, _DIGESTS), plugins, owner=OWNER)


def _given_before(name: str, digest: str) -> Path:
    """The user's own file with the digest of a recorded plugin.

    Raises:
        InputFileError: if there is none, or it has changed.
    """
    digests = {p: sha256(p) for p in trusted_places(digest) if p.is_file()}
    for path, found in digests.items():
        if found == digest:
            return path
    if not digests:
        raise InputFileError(_lacking(name, digest))
    check_unchanged(name, digest, next(iter(digests.values())), owner=OWNER)
    raise AssertionError  # it has changed


def missing_plugins(record: object, files: Sequence[Path]) -> dict[str, str]:
    """The digests of recorded plugins that are not among the given files.

    Raises:
        InputFileError: if one of them has the name of such a plugin: it has changed.
    """
    return missing_digests(texts(record, _DIGESTS), files, owner=OWNER)


def _lacking(name: str, digest: str) -> str:
    return (
        f"The run was begun with the plugin `{name}` (SHA-256 {digest[:12]}…): code, "
        "and none that you have run before; read it, and give it by `--plugin FILE.py`."
    )
