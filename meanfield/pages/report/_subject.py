"""What a report is made of: a run, a sweep, a comparison or a verification."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from meanfield import runs
from meanfield._reading import json_value, read_text
from meanfield.errors import InputFileError

COMPARISON = "comparison.json"
# The beginning of the format that `meanfield verify --json` names.
_VERIFICATION = "meanfield-verification-"


@dataclass(frozen=True)
class Subject:
    """What lies at a path.

    Attributes:
        kind: of the four things that a report shows.
        path: the folder of a run, sweep or comparison; the file of a verification.
        record: the JSON of a comparison or a verification; empty for the others.
    """

    kind: Literal["run", "sweep", "comparison", "verification"]
    path: Path
    record: dict[str, Any]

    @property
    def stem(self) -> str:
        """Its name, which files beside it begin with."""
        name = self.path.absolute().name
        return name.removesuffix(".zarr").removesuffix(".json")

    @property
    def stores(self) -> list[Path]:
        """The folders of the runs, or of the sweep, that it is made of."""
        if self.kind == "verification":
            return []
        is_one = self.kind != "comparison"
        return [self.path] if is_one else sorted(self.path.glob("*.zarr"))


def subject_of(path: Path) -> Subject:
    """What lies at a path, told by its files; a run is opened by who reads it.

    Raises:
        InputFileError: if there is nothing, or a file that is no such record.
    """
    if path.is_dir():
        return _folder(path)
    record = _json(path)
    if path.name == COMPARISON and {"measures", "pairs"} <= record.keys():
        return Subject("comparison", path.parent, record)
    if str(record.get("format", "")).startswith(_VERIFICATION):
        return Subject("verification", path, record)
    raise InputFileError(
        f"`{path}` holds neither a comparison nor a verification; give the folder of a "
        "run, of a sweep or of `meanfield compare --out`, or what `meanfield verify "
        "--json` printed."
    )


def _folder(path: Path) -> Subject:
    if runs.is_sweep(path):
        return Subject("sweep", path, {})
    if (path / COMPARISON).exists():
        return subject_of(path / COMPARISON)
    return Subject("run", path, {})


def _json(path: Path) -> dict[str, Any]:
    """A JSON object in a file.

    Raises:
        InputFileError: if it is missing, or holds something else.
    """
    text = read_text(path)
    try:
        value = json_value(text)
    except ValueError as error:
        raise InputFileError(
            f"`{path}` is no JSON: {error}; `meanfield verify --json` prints what is "
            "shown."
        ) from None
    if not isinstance(value, dict):
        raise InputFileError(
            f"`{path}` holds no JSON object; `meanfield verify --json` prints one that "
            "is shown."
        )
    return value
