"""The files that a run is computed from, told from what became of them since."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from meanfield import models
from meanfield.errors import InputFileError, InvalidInputError, StoreError
from meanfield.models.checkpoint import CONFIG, TOKENIZER, WEIGHTS
from meanfield.spec import KEYS, Axis, RunSpec

Digests = dict[str, str]  # of files, by their names
Files = dict[str, Path]

_START, _MOVES, _PLUGINS = "start", "moves", "plugins"
_BY_AT = [name for name, row in KEYS.items() if row.files]
_RECORD = "commit.json"  # names the digest of all that a run holds


def inputs(
    spec: RunSpec, plugins: Sequence[Path], axes: Sequence[Axis] = ()
) -> dict[str, Digests]:
    """The SHA-256 digests of the files that a spec needs, and of plugins.

    `moves` are needed for as long as a run goes on, `start` for its first frame.

    Raises:
        InputFileError: if one cannot be read.
        InvalidInputError: if two plugins have one name.
    """
    groups = {**_files(spec, axes), _PLUGINS: _by_name(plugins)}
    return {
        group: {name: _sha256(path) for name, path in files.items()}
        for group, files in groups.items()
    }


def refuse_changed(
    recorded: object,
    spec: RunSpec,
    plugins: Sequence[Path],
    *,
    axes: Sequence[Axis] = (),
    started: bool = False,
) -> None:
    """Refuses to go on with a run from files that are not those it began with.

    A run that an older version stored has no digests, and is believed.

    Args:
        recorded: the `inputs` it began with.
        spec: what names the files.
        plugins: those that are loaded now.
        axes: of a sweep; their values may be files.
        started: whether the first frame is stored, and needs no file any more.

    Raises:
        InputFileError: naming the file, or the plugin that is missing or new.
        StoreError: if what was recorded is no such thing.
    """
    if recorded is None:
        return
    refuse_other_moves(recorded, spec, plugins, axes=axes)
    if not started:
        _refuse_others(recorded, _START, _files(spec, axes))
    known = _digests(recorded, _PLUGINS).values()
    for path in plugins:
        if _sha256(path) not in known:
            raise InputFileError(
                f"The run was begun without the plugin `{path.name}`; leave it out."
            )


def refuse_other_moves(
    recorded: object,
    spec: RunSpec,
    plugins: Sequence[Path],
    *,
    axes: Sequence[Axis] = (),
) -> None:
    """Refuses a model, or a plugin, that is not the one a run was begun with.

    Further plugins are taken: they may draw a panel.

    Raises:
        InputFileError: naming the file, or the plugin that is missing.
        StoreError: if what was recorded is no such thing.
    """
    if recorded is None:
        return
    _refuse_others(recorded, _MOVES, _files(spec, axes))
    given = [(path.name, _sha256(path)) for path in plugins]
    for name, digest in _digests(recorded, _PLUGINS).items():
        if digest in (other for _, other in given):
            continue
        for other in (other for namesake, other in given if namesake == name):
            _refuse_other(name, digest, other)
        raise InputFileError(
            f"The run was begun with the plugin `{name}`; give it again by `--plugin`."
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


def _refuse_others(recorded: object, group: str, files: dict[str, Files]) -> None:
    for name, digest in _digests(recorded, group).items():
        path = files[group].get(name)
        _refuse_other(name, digest, path and _sha256(path))


def _refuse_other(name: str, old: str, new: str | None) -> None:
    if old != new:
        raise InputFileError(
            f"`{name}` is not what it was when the run began: its SHA-256 was "
            f"{old[:12]}… and is {(new or 'none')[:12]}…; restore it, or begin anew."
        )


def _digests(recorded: object, group: str) -> Digests:
    found = recorded.get(group, {}) if isinstance(recorded, Mapping) else None
    if isinstance(found, dict) and all(isinstance(v, str) for v in found.values()):
        return found
    raise StoreError(
        f"The digests of `{group}` in the record of the run are none; restore the "
        "record from a copy, or begin a new run."
    )


def _files(spec: RunSpec, axes: Sequence[Axis]) -> dict[str, Files]:
    """The files that a spec names, in two groups."""
    parts = (spec, *spec.layers, *spec.terms)
    pairs = [pair for part in parts for pair in part]
    pairs += [(axis.key, value) for axis in axes for value in axis.values]
    found = {_MOVES: _moving(pairs), _START: _starting(pairs)}
    return {group: dict(files) for group, files in found.items()}


def _moving(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Path]]:
    """What a run needs in order to go on."""
    for key, value in pairs:
        if key == "model" and value is not None:
            for name in (WEIGHTS, CONFIG):
                yield f"{name} of {value}", models.locate(value) / name


def _starting(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Path]]:
    """What a run needs for its first frame alone."""
    for key, value in pairs:
        if key == "model" and value is not None:
            yield f"{TOKENIZER} of {value}", models.locate(value) / TOKENIZER
        elif key == "source" and value is not None:
            yield value, Path(value) / _RECORD
        elif key in _BY_AT and isinstance(value, str) and value.startswith("@"):
            yield value[1:], Path(value[1:])


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputFileError(f"`{path}` cannot be read: {error.strerror}.") from error
