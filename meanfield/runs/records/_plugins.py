"""The plugins of a run, identified by name and digest; only trusted ones are run.

A plugin is code that is executed. A run records the path and the SHA-256 of each
plugin, so that resuming it executes the same code or none. A record may come from a
stranger, so only files that the user names now, or has named before, are executed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from meanfield._trusted_plugins import trusted_paths
from meanfield.errors import InputFileError, StoreError
from meanfield.storage.digests import (
    check_all_recorded,
    check_unchanged,
    digests_by_name,
    missing_digests,
    sha256,
)

OWNER = "run"
_DIGESTS, _PATHS = "plugins", "plugin_paths"


def read_digests(record: object, group: str) -> dict[str, str]:
    """One group of recorded digests, by file name.

    Raises:
        StoreError: if the record is damaged.
    """
    digests = record.get(group, {}) if isinstance(record, Mapping) else None
    if isinstance(digests, dict) and all(isinstance(v, str) for v in digests.values()):
        return digests
    raise StoreError(
        f"The record of the run is damaged: its digests of `{group}` are not valid. "
        "Restore the record from a copy, or start a new run."
    )


def plugins_as_recorded(plugins: Sequence[Path]) -> dict[str, dict[str, str]]:
    """The digests and absolute paths of plugins, by name, for the record of a run.

    Raises:
        InputFileError: if a plugin cannot be read.
        InvalidInputError: if two plugins have the same name and different contents.
    """
    digests = digests_by_name(plugins, owner=OWNER)
    paths = {path.name: str(path.absolute()) for path in plugins}
    return {_DIGESTS: digests, _PATHS: paths}


def resolve_plugins(record: object, files: Sequence[Path]) -> list[Path]:
    """The plugins to load: `files`, and a trusted file for each other recorded plugin.

    Args:
        record: the `inputs` of a run; `None` if an older version stored it.
        files: plugins that the user names now; they replace recorded ones.

    Raises:
        InputFileError: if a plugin has changed, or this user has never loaded it.
        StoreError: if the record is damaged.
    """
    if record is None:
        return list(files)
    missing = missing_plugins(record, files).items()
    return [*files, *(_trusted_file(name, digest) for name, digest in missing)]


def check_no_missing_plugins(record: object, plugins: Sequence[Path]) -> None:
    """Checks that all recorded plugins are loaded and have not changed.

    Raises:
        InputFileError: if one has changed or is missing.
        StoreError: if the record is damaged.
    """
    for name, digest in missing_plugins(record, plugins).items():
        raise InputFileError(_missing_message(name, digest))


def check_no_new_plugins(record: object, plugins: Sequence[Path]) -> None:
    """Checks that all plugins are recorded.

    Raises:
        InputFileError: if a plugin is not recorded.
        StoreError: if the record is damaged.
    """
    check_all_recorded(read_digests(record, _DIGESTS), plugins, owner=OWNER)


def _trusted_file(name: str, digest: str) -> Path:
    """A file that the user has loaded before and that has the digest `digest`.

    Raises:
        InputFileError: if the user has loaded no such file, or it has changed.
    """
    digests = {p: sha256(p) for p in trusted_paths(digest) if p.is_file()}
    for path, actual in digests.items():
        if actual == digest:
            return path
    if not digests:
        raise InputFileError(_missing_message(name, digest))
    check_unchanged(name, digest, next(iter(digests.values())), owner=OWNER)
    raise AssertionError  # unreachable, since `check_unchanged` raises


def missing_plugins(record: object, files: Sequence[Path]) -> dict[str, str]:
    """The digests of recorded plugins that are not among `files`, by name.

    Raises:
        InputFileError: if a file has the name of a recorded plugin, but other content.
    """
    return missing_digests(read_digests(record, _DIGESTS), files, owner=OWNER)


def _missing_message(name: str, digest: str) -> str:
    return (
        f"The run began with the plugin `{name}` (SHA-256 {digest[:12]}…), whose code "
        "you have not run before; read it, then pass the file with `--plugin FILE.py`."
    )
