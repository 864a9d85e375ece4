"""Options of pictures and movies as data: help, parser, and scope of each option.

Each field of a dataclass of options, `Look` or `Film`, has an `Option` in its metadata.
The command line, its help and the docstring of the class are generated from these
options.
"""

import contextlib
import difflib
import math
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from meanfield.errors import InvalidInputError, UnknownNameError

COLUMNS = {"1": 86.0, "2": 178.0}  # widths of 1 and 2 journal columns, in millimetres
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
_LENGTH = re.compile(r"(\d+\.?\d*|\.\d+)\s*(in|cm|mm|pt)")

MAIN = "main"  # names the main axes
_AXES = re.compile(rf"[1-9]\d*(,[1-9]\d*){{0,2}}|{MAIN}(:[123])?")

Limits = tuple[float, float]
_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True)
class Option:
    """Description of an option, a field of a dataclass such as `Look`.

    Attributes:
        help: its help text, without the default.
        metavar: the placeholder of its value in the help; None for a flag.
        read: parser of the text on the command line; None if the type parses it.
        negation_help: help text of the flag `--no-NAME`; empty if there is no such
            flag.
        negation_value: the value that `--no-NAME` sets.
        panels: the pictures that take it; if None, all pictures.
        movies: the movies that take it; if None, all movies; if empty, none.
    """

    help: str = ""
    metavar: str | None = None
    _: KW_ONLY
    read: Callable[[str], Any] | None = None
    negation_help: str = ""
    negation_value: Any = False
    panels: tuple[str, ...] | None = None
    movies: tuple[str, ...] | None = None


def option(*texts: str, default: Any = None, **more: Any) -> Any:
    """A dataclass field with a default and an `Option` made of the other arguments."""
    return field(default=default, metadata={"option": Option(*texts, **more)})


class Field(NamedTuple):
    """An option together with the type of its value and its default."""

    option: Option
    kind: type
    default: Any

    @property
    def help(self) -> str:
        """The help text, followed by the default unless that is None, True or False."""
        if self.default is None or isinstance(self.default, bool):
            return self.option.help
        sides = self.default if isinstance(self.default, tuple) else (self.default,)
        parts = [x if isinstance(x, str) else f"{x:g}" for x in sides]
        return f"{self.option.help} [default: {'x'.join(parts)}]"


def options_of(options: type) -> dict[str, Field]:
    """Mapping from the field names of a dataclass to its options."""
    hints, rows = get_type_hints(options), {}
    for part in fields(options):
        value, row = hints[part.name], part.metadata["option"]
        kind = next(t for t in (*get_args(value), value) if t is not NoneType)
        rows[part.name] = Field(row, str if row.read else kind, part.default)
    return rows


def document(options: _Class) -> _Class:
    """Class decorator that lists the options as attributes in the docstring."""
    rows = [
        f"        {name}: {field.help or field.option.negation_help}."
        for name, field in options_of(options).items()
    ]
    options.__doc__ = "\n".join([options.__doc__ or "", "    Attributes:", *rows])
    return options


def width_of(text: str) -> float:
    """A width in inches, parsed from `1` or `2` journal columns or a length (`85mm`).

    Raises:
        InvalidInputError: if the text is neither.

    Examples:
        >>> from meanfield.plotting import width_of
        >>> round(width_of("1"), 2), width_of("254mm")
        (3.39, 10.0)
    """
    if text.strip() in COLUMNS:
        return COLUMNS[text.strip()] * _INCHES["mm"]
    columns = " or ".join(f"{n} ({width:.0f} mm)" for n, width in COLUMNS.items())
    return _length("width", text, f", or the number of journal columns: {columns}")


def height_of(text: str) -> float:
    """A height in inches, parsed from a length such as `85mm`.

    Raises:
        InvalidInputError: if the text is not a length.

    Examples:
        >>> from meanfield.plotting import height_of
        >>> height_of("254mm")
        10.0
    """
    return _length("height", text)


