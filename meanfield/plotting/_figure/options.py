"""Options of pictures and movies as data: what each does, its reader, who takes it.

A dataclass of options, `Look` or `Film`, has an `Option` beside the default of each
field; the command line, its help and the documentation of the class are made of these.
"""

import math
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from meanfield.errors import InvalidInputError

COLUMNS = {"1": 86.0, "2": 178.0}  # widths of journals, in millimetres
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}

Limits = tuple[float, float]
_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True)
class Option:
    """What a field of a dataclass of options is.

    Attributes:
        help: what it does, without its default.
        metavar: what stands for its value; nothing for a flag.
        read: its value, from the text of the command line; none where the type says it.
        without: what the flag `--no-NAME` does; empty if there is none.
        absent: the value that this flag stands for.
        panels: the pictures that take it; all if None.
        movies: likewise the movies; none for what only stands still.
    """

    help: str = ""
    metavar: str | None = None
    _: KW_ONLY
    read: Callable[[str], Any] | None = None
    without: str = ""
    absent: Any = False
    panels: tuple[str, ...] | None = None
    movies: tuple[str, ...] | None = None


def option(*words: str, default: Any = None, **more: Any) -> Any:
    """A field of a dataclass of options: the parts of its `Option`, and its default."""
    return field(default=default, metadata={"option": Option(*words, **more)})


class Field(NamedTuple):
    """An option with the type of its value and its default."""

    option: Option
    kind: type
    default: Any

    @property
    def help(self) -> str:
        """What it does, with its default if that is a value."""
        if self.default is None or isinstance(self.default, bool):
            return self.option.help
        sides = self.default if isinstance(self.default, tuple) else (self.default,)
        words = [x if isinstance(x, str) else f"{x:g}" for x in sides]
        return f"{self.option.help} [default: {'x'.join(words)}]"


def options_of(options: type) -> dict[str, Field]:
    """The options of a dataclass, by the names of its fields."""
    hints, rows = get_type_hints(options), {}
    for part in fields(options):
        value, row = hints[part.name], part.metadata["option"]
        kind = next(t for t in (*get_args(value), value) if t is not NoneType)
        rows[part.name] = Field(row, str if row.read else kind, part.default)
    return rows


def document(options: _Class) -> _Class:
    """The dataclass itself, with its options as the attributes in its documentation."""
    rows = [
        f"        {name}: {field.help or field.option.without}."
        for name, field in options_of(options).items()
    ]
    options.__doc__ = "\n".join([options.__doc__ or "", "    Attributes:", *rows])
    return options


def width_of(text: str) -> float:
    """A width in inches, from `1` or `2` columns of a journal, or a length as `85mm`.

    Raises:
        InvalidInputError: if it is neither.

    Examples:
        >>> from meanfield.plotting import width_of
        >>> round(width_of("1"), 2), width_of("254mm")
        (3.39, 10.0)
    """
    if text.strip() in COLUMNS:
        return COLUMNS[text.strip()] * _INCHES["mm"]
    length = _length(text)
    if length is None:
        raise InvalidInputError(
            f"`width` must be 1 or 2, for columns of a journal ({COLUMNS['1']:.0f} and "
            f"{COLUMNS['2']:.0f} mm), or a length such as 85mm, 8.5cm, 3.4in or 240pt; "
            f"got `{text}`."
        )
    return length


def height_of(text: str) -> float:
    """A height in inches, from a length as `85mm`.

    Raises:
        InvalidInputError: if it is none.

    Examples:
        >>> from meanfield.plotting import height_of
        >>> height_of("254mm")
        10.0
    """
    length = _length(text)
    if length is None:
        raise InvalidInputError(
            "`height` must be a length such as 85mm, 8.5cm, 3.4in or 240pt; got "
            f"`{text}`."
        )
    return length


def _length(text: str) -> float | None:
    """A length in inches; `None` if it is none."""
    number = re.fullmatch(r"([\d.]+)\s*(in|cm|mm|pt)", text.strip())
    if number is None:
        return None
    try:
        return float(number[1]) * _INCHES[number[2]]
    except ValueError:
        return None


def heads_of(text: str) -> tuple[int, ...]:
    """The numbers of heads, from `0,3,7` or `[0,3,7]`; each stands once.

    Raises:
        InvalidInputError: if they are no numbers from zero on.

    Examples:
        >>> from meanfield.plotting import heads_of
        >>> heads_of("0,3,7")
        (0, 3, 7)
    """
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InvalidInputError(
            f"`heads` must be numbers from 0 on, as 0,3,7; got `{text}`."
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def limits_of(name: str, text: str) -> Limits:
    """Two limits, from `0,2.5`.

    Raises:
        InvalidInputError: if they are not two numbers.

    Examples:
        >>> from meanfield.plotting import limits_of
        >>> limits_of("xlim", "0,2.5")
        (0.0, 2.5)
    """
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"`{name}` must be two numbers, as 0,2.5; got `{text}`."
        ) from None
    return low, high


def check_range(
    name: str, value: float | None, low: float, high: float, unit: str
) -> None:
    """Raises unless a number, if there is one, is between two.

    Raises:
        InvalidInputError: if it is not.
    """
    if value is not None and not low < value < high:
        raise InvalidInputError(
            f"`{name}` must be above {low:g} and below {high:g} {unit}; got {value:g}."
        )


def check_limits(name: str, limits: Limits | None) -> None:
    """Raises unless limits, if there are any, are finite and increase.

    Raises:
        InvalidInputError: if they do not.
    """
    if limits is None:
        return
    if not (all(map(math.isfinite, limits)) and limits[0] < limits[1]):
        raise InvalidInputError(
            f"`{name}` must be two numbers that increase, as 0,2.5; got "
            f"{','.join(f'{limit:g}' for limit in limits)}."
        )
