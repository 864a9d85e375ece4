"""The files that a run is computed from, told from what became of them since."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanfield import models
from meanfield.models.checkpoint import CONFIG, TOKENIZER, WEIGHTS
from meanfield.spec import Axis, RunSpec, context_of, paths_in
from meanfield.storage.digests import check_unchanged, sha256

from ._plugins import (
    OWNER,
    plugins_as_recorded,
    refuse_missing_plugins,
    refuse_new_plugins,
    texts,
)

Files = dict[str, Path]

_RECORD = "commit.json"  # names the digest of all that a run holds


@dataclass(frozen=True)
class Inputs:
    """The files that a run is computed from; a record of their digests may be `None`.

    A run that an older version stored has no digests, and is believed. Each method
    raises an `InputFileError` that names the file, or the plugin, and a `StoreError` if
    what was recorded is no such thing.

    Attributes:
        start: those that its first frame needs.
        moves: those that are needed for as long as it goes on.
        plugins: those that are loaded now.
    """

    start: Files
    moves: Files
    plugins: Sequence[Path]

    @classmethod
    def of(
        cls, spec: RunSpec, plugins: Sequence[Path] = (), axes: Sequence[Axis] = ()
    ) -> "Inputs":
        """Those that a spec names, or the values of the axes of a sweep."""
        parts = (spec, *spec.layers, *spec.terms)
        pairs = [pair for part in parts for pair in part]
        pairs += [pair for axis in axes for pair in axis.pairs]
        return cls(dict(_starting(pairs)), dict(_moving(pairs)), plugins)

    def as_recorded(self) -> dict[str, dict[str, str]]:
        """The SHA-256 digests of the files; of plugins the paths, too."""
        groups = {"moves": self.moves, "start": self.start}
        files = {
            group: {name: sha256(path) for name, path in files.items()}
            for group, files in groups.items()
        }
        return {**files, **plugins_as_recorded(self.plugins)}

    def check(self, record: object, *, is_started: bool = False) -> None:
        """Refuses to go on from files that are not those it began with.

        Args:
            record: the digests that it began with.
            is_started: whether the first frame is stored, and needs no file any more.
        """
        self.check_moves(record)
        if not is_started:
            self.check_start(record)
        if record is not None:
            refuse_new_plugins(record, self.plugins)

    def check_moves(self, record: object) -> None:
        """Refuses a model, a context or a plugin that is not the one it began with.

        Further plugins are taken: they may draw a panel.
        """
        if record is not None:
            _refuse_others(texts(record, "moves"), self.moves)
            refuse_missing_plugins(record, self.plugins)

    def check_start(self, record: object) -> None:
        """Refuses files of the first frame that are not those it began with."""
        if record is not None:
            _refuse_others(texts(record, "start"), self.start)


def _refuse_others(recorded: Mapping[str, str], files: Files) -> None:
    for name, digest in recorded.items():
        path = files.get(name)
        check_unchanged(name, digest, path and sha256(path), owner=OWNER)


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
