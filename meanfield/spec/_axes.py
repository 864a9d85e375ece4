"""Axes of a sweep: the keys that vary, and their values."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from meanfield._reading import json_or_text
from meanfield._registry import suggestion
from meanfield.errors import InvalidInputError

from ._model import KEYS, MATRICES, RunSpec
from ._parsing import parse
from .attention import options_of

GRAMMAR = (
    "write KEY=START:STOP:COUNT, KEY=START:STOP:COUNT:log or KEY=VALUE|VALUE; KEY may "
    "be A[0,1], options.NAME or drift.NAME"
)
_MAX_VALUES = 1_000_000  # largest COUNT of an axis; a larger one is taken for a typo
_NAME = r"[\w-]+(?:\.\w+)?(?:\[\d{1,9},\d{1,9}\])?"
_SEPARATOR = re.compile(rf",(?=\s*{_NAME}=)")
_AXIS = re.compile(
    r"\s*(\w+)(?:\.([A-Za-z]\w*))?(?:\[(\d{1,9}),(\d{1,9})\])?=(.*)",
    re.DOTALL | re.ASCII,
)


@dataclass(frozen=True)
class Axis:
    """An axis of a sweep: a key, a matrix entry or an option, and its values.

    Attributes:
        key: a key of `RunSpec`.
        values: distinct JSON values.
        scale: `linear` or `log` for values evenly spaced on that scale; else `list`.
        entry: row and column, if only one entry of a matrix varies.
        option: the option of the attention, or the part of the drift, that varies;
            `None` if there is none.

    Examples:
        >>> from meanfield.spec import parse_axes
        >>> (axis,) = parse_axes("epsilon=0.1:10:3:log")
        >>> axis.key, axis.values, axis.scale
        ('epsilon', (0.1, 1.0, 10.0), 'log')
    """

    key: str
    values: tuple[Any, ...]
    scale: Literal["linear", "log", "list"] = "list"
    entry: tuple[int, int] | None = None
    option: str | None = None

    @property
    def name(self) -> str:
        """The name as in `--over`: `A`, `A[0,1]`, `options.tau` or `drift.M[0,1]`."""
        whole = self.key if self.option is None else f"{self.key}.{self.option}"
        indices = ",".join(map(str, self.entry or ()))
        return whole if self.entry is None else f"{whole}[{indices}]"

    @property
    def is_whole(self) -> bool:
        """Whether the whole value of the key varies, not only an entry or an option."""
        return self.entry is None and self.option is None

    @property
    def pairs(self) -> list[tuple[str, Any]]:
        """Pairs (key, value), one for each value, as a spec stores them."""
        if self.option is None:
            return [(self.key, value) for value in self.values]
        return [(self.key, {self.option: value}) for value in self.values]

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text."""
        return tuple(_label(value) for value in self.values)

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(
            isinstance(value, int | float) and not isinstance(value, bool)
            for value in self.values
        )

    def as_json(self) -> dict[str, Any]:
        """The axis as JSON values."""
        values = json.loads(json.dumps(asdict(self)))
        if self.option is None:  # stored sweeps of older versions have no such key
            del values["option"]
        return values


def parse_axes(*texts: str) -> tuple[Axis, ...]:
    """Parses axes such as `A=-2:2:41,epsilon=0.1:10:41:log`, or one text for each axis.

    Raises:
        InvalidInputError: if a key is unknown, cannot be an axis or is given twice; or
            if values are missing, not numbers, or repeated.

    Examples:
        >>> from meanfield.spec import parse_axes
        >>> [
        ...     (axis.name, len(axis.values))
        ...     for axis in parse_axes("A=-2:2:41,seed=0|1|2")
        ... ]
        [('A', 41), ('seed', 3)]
    """
    parts = [part for text in texts for part in _SEPARATOR.split(text)]
    axes = [_axis(_normalise_key(part)) for part in parts]
    if not axes:
        raise InvalidInputError(f"A sweep needs an axis; {GRAMMAR}.")
    names: set[str] = set()
    for axis in axes:
        if any(_overlap(axis.name, name) for name in names):
            raise InvalidInputError(
                f"`{axis.key}` is given twice among the axes; leave one out."
            )
        names.add(axis.name)
    return tuple(axes)


def _overlap(name: str, other_name: str) -> bool:
    """Whether two names are equal, or one names a part of the other."""
    is_part = lambda part, whole: part.startswith((f"{whole}[", f"{whole}."))
    return name == other_name or is_part(name, other_name) or is_part(other_name, name)


def replace_values(spec: RunSpec, values: Sequence[tuple[Axis, Any]]) -> RunSpec:
    """`spec` with one value of each axis.

    Raises:
        InvalidInputError: naming the cell, if a value is invalid.

    Examples:
        >>> from meanfield.spec import parse, parse_axes, replace_values
        >>> (axis,) = parse_axes("epsilon=0.5|2")
        >>> replace_values(parse({"A": -1.0}), [(axis, 2.0)]).epsilon
        2.0
    """
    keys = spec.as_json()
    for axis, value in values:
        old = keys.get(axis.key)
        keys[axis.key] = value if axis.is_whole else _replace_value(old, axis, value)
    return parse(keys, where=f"the cell {cell_name(values)}")


