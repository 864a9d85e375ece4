"""The record of a folder: the one JSON file that says what of the folder is real.

Runs, sweeps, trainings, comparisons and figures take from here how it is written, read
and verified.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from meanfield._reading import json_value
from meanfield.errors import StoreError

from ._drafts import replace_file
from ._files import MEND, damaged, json_digest, read_plain, unreadable

_CHECKSUM = "checksum"  # the key of a record's digest
Digest = Callable[[Mapping[str, object]], str]


def replace_text(path: Path, text: str) -> None:
    """Replaces a file by a text in UTF-8, as `replace_file` does."""
    replace_file(path, lambda stream: stream.write(text.encode()))


def sealed(body: Mapping[str, object], digest: Digest = json_digest) -> dict[str, Any]:
    """JSON values with their digest."""
    return {**body, _CHECKSUM: digest(body)}


def unsealed(
    file: Path,
    record: Mapping[str, Any],
    digest: Digest = json_digest,
    *,
    mend: str = MEND,
) -> dict[str, Any]:
    """JSON values without their digest, once it fits.

    Raises:
        StoreError: if it does not, or there is none.
    """
    body = {key: value for key, value in record.items() if key != _CHECKSUM}
    if record.get(_CHECKSUM) != digest(body):
        raise StoreError(altered_message(file, mend=mend))
    return body


def read_record(
    file: Path, schema: int | str, without_digest: int | str | None = None
) -> dict[str, Any]:
    """The JSON values of a record, verified, without their digest.

    Records of the older schema `without_digest` have none.

    Raises:
        StoreError: if it is damaged, or has another schema.
        OSError: as `read_object` does.
    """
    record = read_object(file)
    found = record.get("schema")
    if found not in (None, schema, without_digest):
        raise StoreError(
            f"`{file.parent}` has schema {found} and this version of meanfield reads "
            f"{schema}; read it with the version that wrote it."
        )
    is_older = found is not None and found == without_digest
    return record if is_older and _CHECKSUM not in record else unsealed(file, record)


def read_object(path: Path, mend: str = MEND) -> dict[str, Any]:
    """The JSON object in a file; `mend` says what to do if it is damaged.

    Raises:
        FileNotFoundError: if there is none.
        NotADirectoryError: if its folder is a file.
        InputFileError: if it cannot be read.
        StoreError: if it is damaged.
    """
    try:
        values = json_value(read_plain(path))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise StoreError(altered_message(path, mend=mend))
    return values


def validate_object(reader: TypeAdapter, body: Mapping[str, object], file: Path) -> Any:
    """JSON values of a record as what a strict reader makes of them.

    Raises:
        StoreError: naming the first value that has not its type or range.
    """
    try:
        return reader.validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"])) or "the whole"
        message = altered_message(file, f"`{place}`: {problem['msg']}")
        raise StoreError(message) from None


def altered_message(path: Path, problem: str = "", *, mend: str = MEND) -> str:
    """The message about a file that is not what was written, and its first problem."""
    what = f" What is wrong: {problem.rstrip('.')}." if problem else ""
    return damaged(path, "it is not what was written", mend) + what


def from_version_0_1(folder: Path) -> StoreError:
    """The error of a folder that version 0.1 wrote."""
    return StoreError(
        f"`{folder}` was written by version 0.1 of meanfield, which this one does not "
        "read: install 0.2 by `pip install meanfield-attention==0.2.0`, and `meanfield "
        "export` it there (of a sweep, `table.csv` has the numbers)."
    )
