"""Records: JSON files that say what their folder contains, sealed by a digest.

The functions here write, read and verify the records of runs, sweeps, training runs,
comparisons and figures.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from meanfield._reading import json_value
from meanfield.errors import StoreError

from ._drafts import replace_file
from ._files import REMEDY, damage_message, json_digest, read_plain, unreadable_error

_CHECKSUM = "checksum"  # the key of a record's digest
Digest = Callable[[Mapping[str, object]], str]


def replace_text(path: Path, text: str) -> None:
    """Atomically replaces a file with a text in UTF-8; see `replace_file`."""
    replace_file(path, lambda stream: stream.write(text.encode()))


def add_digest(
    body: Mapping[str, object], digest: Digest = json_digest
) -> dict[str, Any]:
    """Adds a digest to JSON values."""
    return {**body, _CHECKSUM: digest(body)}


def strip_digest(
    file: Path,
    record: Mapping[str, Any],
    digest: Digest = json_digest,
    *,
    remedy: str = REMEDY,
) -> dict[str, Any]:
    """Checks the digest of JSON values, and removes it.

    Raises:
        StoreError: if the digest does not match or is missing.
    """
    body = {key: value for key, value in record.items() if key != _CHECKSUM}
    if record.get(_CHECKSUM) != digest(body):
        raise StoreError(alteration_message(file, remedy=remedy))
    return body


def read_record(
    file: Path,
    schema: int | str,
    legacy_schema: int | str | None = None,
    older_schemas: tuple[int | str, ...] = (),
) -> dict[str, Any]:
    """The verified JSON values of a record, without their digest.

    Records of the older schema `legacy_schema` may lack a digest; records of
    `older_schemas` must have one.

    Raises:
        StoreError: if the record is damaged, or has another schema.
        OSError: see `read_object`.
    """
    record = read_object(file)
    file_schema = record.get("schema")
    if file_schema not in (None, schema, legacy_schema, *older_schemas):
        raise StoreError(
            f"`{file.parent}` has schema {file_schema}, but this version of meanfield "
            f"reads schema {schema}; open it with the version that wrote it."
        )
    is_older = file_schema is not None and file_schema == legacy_schema
    return (
        record if is_older and _CHECKSUM not in record else strip_digest(file, record)
    )


def read_object(path: Path, remedy: str = REMEDY) -> dict[str, Any]:
    """The JSON object in a file; `remedy` is the advice if it is damaged.

    Raises:
        FileNotFoundError: if there is no such file.
        NotADirectoryError: if its folder is a file.
        InputFileError: if it cannot be read.
        StoreError: if it is damaged.
    """
    try:
        values = json_value(read_plain(path))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise unreadable_error(path, error) from error
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise StoreError(alteration_message(path, remedy=remedy))
    return values


def validate_object(reader: TypeAdapter, body: Mapping[str, object], file: Path) -> Any:
    """The JSON values of a record, validated strictly by a pydantic adapter.

    Raises:
        StoreError: if a value has the wrong type or is out of range; the message names
            it.
    """
    try:
        return reader.validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"])) or "the whole"
        message = alteration_message(file, f"`{place}`: {problem['msg']}")
        raise StoreError(message) from None


def alteration_message(path: Path, problem: str = "", *, remedy: str = REMEDY) -> str:
    """The error message for an altered file; it states the `problem`, if known."""
    detail = f" The problem: {problem.rstrip('.')}." if problem else ""
    return damage_message(path, "it has changed since it was written", remedy) + detail


def version_0_1_error(folder: Path) -> StoreError:
    """The error for a folder that version 0.1 wrote."""
    return StoreError(
        f"`{folder}` was written by version 0.1 of meanfield, which this one cannot "
        "read. Install 0.2 with `pip install meanfield-attention==0.2.0` and use its "
        "command `meanfield export` (the results of a sweep are in `table.csv`)."
    )
