"""The commit record: the one small file that says what of a store is real."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meanfield._reading import json_value
from meanfield.errors import InputFileError, InvalidInputError, StoreError

from ._files import replace_file
from ._schema import SCHEMA, SWEEP, TIME, Ending

RECORD = "commit.json"


@dataclass(frozen=True)
class Variable:
    """What all segments share of a frame variable, besides the sizes of its axes."""

    dtype: str
    dims: tuple[str, ...]

    @property
    def axis(self) -> int:
        """The place of `time` among the axes."""
        return self.dims.index(TIME)


@dataclass(frozen=True)
class Segment:
    """Frames committed together, and the digest of each array that holds them."""

    frames: int
    checksums: dict[str, str]


@dataclass(frozen=True)
class Record:
    """What a store held at its last commit; readers see nothing else."""

    created: str
    attrs: dict[str, Any]
    dims: dict[str, tuple[str, ...]]
    static: dict[str, str]
    sizes: dict[str, int]
    variables: dict[str, Variable]
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
    return _checksum(asdict(record))


def write_record(folder: Path, record: Record) -> None:
    """Replaces the record in one step: the commit.

    Raises:
        ResourceError: if it cannot be written; the last commit then stands.
    """
    body = {"schema": SCHEMA, "frames": record.frames, **asdict(record)}
    text = json.dumps({**body, "checksum": _checksum(body)}, indent=1)
    replace_file(folder / RECORD, lambda stream: stream.write(text.encode()))


def read_record(folder: Path) -> Record:
    """The last commit of a store.

    Raises:
        InputFileError: if there is nothing at this path, or it cannot be read.
        StoreError: if it is no store, is damaged, or has another schema.
    """
    body = _read_body(folder)
    schema = body.get("schema")
    if schema is not None and schema != SCHEMA:
        raise StoreError(
            f"`{folder}` has schema {schema} and this version of meanfield reads "
            f"{SCHEMA}; read it with the version that wrote it."
        )
    if body.pop("checksum", None) != _checksum(body):
        raise StoreError(_damaged(folder))
    return _record(body)


def _read_body(folder: Path) -> dict[str, Any]:
    try:
        body = json_value((folder / RECORD).read_bytes())
    except FileNotFoundError as error:
        if not folder.exists():
            raise InputFileError(f"There is no run at `{folder}`.") from error
        if (folder / SWEEP).exists():
            raise InputFileError(
                f"`{folder}` is a sweep of many runs: draw it with `meanfield plot "
                f"{folder}`; its numbers are in `{folder / 'table.csv'}`."
            ) from error
        raise StoreError(f"`{folder}` is no run: it has no `{RECORD}`.") from error
    except NotADirectoryError as error:
        raise StoreError(f"`{folder}` is no run: runs are folders.") from error
    except OSError as error:
        raise InputFileError(
            f"`{folder / RECORD}` cannot be read: {error.strerror}."
        ) from error
    except ValueError as error:
        raise StoreError(_damaged(folder)) from error
    if not isinstance(body, dict):
        raise StoreError(_damaged(folder))
    return body


def _damaged(folder: Path) -> str:
    return (
        f"`{folder / RECORD}` is damaged: it is not what was written. "
        "Restore it from a copy, or run it again."
    )


def _checksum(body: Mapping[str, object]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _record(body: dict[str, Any]) -> Record:
    ending = body["ending"]
    return Record(
        created=body["created"],
        attrs=body["attrs"],
        dims={name: tuple(dims) for name, dims in body["dims"].items()},
        static=body["static"],
        sizes=body["sizes"],
        variables={
            name: Variable(variable["dtype"], tuple(variable["dims"]))
            for name, variable in body["variables"].items()
        },
        segments=tuple(Segment(**segment) for segment in body["segments"]),
        state=body["state"],
        ending=None if ending is None else Ending(**ending),
    )
