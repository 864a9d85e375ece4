"""The input files of a run, and checks that none has changed since the run began."""

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
    check_no_missing_plugins,
    check_no_new_plugins,
    plugins_as_recorded,
    read_digests,
)

Files = dict[str, Path]

_RECORD = "commit.json"  # holds the digests of all arrays of a run


@dataclass(frozen=True)
class Inputs:
    """The input files of a run.

    The checks take the recorded digests, or `None` for a run stored by an older
    version; then nothing is checked. They raise an `InputFileError` that names the
    file or plugin that has changed, and a `StoreError` if the record is damaged.

    Attributes:
        start: the files that only the first frame needs.
        flow: the files that the run needs until its end.
        plugins: the plugins that are loaded now.
    """

    start: Files
    flow: Files
    plugins: Sequence[Path]

    @classmethod
    def from_spec(
        cls, spec: RunSpec, plugins: Sequence[Path] = (), axes: Sequence[Axis] = ()
    ) -> "Inputs":
        """The files named by a spec, and by the values on the axes of a sweep."""
        parts = (spec, *spec.layers, *spec.terms)
        pairs = [pair for part in parts for pair in part]
        pairs += [pair for axis in axes for pair in axis.pairs]
        return cls(dict(_start_files(pairs)), dict(_flow_files(pairs)), plugins)

    def as_recorded(self) -> dict[str, dict[str, str]]:
        """The SHA-256 digests of all files, and the plugins' paths, for a record."""
        groups = {"flow": self.flow, "start": self.start}
        files = {
            group: {name: sha256(path) for name, path in files.items()}
            for group, files in groups.items()
        }
        return {**files, **plugins_as_recorded(self.plugins)}

    def check(self, record: object, *, is_started: bool = False) -> None:
        """Checks that all files are those that the run began with.

        Args:
            record: the recorded digests.
            is_started: whether the first frame is already stored, so that the files for
                it are no longer needed.
        """
        self.check_flow(record)
        if not is_started:
            self.check_start(record)
        if record is not None:
            check_no_new_plugins(record, self.plugins)

    def check_flow(self, record: object) -> None:
        """Checks that the model, the contexts and the plugins have not changed.

        Further plugins are allowed, since some only draw a panel.
        """
        if record is not None:
            _check_digests(read_digests(record, "flow"), self.flow)
            check_no_missing_plugins(record, self.plugins)

    def check_start(self, record: object) -> None:
        """Checks that the files of the first frame have not changed."""
        if record is not None:
            _check_digests(read_digests(record, "start"), self.start)


def _check_digests(digests: Mapping[str, str], files: Files) -> None:
    for name, digest in digests.items():
        path = files.get(name)
        check_unchanged(name, digest, path and sha256(path), owner=OWNER)


def _flow_files(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Path]]:
    """The names and paths of the files that a run needs until its end."""
    for key, value in pairs:
        if key == "model" and value is not None:
            for name in (WEIGHTS, CONFIG):
                yield f"{name} of {value}", models.locate(value) / name
        elif key == "context" and isinstance(value, str):
            context = context_of(value)
            if context.file is not None:
                yield context.file, Path(context.file)
            if context.run is not None:
                yield context.run, Path(context.run) / _RECORD


def _start_files(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Path]]:
    """The names and paths of the files that only the first frame needs."""
    for key, value in pairs:
        if key == "model" and value is not None:
            file = models.locate(value) / TOKENIZER
            if file.is_file():  # a network trained with this package has no tokenizer
                yield f"{TOKENIZER} of {value}", file
        elif key == "source" and value is not None:
            yield value, Path(value) / _RECORD
        elif key != "context":
            for path in paths_in(key, value):
                yield path, Path(path)