def _length(name: str, text: str, more: str = "") -> float:
    """A length in inches; the message of an error also names the values `more`."""
    number = _LENGTH.fullmatch(text.strip())
    if number is None:
        raise InvalidInputError(
            f"`{name}` must be a length such as 85mm, 8.5cm, 3.4in or 240pt{more}; got "
            f"`{text}`."
        )
    return float(number[1]) * _INCHES[number[2]]


def heads_of(text: str) -> tuple[int, ...]:
    """Distinct indices of heads, parsed from `0,3,7` or `[0,3,7]`.

    Raises:
        InvalidInputError: if the text is not a list of nonnegative integers.

    Examples:
        >>> from meanfield.plotting import heads_of
        >>> heads_of("0,3,7")
        (0, 3, 7)
    """
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InvalidInputError(
            f"`heads` must be nonnegative integers, such as 0,3,7; got `{text}`."
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def camera_of(text: str) -> Limits:
    """The azimuth and the elevation of a camera in degrees, from `-30,60`.

    Raises:
        InvalidInputError: if the text is not two finite numbers.
    """
    with contextlib.suppress(ValueError):
        azimuth, elevation = map(float, text.split(","))
        if math.isfinite(azimuth) and math.isfinite(elevation):
            return azimuth, elevation
    raise InvalidInputError(
        f"`camera` must be two angles in degrees, such as -30,60; got `{text}`."
    )


def limits_of(name: str, text: str) -> Limits:
    """Two limits, parsed from text such as `0,2.5`.

    Raises:
        InvalidInputError: if the text is not two numbers.

    Examples:
        >>> from meanfield.plotting import limits_of
        >>> limits_of("xlim", "0,2.5")
        (0.0, 2.5)
    """
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"`{name}` must be two numbers, such as 0,2.5; got `{text}`."
        ) from None
    return low, high


def check_range(
    name: str, value: float | None, low: float, high: float, unit: str
) -> None:
    """Raises unless `value` is None or strictly between `low` and `high`.

    Raises:
        InvalidInputError: if `value` is out of range.
    """
    if value is not None and not low < value < high:
        raise InvalidInputError(
            f"`{name}` must be above {low:g} and below {high:g} {unit}; got {value:g}."
        )


def check_limits(name: str, limits: Limits | None) -> None:
    """Raises unless `limits` are None or two finite, increasing numbers.

    Raises:
        InvalidInputError: if `limits` are not such numbers.
    """
    if limits and not (all(map(math.isfinite, limits)) and limits[0] < limits[1]):
        raise InvalidInputError(
            f"`{name}` must be two increasing numbers, such as 0,2.5; got "
            f"{','.join(f'{limit:g}' for limit in limits)}."
        )


def check_scale(name: str, scale: str | None) -> None:
    """Raises unless `scale` is None or the name of a scale.

    Raises:
        InvalidInputError: if it is not.
    """
    if scale not in (None, "linear", "log"):
        raise InvalidInputError(f"`{name}` must be linear or log; got `{scale}`.")


def check_map(name: str) -> None:
    """Raises unless matplotlib has the colour map; suggests similar names.

    Raises:
        UnknownNameError: if it has no map of this name.
    """
    from matplotlib import colormaps  # imported here to keep `--help` fast

    if name in colormaps:
        return
    matches = difflib.get_close_matches(
        name.casefold(), list(colormaps), n=4, cutoff=0.5
    )
    hint = " or ".join(f"`{match}`" for match in matches) or "viridis, cividis or magma"
    raise UnknownNameError(f"There is no colour map `{name}`; use one such as {hint}.")


def check_axes(axes: str | None) -> None:
    """Raises unless the text names one to three coordinates or main axes.

    Raises:
        InvalidInputError: if it does not.
    """
    places = (axes or "").split(",")
    is_valid = axes is None or _AXES.fullmatch(axes)
    if is_valid and len(set(places)) == len(places):
        return
    raise InvalidInputError(
        "`axes` must be one to three coordinates, from 1, such as 1,3; or main, or "
        f"main:3, for the two or three main axes; got `{axes}`."
    )
