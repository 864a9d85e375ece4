"""The subject of a report: runs, a sweep, a comparison or a verification."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from meanfield import runs
from meanfield._reading import json_value, read_text
from meanfield._stored_names import rename_keys
from meanfield.errors import InputFileError

COMPARISON = "comparison.json"
# Prefix of the key `format` in the output of `meanfield verify --json`.
_VERIFICATION = "meanfield-verification-"


@dataclass(frozen=True)
class Subject:
    """The subject of a report.

    Attributes:
        kind: `run`, `runs`, `sweep`, `comparison` or `verification`.
        path: the folder of a run, sweep or comparison; the file of a verification; the
            place of a folder named after several runs, which need not exist.
        record: the JSON of a comparison or a verification; empty for the others.
        runs: the folders of several runs; empty for the others.
    """

    kind: Literal["run", "runs", "sweep", "comparison", "verification"]
    path: Path
    record: dict[str, Any]
    runs: Sequence[Path] = ()

    @property
    def stem(self) -> str:
        """The name of the path without its suffix, for the names of related files."""
        name = self.path.absolute().name
        return name.removesuffix(".zarr").removesuffix(".json")

    @property
    def stores(self) -> list[Path]:
        """The folders of the subject's runs or sweep; empty for a verification."""
        if self.kind in ("runs", "verification"):
            return [*self.runs]
        is_one = self.kind != "comparison"
        return [self.path] if is_one else sorted(self.path.glob("*.zarr"))


def subject_of(path: Path) -> Subject:
    """The subject at a path, recognised by its files; runs are not opened.

    Raises:
        InputFileError: if the path does not exist, or is a file of another kind.
    """
    if path.is_dir():
        return _folder(path)
    record = _json(path)
    if path.name == COMPARISON and {"measures", "pairs"} <= record.keys():
        content = rename_keys("comparison", record)
        return Subject("comparison", path.parent, content)
    if str(record.get("format", "")).startswith(_VERIFICATION):
        return Subject("verification", path, record)
    raise InputFileError(
        f"`{path}` is neither a comparison nor a verification. Use the folder of a "
        "run, of a sweep or of `meanfield compare --out`, or the output of `meanfield "
        "verify --json`."
    )


def _folder(path: Path) -> Subject:
    if runs.is_sweep(path):
        return Subject("sweep", path, {})
    if (path / COMPARISON).exists():
        return subject_of(path / COMPARISON)
    return Subject("run", path, {})


def _json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InputFileError: if the file is missing, or is not a JSON object.
    """
    text = read_text(path)
    try:
        value = json_value(text)
    except ValueError as error:
        raise InputFileError(
            f"`{path}` is not valid JSON: {error}. Use the output of `meanfield verify "
            "--json`."
        ) from None
    if not isinstance(value, dict):
        raise InputFileError(
            f"`{path}` is not a JSON object. Use the output of `meanfield verify "
            "--json`."
        )
    return value
