"""The files that a run is computed from, told from what became of them since."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from meanfield import models
from meanfield.models.checkpoint import CONFIG, TOKENIZER, WEIGHTS
from meanfield.spec import Axis, RunSpec, context_of, paths_in

from ._digests import Digests, Files, refuse_changed_file, sha256, texts
from ._plugins import plugins_as_recorded, refuse_missing_plugins, refuse_new_plugins

_START, _MOVES = "start", "moves"
_RECORD = "commit.json"  # names the digest of all that a run holds


def inputs(
    spec: RunSpec, plugins: Sequence[Path], axes: Sequence[Axis] = ()
) -> dict[str, Digests]:
    """The SHA-256 digests of the files that a spec needs; of plugins the paths, too.

    `moves` are needed for as long as a run goes on, `start` for its first frame.

    Raises:
        InputFileError: if one cannot be read.
        InvalidInputError: if two plugins have one name.
    """
    files = {
        group: {name: sha256(path) for name, path in files.items()}
        for group, files in _files(spec, axes).items()
    }
    return {**files, **plugins_as_recorded(plugins)}


def refuse_changed(
    record: object,
    spec: RunSpec,
    plugins: Sequence[Path],
    *,
    axes: Sequence[Axis] = (),
    started: bool = False,
) -> None:
    """Refuses to go on with a run from files that are not those it began with.

    A run that an older version stored has no digests, and is believed.

    Args:
        record: the `inputs` it began with.
        spec: what names the files.
        plugins: those that are loaded now.
        axes: of a sweep; their values may be files.
        started: whether the first frame is stored, and needs no file any more.

    Raises:
        InputFileError: naming the file, or the plugin that is missing or new.
        StoreError: if what was recorded is no such thing.
    """
    if record is None:
        return
    refuse_other_moves(record, spec, plugins, axes=axes)
    if not started:
        _refuse_others(record, _START, _files(spec, axes))
    refuse_new_plugins(record, plugins)


def refuse_other_moves(
    record: object,
    spec: RunSpec,
    plugins: Sequence[Path],
    *,
    axes: Sequence[Axis] = (),
) -> None:
    """Refuses a model, a context or a plugin that is not the one a run was begun with.

    Further plugins are taken: they may draw a panel.

    Raises:
        InputFileError: naming the file, or the plugin that is missing.
        StoreError: if what was recorded is no such thing.
    """
    if record is None:
        return
    _refuse_others(record, _MOVES, _files(spec, axes))
    refuse_missing_plugins(record, plugins)


def refuse_other_start(record: object, spec: RunSpec) -> None:
    """Refuses files of the first frame that are not those a run was begun with.

    Raises:
        InputFileError: naming the file.
        StoreError: if what was recorded is no such thing.
    """
    if record is not None:
        _refuse_others(record, _START, _files(spec, ()))


def _refuse_others(record: object, group: str, files: dict[str, Files]) -> None:
    for name, digest in texts(record, group).items():
        path = files[group].get(name)
        refuse_changed_file(name, digest, path and sha256(path))


def _files(spec: RunSpec, axes: Sequence[Axis]) -> dict[str, Files]:
    """The files that a spec names, in two groups."""
    parts = (spec, *spec.layers, *spec.terms)
    pairs = [pair for part in parts for pair in part]
    pairs += [pair for axis in axes for pair in axis.pairs]
    groups = {_MOVES: _moving(pairs), _START: _starting(pairs)}
    return {group: dict(files) for group, files in groups.items()}


def _moving(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Path]]:
    """What a run needs in order to go on."""
    for key, value in pairs:
        if key == "model" and value is not None:
            for name in (WEIGHTS, CONFIG):
                yield f"{name} of {value}", models.locate(value) / name
        elif key == "context" and isinstance(value, str):
            named = context_of(value)
            if named.file is not None:
                yield named.file, Path(named.file)
            if named.run is not None:
                yield named.run, Path(named.run) / _RECORD


def _starting(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Path]]:
    """What a run needs for its first frame alone."""
    for key, value in pairs:
        if key == "model" and value is not None:
            file = models.locate(value) / TOKENIZER
            if file.is_file():  # heads of a trained network have none
                yield f"{TOKENIZER} of {value}", file
        elif key == "source" and value is not None:
            yield value, Path(value) / _RECORD
        elif key != "context":
            for path in paths_in(key, value):
                yield path, Path(path)
