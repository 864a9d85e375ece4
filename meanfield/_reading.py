"""Reading of text files and JSON, with limits on size, nesting and numbers."""

import difflib
import json
import os
import sys
from pathlib import Path
from typing import Any

from .errors import InputFileError

LONGEST = 64_000_000  # characters of a file of keys or of a report
DEEPEST = 32  # levels of nested lists and tables
LARGEST = int(sys.float_info.max)  # largest integer that fits into a float
UTF_8 = "utf-8-sig"  # accepts and drops a byte order mark
OPEN = "check its permissions, or name another."  # end of a message about an OSError
_MAX_CHARS = 40  # characters of a number that a message repeats


def path_of(name: str | os.PathLike[str]) -> Path:
    """The path `name` with `~` expanded to a home directory, as in shells.

    Raises:
        InputFileError: if there is no such user.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise InputFileError(f"`{name}` has no place: {error}") from None


def read_text(path: Path, *, longest: int = LONGEST) -> str:
    """The text of a UTF-8 file of at most `longest` characters.

    Raises:
        InputFileError: if it is missing, unreadable, not UTF-8, or too long.
    """
    try:
        with path.open(encoding=UTF_8) as file:
            text = file.read(longest + 1)
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except UnicodeDecodeError:
        raise encoding_error(path) from None
    except (OSError, ValueError) as error:  # ValueError: a name that contains NUL
        reason = getattr(error, "strerror", None) or error
        raise InputFileError(f"`{path}` cannot be read: {reason}; {OPEN}") from None
    if len(text) > longest:
        raise InputFileError(
            f"`{path}` is longer than the limit of {longest} characters; split it."
        )
    return text


def missing_file_error(path: Path) -> InputFileError:
    """The error for a file that does not exist."""
    return InputFileError(f"There is no file `{path}`; {similar_name(path)}")


def encoding_error(path: Path) -> InputFileError:
    """The error for a file in another encoding, such as PowerShell's UTF-16."""
    return InputFileError(f"`{path}` is no text in UTF-8; save it in that encoding.")


def similar_name(path: Path) -> str:
    """End of an error message that suggests a similar name in the same folder."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder `{folder}` either."
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        names = []
    for name in difflib.get_close_matches(path.name, names, n=1):
        return f"did you mean `{folder / name}`?"
    return f"nothing in `{folder.absolute()}` has a name like it."


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: if it is not JSON, is nested too deeply, or contains an integer
            beyond the range of floats.
    """
    try:
        value = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    return check_bounds(value)


def check_bounds(value: Any) -> Any:
    """`value` itself, if its nesting and its integers are within limits.

    Raises:
        ValueError: if it is nested too deeply, or contains an integer beyond the range
            of floats.
    """
    level = [value]
    for _ in range(DEEPEST):
        for entry in level:
            if isinstance(entry, int) and abs(entry) > LARGEST:
                raise ValueError("a whole number in it is beyond 1e308")
        level = [item for entry in level for item in _children(entry)]
        if not level:
            return value
    raise ValueError(_too_deep())


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _whole(digits: str) -> int:
    if len(digits) > len(str(LARGEST)) + 1:  # Python itself rejects 4300 digits
        raise ValueError(f"the number {digits[:_MAX_CHARS]}… in it is beyond 1e308")
    return int(digits)


def _too_deep() -> str:
    return f"it is nested more than {DEEPEST} deep"
