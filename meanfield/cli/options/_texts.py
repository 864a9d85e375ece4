"""A text as an option takes it: typed, in a file, or from standard input."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from meanfield._reading import UTF_8
from meanfield.errors import InputFileError

_PIPED = "-"  # stands for standard input
_MARKS = ("@", "-")  # a value that begins so names a file or an option


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
