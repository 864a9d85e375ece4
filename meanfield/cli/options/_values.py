"""Values of options: shell completion, and texts from the command line or stdin."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from meanfield._reading import UTF_8
from meanfield.errors import InputFileError

from ._names import rows

Names = Callable[[object], list[str]]

_STDIN = "-"  # stands for standard input
_MARKS = ("@", "-")  # the first character of a file value (@) or an option (-)


def names_of(kind: str) -> Names:
    """Completer for names of one kind, or of several; they are loaded when needed."""

    def names(_: object) -> list[str]:
        entries = [row for part in kind.split() for row in rows(part)]
        return [entry["name"].partition(":")[0] for entry in entries]

    return names


def completer_of(*choices: str) -> Names:
    """Completer with fixed choices."""
    return lambda _: list(choices)


Preset = Annotated[str | None, Parameter(metavar="NAME", completer=names_of("presets"))]


def text_of(_: Any, tokens: Sequence[Token]) -> str:
    """Value of an option that takes one text."""
    return _read(tokens[0].value)


def texts_of(_: Any, tokens: Sequence[Token]) -> list[str]:
    """Values of an option that takes several texts."""
    return [_read(token.value) for token in tokens]


def _read(value: str) -> str:
    """The value itself, or for `-` the text on standard input.

    Raises:
        InputFileError: if standard input is empty or not UTF-8.
    """
    if value != _STDIN:
        return value
    if sys.stdin.isatty():
        sys.stderr.write("type a text; Ctrl-D ends it\n")
    try:
        text = sys.stdin.buffer.read().decode(UTF_8).strip()
    except UnicodeDecodeError:
        raise InputFileError("Standard input must be UTF-8 text.") from None
    if not text:
        raise InputFileError(
            "Standard input is empty. Pipe a text, as in `cat alice.txt |`."
        )
    return f" {text}" if text.startswith(_MARKS) else text


Texts = Annotated[list[str], Parameter(converter=texts_of, allow_leading_hyphen=True)]
