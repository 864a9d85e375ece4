"""Values of options: what the Tab key offers, and texts, typed or in a file."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from meanfield._reading import UTF_8
from meanfield.errors import InputFileError

from ._names import rows

Names = Callable[[object], list[str]]

_PIPED = "-"  # stands for standard input
_MARKS = ("@", "-")  # a value that begins so names a file or an option


def names_of(kind: str) -> Names:
    """The names of a kind, as `meanfield list` has it, read when they are asked for."""

    def names(_: object) -> list[str]:
        return [row["name"].partition(":")[0] for row in rows(kind)]

    return names


def words(*choices: str) -> Names:
    """Some words."""
    return lambda _: list(choices)


Preset = Annotated[str | None, Parameter(metavar="NAME", completer=names_of("presets"))]


def text_of(_: Any, tokens: Sequence[Token]) -> str:
    """The value of an option that takes one text."""
    return _read(tokens[0].value)


def texts_of(_: Any, tokens: Sequence[Token]) -> list[str]:
    """The values of an option that takes several."""
    return [_read(token.value) for token in tokens]


def _read(value: str) -> str:
    """The value itself, or for `-` the text on standard input.

    Raises:
        InputFileError: if there is none.
    """
    if value != _PIPED:
        return value
    if sys.stdin.isatty():
        sys.stderr.write("type a text; Ctrl-D ends it\n")
    try:
        text = sys.stdin.buffer.read().decode(UTF_8).strip()
    except UnicodeDecodeError:
        raise InputFileError("Standard input is no text in UTF-8.") from None
    if not text:
        raise InputFileError(
            "Standard input holds no text; pipe one, as by `cat alice.txt |`."
        )
    return f" {text}" if text.startswith(_MARKS) else text


Texts = Annotated[list[str], Parameter(converter=texts_of, allow_leading_hyphen=True)]
