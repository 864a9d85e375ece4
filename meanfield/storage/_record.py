"""The commit record: the small file that says which data of a store is committed."""

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, with_config
from typing_extensions import TypedDict

from meanfield._reading import similar_name
from meanfield._stored_names import rename_keys
from meanfield.errors import InputFileError, InvalidInputError, StoreError

from ._schema import OLDER_SCHEMAS, SCHEMA, SWEEP, TIME, Ending, dims_of
from .disk import (
    add_digest,
    alteration_message,
    json_digest,
    replace_text,
    validate_object,
    version_0_1_error,
)
from .disk import read_record as read_sealed

RECORD = "commit.json"
PACKAGE = "meanfield-attention"  # the name of this package among the recorded versions
FOLDER_ADVICE = "name the folder that `simulate --out` wrote."


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$", max_length=200)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Dtype = Annotated[str, StringConstraints(pattern=r"^([<>][fiu][248]|\|[iu]1)$")]
Count = Annotated[int, Field(ge=0, lt=2**48)]


@dataclass(frozen=True)
class Variable:
    """The dtype and dimensions of a frame variable, the same in all segments."""

    dtype: Dtype
    dims: tuple[Name, ...]

    @property
    def axis(self) -> int:
        """The index of the axis `time`."""
        return self.dims.index(TIME)


@dataclass(frozen=True)
class Segment:
    """The number of frames in a segment, and the digest of each array."""

    frames: Annotated[Count, Field(gt=0)]
    checksums: dict[Name, Digest]


@with_config(ConfigDict(extra="allow"))
class RunAttrs(TypedDict, total=False):
    """Types of the attributes that readers use; a run can lack some or have others."""

    kind: str
    dtype: str
    title: str
    device: str
    versions: dict[str, str]
    inputs: dict[str, dict[str, str]]
    layout: dict[str, Count] | None
    words: list[str]
    n_layers: Count


@dataclass(frozen=True)
class Record:
    """The content of a store at its last commit; readers see nothing else."""

    created: str
    attrs: RunAttrs
    dims: dict[Name, tuple[Name, ...]]
    static: dict[Name, Digest]
    sizes: dict[Name, Count]
    variables: dict[Name, Variable]
    segments: tuple[Segment, ...]
    state: dict[str, Any]
    ending: Ending | None

    @property
    def frames(self) -> int:
        """The number of committed frames."""
        return sum(segment.frames for segment in self.segments)


def plain_json(name: str, value: Mapping[str, object]) -> dict[str, Any]:
    """`value` after a round trip through JSON.

    Raises:
        InvalidInputError: if JSON cannot hold it.
    """
    try:
        return json.loads(json.dumps(dict(value)))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"`{name}` must hold only JSON values (dict, list, str, int, float, bool, "
            f"None): {error}."
        ) from error


def fingerprint(record: Record) -> str:
    """A digest that is equal for equal records, even if their states contain NaNs."""
    return json_digest(asdict(record))


def write_record(folder: Path, record: Record) -> None:
    """Commits a record: replaces the old one atomically.

    Raises:
        ResourceError: if it cannot be written; the last commit is then left unchanged.
    """
    body = {"schema": SCHEMA, "frames": record.frames, **asdict(record)}
    replace_text(folder / RECORD, json.dumps(add_digest(body), indent=1))


def read_record(folder: Path) -> Record:
    """The last committed record of a store.

    Raises:
        InputFileError: if there is nothing at this path, or it cannot be read.
        StoreError: if the folder is not a store, is damaged, or has another schema.
    """
    record, file = _read_body(folder), folder / RECORD
    if record.pop("schema", None) in OLDER_SCHEMAS:
        record = _rename_old_keys(record)
    frames = record.pop("frames", None)
    values = validate_object(_reader(), record, file)
    try:
        _check(values, frames)
    except ValueError as error:
        raise StoreError(alteration_message(file, str(error))) from None
    if values.attrs.get("versions", {}).get(PACKAGE, "").startswith("0.1."):
        raise version_0_1_error(folder)
    return values


def _read_body(folder: Path) -> dict[str, Any]:
    try:
        return read_sealed(folder / RECORD, SCHEMA, older_schemas=OLDER_SCHEMAS)
    except FileNotFoundError as error:
        if not folder.exists():
            raise InputFileError(
                f"There is no run at `{folder}`; {similar_name(folder)}"
            ) from error
        if (folder / SWEEP).exists():
            raise InputFileError(
                f"`{folder}` is a sweep, not one run. Draw it with `meanfield plot "
                f"{folder}`. Its results are in `{folder / 'table.csv'}`."
            ) from error
        raise StoreError(
            f"`{folder}` is not a run, as it has no `{RECORD}`; {FOLDER_ADVICE}"
        ) from error
    except NotADirectoryError as error:
        raise InputFileError(
            f"`{folder}` is not a run, since it is not a folder; {FOLDER_ADVICE}"
        ) from error


def _rename_old_keys(record: dict[str, Any]) -> dict[str, Any]:
    """Changes the names in records of version 0.2 to the current names."""
    for group, key, kind in (
        ("attrs", "inputs", "inputs"),
        ("state", "members", "outcome"),
    ):
        values = record.get(group)
        if isinstance(values, dict) and key in values:
            new_values = {**values, key: rename_keys(kind, values[key])}
            record = {**record, group: new_values}
    return record


def _check(record: Record, frames: object) -> None:
    """Checks that the parts of a record are consistent.

    Raises:
        ValueError: if they are not; the message says which parts disagree.
    """
    if frames != record.frames:
        raise ValueError(
            f"`frames` is {frames!r}, but the segments add up to {record.frames}"
        )
    for index, segment in enumerate(record.segments):
        if segment.checksums.keys() != record.variables.keys():
            raise ValueError(f"segment {index} and the run differ in their variables")
    for name, variable in record.variables.items():
        _check_axes(name, variable.dims, record)


def _check_axes(name: str, dims: tuple[str, ...], record: Record) -> None:
    if (
        dims != dims_of(name, len(dims), record.dims)
        or dims.count(TIME) != 1
        or len(set(dims)) < len(dims)
        or not {TIME, *record.sizes}.issuperset(dims)
    ):
        raise ValueError(f"the variable `{name}` has wrong axes ({', '.join(dims)})")


@functools.cache
def _reader() -> TypeAdapter:
    return TypeAdapter(Record)