def cell_name(values: Sequence[tuple[Axis, Any]]) -> str:
    """Name of a cell of a sweep, such as `A = 1, epsilon = 0.5`.

    Examples:
        >>> from meanfield.spec import cell_name, parse_axes
        >>> (axis,) = parse_axes("epsilon=0.5|2")
        >>> cell_name([(axis, 2.0)])
        'epsilon = 2'
    """
    return ", ".join(f"{axis.name} = {_label(value)}" for axis, value in values)


def _axis(text: str) -> Axis:
    match = _AXIS.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"`{text}` is not an axis; {GRAMMAR}.")
    key, option, row, column, rest = match.groups()
    entry = None if row is None else (int(row), int(column))
    _check_key(key, entry, option)
    name = text.partition("=")[0].strip()
    if "|" in rest:
        values = tuple(_value(part.strip(), name) for part in rest.split("|"))
        return _distinct(Axis(key, values, "list", entry, option))
    parts = rest.split(":")
    if len(parts) not in (3, 4) or (len(parts) == 4 and parts[3].strip() != "log"):
        raise InvalidInputError(f"`{text}` is not an axis; {GRAMMAR}.")
    start, stop = (_number(part, text) for part in parts[:2])
    count = _count(parts[2], text)
    if start == stop:
        raise InvalidInputError(
            f"In `{text}`: START and STOP are the same; give two different numbers."
        )
    scale = "linear" if len(parts) == 3 else "log"
    if scale == "log" and min(start, stop) <= 0:
        raise InvalidInputError(
            f"In `{text}`: START and STOP of a `log` axis must be > 0. Leave out "
            "`:log`, or give positive numbers."
        )
    spread = np.linspace if scale == "linear" else np.geomspace
    return Axis(key, tuple(spread(start, stop, count).tolist()), scale, entry, option)


def _normalise_key(text: str) -> str:
    """The text with underscores in its key: `half-width=1|2` gives `half_width=1|2`."""
    key, sign, values = text.partition("=")
    return key.replace("-", "_") + sign + values


def _check_key(key: str, entry: tuple[int, int] | None, option: str | None) -> None:
    if key not in KEYS:
        hint = suggestion(key, list(KEYS))
        raise InvalidInputError(f"There is no key `{key}` to sweep over; {hint}")
    if KEYS[key].no_axis:
        raise InvalidInputError(f"`{key}` cannot be an axis: {KEYS[key].no_axis}.")
    if entry is not None and option is None and key not in MATRICES:
        raise InvalidInputError(
            f"`{key}` is not a matrix, and has no entry to sweep over; sweep over "
            f"`{key}` itself."
        )
    if option is not None and KEYS[key].holds != "options":
        raise InvalidInputError(
            f"`{key}` has no options to sweep over; write `options.NAME` for an option "
            "of the attention, and `drift.NAME` for a part of the drift."
        )


def _distinct(axis: Axis) -> Axis:
    for i, value in enumerate(axis.values):
        if value in axis.values[:i]:
            raise InvalidInputError(
                f"The axis `{axis.name}` has the value {_label(value)} twice; leave "
                "one out."
            )
    return axis


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInputError(
            f"In `{whole}`: `{text}` is not a finite number; {GRAMMAR}."
        )
    return value


def _count(text: str, whole: str) -> int:
    # One extra digit is enough to detect that a number is too large.
    short = text.strip()[: len(str(_MAX_VALUES)) + 1]
    count = int(short) if text.strip().isdecimal() else 0
    if not 2 <= count <= _MAX_VALUES:
        raise InvalidInputError(
            f"In `{whole}`: COUNT must be a whole number from 2 to {_MAX_VALUES}; got "
            f"`{text}`."
        )
    return count


def _value(text: str, name: str) -> Any:
    """The JSON value of a text, or the text itself if it is not JSON."""
    if not text:
        raise InvalidInputError(f"The axis `{name}` has an empty value; {GRAMMAR}.")
    try:
        return json_or_text(text)
    except ValueError as error:
        raise InvalidInputError(
            f"A value of the axis `{name}` is invalid: {error}."
        ) from None


def _replace_value(old: Any, axis: Axis, value: Any) -> Any:
    """The matrix or the options `old`, with one value replaced."""
    if axis.option is None:
        return _replace_entry(old, axis, value)
    options = options_of(old or {})
    if axis.entry is not None:
        value = _replace_entry(options.get(axis.option), axis, value)
    return {**options, axis.option: value}


def _replace_entry(matrix: Any, axis: Axis, value: Any) -> list[list[Any]]:
    row, column = axis.entry or (0, 0)
    rows = isinstance(matrix, list) and all(isinstance(r, list) for r in matrix)
    if not rows or row >= len(matrix) or column >= len(matrix[row]):
        raise InvalidInputError(
            f"To sweep over `{axis.name}`, give `{axis.name.partition('[')[0]}` as a "
            "list of rows large enough for this entry, such as [[1,0],[0,1]]; got "
            f"{_label(matrix)}."
        )
    new = [list(r) for r in matrix]
    new[row][column] = value
    return new


def _label(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value)
