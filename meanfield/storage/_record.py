"""The commit record: the one small file that says what of a store is real."""

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    with_config,
)
from typing_extensions import TypedDict

from meanfield._reading import nearby
from meanfield.errors import InputFileError, InvalidInputError, StoreError

from ._schema import SCHEMA, SWEEP, TIME, Ending, dims_of
from .disk import (
    altered_message,
    from_version_0_1,
    json_digest,
    replace_text,
    sealed,
    validate_object,
)
from .disk import read_record as read_sealed

RECORD = "commit.json"
PACKAGE = "meanfield-attention"  # as the versions of a run name it
STORED = "name the folder that `simulate --out` wrote."


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$", max_length=200)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Dtype = Annotated[str, StringConstraints(pattern=r"^([<>][fiu][248]|\|[iu]1)$")]
Count = Annotated[int, Field(ge=0, lt=2**48)]


@dataclass(frozen=True)
class Variable:
    """What all segments share of a frame variable, besides the sizes of its axes."""

    dtype: Dtype
    dims: tuple[Name, ...]

    @property
    def axis(self) -> int:
        """The place of `time` among the axes."""
        return self.dims.index(TIME)


@dataclass(frozen=True)
class Segment:
    """Frames committed together, and the digest of each array that holds them."""

    frames: Annotated[Count, Field(gt=0)]
    checksums: dict[Name, Digest]


@with_config(ConfigDict(extra="allow"))
class About(TypedDict, total=False):
    """Attributes that readers rely on, where a run has them; it may have others."""

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
    """What a store held at its last commit; readers see nothing else."""

    created: str
    attrs: About
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


def plain_json(what: str, value: Mapping[str, object]) -> dict[str, Any]:
    """`value` as it will be read back.

    Raises:
        InvalidInputError: if JSON cannot hold it.
    """
    try:
        return json.loads(json.dumps(dict(value)))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"`{what}` must be made of JSON values (dict, list, str, int, float, bool, "
            f"None): {error}."
        ) from error


def fingerprint(record: Record) -> str:
    """Equal for equal records, NaNs in their states included."""
    return json_digest(asdict(record))


def write_record(folder: Path, record: Record) -> None:
    """Replaces the record in one step: the commit.

    Raises:
        ResourceError: if it cannot be written; the last commit then stands.
    """
    body = {"schema": SCHEMA, "frames": record.frames, **asdict(record)}
    replace_text(folder / RECORD, json.dumps(sealed(body), indent=1))


def read_record(folder: Path) -> Record:
    """The last commit of a store.

    Raises:
        InputFileError: if there is nothing at this path, or it cannot be read.
        StoreError: if it is no store, is damaged, or has another schema.
    """
    record, file = _read_body(folder), folder / RECORD
    frames = record.pop("frames", None)
    record.pop("schema", None)
    values = validate_object(_reader(), record, file)
    try:
        _check(values, frames)
    except ValueError as error:
        raise StoreError(altered_message(file, str(error))) from None
    if values.attrs.get("versions", {}).get(PACKAGE, "").startswith("0.1."):
        raise from_version_0_1(folder)
    return values


def _read_body(folder: Path) -> dict[str, Any]:
    try:
        return read_sealed(folder / RECORD, SCHEMA)
    except FileNotFoundError as error:
        if not folder.exists():
            raise InputFileError(
                f"There is no run at `{folder}`; {nearby(folder)}"
            ) from error
        if (folder / SWEEP).exists():
            raise InputFileError(
                f"`{folder}` is a sweep of many runs: draw it with `meanfield plot "
                f"{folder}`; its numbers are in `{folder / 'table.csv'}`."
            ) from error
        raise StoreError(
            f"`{folder}` is no run: it has no `{RECORD}`; {STORED}"
        ) from error
    except NotADirectoryError as error:
        raise InputFileError(
            f"`{folder}` is no run: runs are folders; {STORED}"
        ) from error


def _check(record: Record, frames: object) -> None:
    """Checks that the parts of a record agree.

    Raises:
        ValueError: saying which do not.
    """
    if frames != record.frames:
        raise ValueError(
            f"`frames` is {frames!r} and its segments hold {record.frames}"
        )
    for index, segment in enumerate(record.segments):
        if segment.checksums.keys() != record.variables.keys():
            raise ValueError(f"the segment {index} holds other variables than the run")
    for name, variable in record.variables.items():
        _check_axes(name, variable.dims, record)


def _check_axes(name: str, dims: tuple[str, ...], record: Record) -> None:
    if (
        dims != dims_of(name, len(dims), record.dims)
        or dims.count(TIME) != 1
        or len(set(dims)) < len(dims)
        or not {TIME, *record.sizes}.issuperset(dims)
    ):
        raise ValueError(f"`{name}` cannot have the axes ({', '.join(dims)})")


@functools.cache
def _reader() -> TypeAdapter:
    return TypeAdapter(Record)
