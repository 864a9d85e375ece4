"""The plugins of a run: known by name and digest, and run if the user has given them.

A plugin is code, and is run. A run records the path and the SHA-256 of each, so that
what goes on with it runs the same code again, or none. The record may be a stranger's:
what is run is a file that the user gives now, or has given before.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meanfield._trusted_plugins import trusted_places
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.runs.sweeps._store import SweepStore, is_sweep
from meanfield.storage import RunStore

from ._digests import Digests, Files, refuse_changed_file, sha256, texts

_DIGESTS, _PATHS = "plugins", "plugin_paths"


def plugins_as_recorded(plugins: Sequence[Path]) -> dict[str, Digests]:
    """What a run records of its plugins: their digests and absolute paths, by name.

    Raises:
        InputFileError: if one cannot be read.
        InvalidInputError: if two have one name.
    """
    files = _by_name(plugins)
    return {
        _DIGESTS: {name: sha256(path) for name, path in files.items()},
        _PATHS: {name: str(path.absolute()) for name, path in files.items()},
    }


def plugins_of(path: Path, files: Sequence[Path] = ()) -> list[Path]:
    """The plugins to load before one goes on with a run or a sweep.

    They are those given, and for all others that it began with files that the user has
    given before. No file is run because the record names it.

    Args:
        path: the folder of the run or of the sweep.
        files: what the user names, in place of recorded ones too.

    Raises:
        InputFileError: naming a plugin that has changed, or that was never given.
        StoreError: if what was recorded is no such thing.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> _ = runs.execute(spec.parse({"n": 5, "t": 0.1}), out=Path("run.zarr"))
        >>> runs.plugins_of(Path("run.zarr"))
        []
    """
    return _completed(_record(path).get("inputs"), files)


def refuse_changed_plugins(path: Path, files: Sequence[Path]) -> None:
    """Refuses files that have the name of a recorded plugin, but not its content.

    Raises:
        InputFileError: naming the plugin.
        StoreError: if what was recorded is no such thing.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> _ = runs.execute(spec.parse({"n": 5, "t": 0.1}), out=Path("run.zarr"))
        >>> runs.refuse_changed_plugins(Path("run.zarr"), [])  # none was recorded
    """
    record = _record(path).get("inputs")
    if record is not None:
        _missing(record, files)


def refuse_missing_plugins(record: object, plugins: Sequence[Path]) -> None:
    """Refuses to go on without a plugin that a run began with.

    Raises:
        InputFileError: naming the plugin, and saying whether it has changed.
        StoreError: if what was recorded is no such thing.
    """
    for name, digest in _missing(record, plugins).items():
        raise InputFileError(_lacking(name, digest))


def refuse_new_plugins(record: object, plugins: Sequence[Path]) -> None:
    """Refuses plugins that a run did not begin with.

    Raises:
        InputFileError: naming the first.
        StoreError: if what was recorded is no such thing.
    """
    digests = texts(record, _DIGESTS).values()
    for path in plugins:
        if sha256(path) not in digests:
            raise InputFileError(
                f"The run was begun without the plugin `{path.name}`; leave it out."
            )


def _record(path: Path) -> Mapping[str, Any]:
    sweep = is_sweep(path)
    return SweepStore.open(path).record if sweep else RunStore.open(path).attrs


def _completed(record: object, files: Sequence[Path]) -> list[Path]:
    if record is None:  # a run of an older version is believed
        return list(files)
    missing = _missing(record, files).items()
    return [*files, *(_given_before(name, digest) for name, digest in missing)]


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
    refuse_changed_file(name, digest, next(iter(digests.values())))
    raise AssertionError  # it has changed


def _missing(record: object, files: Sequence[Path]) -> Digests:
    """The digests of recorded plugins that are not among the given files.

    Raises:
        InputFileError: if one of them has the name of such a plugin: it has changed.
    """
    pairs = [(path.name, sha256(path)) for path in files]
    contents = {digest for _, digest in pairs}
    digests = texts(record, _DIGESTS)
    missing = {n: old for n, old in digests.items() if old not in contents}
    for name, digest in pairs:
        if name in missing:
            refuse_changed_file(name, missing[name], digest)
    return missing


def _lacking(name: str, digest: str) -> str:
    return (
        f"The run was begun with the plugin `{name}` (SHA-256 {digest[:12]}…): code, "
        "and none that you have run before; read it, and give it by `--plugin FILE.py`."
    )


def _by_name(plugins: Sequence[Path]) -> Files:
    files = {path.name: path for path in plugins}
    for path in plugins:
        if files[path.name] != path:
            raise InvalidInputError(
                f"`{path}` and `{files[path.name]}` have one name, by which the run "
                "would know them; rename one."
            )
    return files
