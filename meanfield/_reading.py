"""Reading of text files and JSON, with limits on size, nesting and numbers."""

import difflib
import json
import os
import sys
from pathlib import Path
from typing import Any

from .errors import InputFileError

LONGEST = 64_000_000  # default limit on the number of characters of a file
DEEPEST = 32  # largest number of levels of nested lists and tables
LARGEST = int(sys.float_info.max)  # largest integer that fits into a float
UTF_8 = "utf-8-sig"  # accepts and drops a byte order mark
OPEN = "check its permissions, or name another."  # end of messages about an `OSError`
_MAX_CHARS = 40  # a message shows at most this many digits of an integer


def path_of(name: str | os.PathLike[str]) -> Path:
    """The path `name` with `~` expanded to a home directory, as in shells.

    Raises:
        InputFileError: if `~NAME` names an unknown user.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise InputFileError(f"`{name}` is not a valid path: {error}") from None


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
    except (OSError, ValueError) as error:  # a path with a NUL raises ValueError
        reason = getattr(error, "strerror", None) or error
        raise InputFileError(f"`{path}` cannot be read: {reason}; {OPEN}") from None
    if len(text) > longest:
        raise InputFileError(
            f"`{path}` exceeds the limit of {longest} characters; split the file."
        )
    return text


def missing_file_error(path: Path) -> InputFileError:
    """The error for a file that does not exist."""
    return InputFileError(f"There is no file `{path}`; {similar_name(path)}")


def encoding_error(path: Path) -> InputFileError:
    """The error for a file that is not in UTF-8, such as PowerShell's UTF-16 files."""
    return InputFileError(f"`{path}` is not UTF-8 text; save the file as UTF-8.")


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
        ValueError: if the text is not JSON, is nested too deeply, or contains an
            integer beyond the range of floats.
    """
    try:
        value = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    return check_bounds(value)


def json_or_text(text: str) -> Any:
    """The value of a JSON text, or the text itself if it is not JSON.

    Raises:
        ValueError: if the value is nested too deeply, or contains an integer beyond
            the range of floats.
    """
    try:
        return json_value(text)
    except json.JSONDecodeError:
        return text


def check_bounds(value: Any) -> Any:
    """Returns `value` if its nesting and its integers are within limits.

    Raises:
        ValueError: if `value` is nested too deeply, or contains an integer beyond the
            range of floats.
    """
    level = [value]
    for _ in range(DEEPEST):
        for entry in level:
            if isinstance(entry, int) and abs(entry) > LARGEST:
                raise ValueError("it contains an integer beyond ±1e308")
        level = [item for entry in level for item in _children(entry)]
        if not level:
            return value
    raise ValueError(_too_deep())


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _whole(digits: str) -> int:
    if len(digits) > len(str(LARGEST)) + 1:  # `int` rejects more than 4300 digits
        raise ValueError(
            f"it contains the integer {digits[:_MAX_CHARS]}…, which is beyond ±1e308"
        )
    return int(digits)


def _too_deep() -> str:
    return f"it is nested more than {DEEPEST} levels deep"
