"""Text from outside: files of a size that can be meant, values that can be held."""

import difflib
import json
import os
import sys
from pathlib import Path
from typing import Any

from .errors import InputFileError

LONGEST = 64_000_000  # characters of a file of keys or of a report
DEEPEST = 32  # lists and tables within each other
LARGEST = int(sys.float_info.max)  # of a whole number: what a float can hold
UTF_8 = "utf-8-sig"  # with a byte order mark or without, which is no part of the text
OPEN = "check that you may, or name another."  # after what the system refuses
_SHOWN = 40  # characters of a number that a message repeats


def path_of(name: str | os.PathLike[str]) -> Path:
    """The path of a name; its `~` is a home, as shells read it.

    Raises:
        InputFileError: if nobody has that home.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise InputFileError(f"`{name}` has no place: {error}") from None


def read_text(path: Path, *, longest: int = LONGEST) -> str:
    """The text in a file, in UTF-8; no more is read than it may be long.

    Raises:
        InputFileError: if it is missing, unreadable, no text, or too long.
    """
    try:
        with path.open(encoding=UTF_8) as file:
            text = file.read(longest + 1)
    except FileNotFoundError:
        raise absent(path) from None
    except UnicodeDecodeError:
        raise not_utf_8(path) from None
    except (OSError, ValueError) as error:  # as for a name that holds NUL
        reason = getattr(error, "strerror", None) or error
        raise InputFileError(f"`{path}` cannot be read: {reason}; {OPEN}") from None
    if len(text) > longest:
        raise InputFileError(
            f"`{path}` is longer than the {longest} characters that are read; split it."
        )
    return text


def absent(path: Path) -> InputFileError:
    """The error of a file that is not there."""
    return InputFileError(f"There is no file `{path}`; {nearby(path)}")


def not_utf_8(path: Path) -> InputFileError:
    """The error of a text in another encoding, such as the UTF-16 of PowerShell."""
    return InputFileError(f"`{path}` is no text in UTF-8; save it in that encoding.")


def nearby(path: Path) -> str:
    """The end of an error message: a name in the same folder that is near."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder `{folder}` either."
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        names = []
    for near in difflib.get_close_matches(path.name, names, n=1):
        return f"did you mean `{folder / near}`?"
    return f"nothing in `{folder.absolute()}` has a name like it."


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: if it is no JSON, nested too deeply, or holds too large a number.
    """
    try:
        value = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    return bounded(value)


def bounded(value: Any) -> Any:
    """`value` itself, if all that reads it can hold it.

    Raises:
        ValueError: if it is nested too deeply, or holds a whole number beyond floats.
    """
    level = [value]
    for _ in range(DEEPEST):
        for each in level:
            if isinstance(each, int) and abs(each) > LARGEST:
                raise ValueError("a whole number in it is beyond 1e308")
        level = [item for each in level for item in _items(each)]
        if not level:
            return value
    raise ValueError(_too_deep())


def _items(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _whole(digits: str) -> int:
    if len(digits) > len(str(LARGEST)) + 1:  # Python itself refuses 4300 digits
        raise ValueError(f"the number {digits[:_SHOWN]}… in it is beyond 1e308")
    return int(digits)


def _too_deep() -> str:
    return f"it is nested more than {DEEPEST} deep"
