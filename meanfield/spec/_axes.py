"""Axes of a sweep: the keys that vary, and their values."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from meanfield._reading import json_value
from meanfield._registry import suggestion
from meanfield.errors import InvalidInputError

from ._model import KEYS, MATRICES, RunSpec
from ._parsing import parse
from .attention import options_of

GRAMMAR = (
    "write KEY=START:STOP:COUNT, KEY=START:STOP:COUNT:log or KEY=VALUE|VALUE; KEY may "
    "be A[0,1], options.NAME or drift.NAME"
)
_MOST = 1_000_000  # values on one axis: more are a slip of the pen
_NAME = r"[\w-]+(?:\.\w+)?(?:\[\d{1,9},\d{1,9}\])?"
_BETWEEN = re.compile(rf",(?=\s*{_NAME}=)")
_AXIS = re.compile(
    r"\s*(\w+)(?:\.([A-Za-z]\w*))?(?:\[(\d{1,9}),(\d{1,9})\])?=(.*)",
    re.DOTALL | re.ASCII,
)


@dataclass(frozen=True)
class Axis:
    """A key of a spec, an entry of a matrix or an option, and the values it takes.

    Attributes:
        key: a key of `RunSpec`.
        values: JSON values, no two of them equal.
        scale: `linear` and `log` are evenly spaced so; a `list` has no order.
        entry: row and column, if only one entry of a matrix varies.
        option: its name, if one option of an attention, or part of a drift, varies.

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
        """How people write it: `A`, `A[0,1]`, `options.tau` or `drift.M[0,1]`."""
        whole = self.key if self.option is None else f"{self.key}.{self.option}"
        indices = ",".join(map(str, self.entry or ()))
        return whole if self.entry is None else f"{whole}[{indices}]"

    @property
    def is_whole(self) -> bool:
        """Whether all of its key varies."""
        return self.entry is None and self.option is None

    @property
    def pairs(self) -> list[tuple[str, Any]]:
        """Its key with each value, as a spec has them."""
        if self.option is None:
            return [(self.key, value) for value in self.values]
        return [(self.key, {self.option: value}) for value in self.values]

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as people write them."""
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
        if self.option is None:  # as versions stored it that knew none
            del values["option"]
        return values


def parse_axes(*texts: str) -> tuple[Axis, ...]:
    """Axes from text: `A=-2:2:41,epsilon=0.1:10:41:log`, or one text for each.

    Raises:
        InvalidInputError: if a key is unknown, or no axis, or given twice; or if its
            values are none, not numbers, or repeat themselves.

    Examples:
        >>> from meanfield.spec import parse_axes
        >>> [
        ...     (axis.name, len(axis.values))
        ...     for axis in parse_axes("A=-2:2:41,seed=0|1|2")
        ... ]
        [('A', 41), ('seed', 3)]
    """
    axes = [_axis(_spelled(part)) for text in texts for part in _BETWEEN.split(text)]
    if not axes:
        raise InvalidInputError(f"A sweep needs an axis; {GRAMMAR}.")
    seen: set[str] = set()
    for axis in axes:
        if any(_overlap(axis.name, name) for name in seen):
            raise InvalidInputError(
                f"`{axis.key}` is given twice among the axes; leave one out."
            )
        seen.add(axis.name)
    return tuple(axes)


def _overlap(name: str, other: str) -> bool:
    """Whether one of two is the other, or a part of it."""
    is_part = lambda part, whole: part.startswith((f"{whole}[", f"{whole}."))
    return name == other or is_part(name, other) or is_part(other, name)


def with_values(spec: RunSpec, values: Sequence[tuple[Axis, Any]]) -> RunSpec:
    """`spec` with one value of each axis.

    Raises:
        InvalidInputError: if a value does not work, naming the cell.

    Examples:
        >>> from meanfield.spec import parse, parse_axes, with_values
        >>> (axis,) = parse_axes("epsilon=0.5|2")
        >>> with_values(parse({"A": -1.0}), [(axis, 2.0)]).epsilon
        2.0
    """
    keys = spec.as_json()
    for axis, value in values:
        old = keys.get(axis.key)
        keys[axis.key] = value if axis.is_whole else _replaced(old, axis, value)
    return parse(keys, where=f"the cell {cell_name(values)}")


def cell_name(values: Sequence[tuple[Axis, Any]]) -> str:
    """A cell as people write it: `A = 1, epsilon = 0.5`.

    Examples:
        >>> from meanfield.spec import cell_name, parse_axes
        >>> (axis,) = parse_axes("epsilon=0.5|2")
        >>> cell_name([(axis, 2.0)])
        'epsilon = 2'
    """
    return ", ".join(f"{axis.name} = {_label(value)}" for axis, value in values)


def _axis(text: str) -> Axis:
    found = _AXIS.fullmatch(text)
    if found is None:
        raise InvalidInputError(f"`{text}` is no axis; {GRAMMAR}.")
    key, option, row, column, rest = found.groups()
    entry = None if row is None else (int(row), int(column))
    _check_key(key, entry, option)
    name = text.partition("=")[0].strip()
    if "|" in rest:
        values = tuple(_value(part.strip(), name) for part in rest.split("|"))
        return _distinct(Axis(key, values, "list", entry, option))
    parts = rest.split(":")
    if len(parts) not in (3, 4) or (len(parts) == 4 and parts[3].strip() != "log"):
        raise InvalidInputError(f"`{text}` is no axis; {GRAMMAR}.")
    start, stop = (_number(part, text) for part in parts[:2])
    count = _count(parts[2], text)
    if start == stop:
        raise InvalidInputError(
            f"In `{text}`: START and STOP are the same; give two numbers."
        )
    if len(parts) == 3:
        values = tuple(np.linspace(start, stop, count).tolist())
        return Axis(key, values, "linear", entry, option)
    if start <= 0 or stop <= 0:
        raise InvalidInputError(
            f"In `{text}`: START and STOP of a `log` axis are > 0; leave out `:log`, "
            "or give positive ones."
        )
    values = tuple(np.geomspace(start, stop, count).tolist())
    return Axis(key, values, "log", entry, option)


def _spelled(text: str) -> str:
    """An axis whose key may be spelled as its option is: `half-width=1|2`."""
    key, sign, values = text.partition("=")
    return key.replace("-", "_") + sign + values


def _check_key(key: str, entry: tuple[int, int] | None, option: str | None) -> None:
    if key not in KEYS:
        near = suggestion(key, list(KEYS))
        raise InvalidInputError(f"There is no key `{key}` to sweep over; {near}")
    if KEYS[key].no_axis:
        raise InvalidInputError(f"`{key}` cannot be an axis: {KEYS[key].no_axis}.")
    if entry is not None and option is None and key not in MATRICES:
        raise InvalidInputError(
            f"`{key}` is no matrix: it has no entry to sweep over; sweep over `{key}` "
            "itself."
        )
    if option is not None and KEYS[key].holds != "options":
        raise InvalidInputError(
            f"`{key}` has no options to sweep over; those of an attention are "
            "`options.NAME`, those of a drift `drift.NAME`."
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
        raise InvalidInputError(f"In `{whole}`: `{text}` is no number; {GRAMMAR}.")
    return value


def _count(text: str, whole: str) -> int:
    short = text.strip()[: len(str(_MOST)) + 1]  # enough to see that it is too large
    count = int(short) if text.strip().isdecimal() else 0
    if not 2 <= count <= _MOST:
        raise InvalidInputError(
            f"In `{whole}`: COUNT must be a whole number from 2 to {_MOST}; got "
            f"`{text}`."
        )
    return count


def _value(text: str, name: str) -> Any:
    """A JSON value, or a word."""
    if not text:
        raise InvalidInputError(f"The axis `{name}` has an empty value; {GRAMMAR}.")
    try:
        return json_value(text)
    except json.JSONDecodeError:
        return text
    except ValueError as error:
        raise InvalidInputError(f"A value of the axis `{name}`: {error}.") from None


def _replaced(old: Any, axis: Axis, value: Any) -> Any:
    """A matrix with another entry, or options with another value."""
    if axis.option is None:
        return _with_entry(old, axis, value)
    options = options_of(old or {})
    if axis.entry is not None:
        value = _with_entry(options.get(axis.option), axis, value)
    return {**options, axis.option: value}


def _with_entry(matrix: Any, axis: Axis, value: Any) -> list[list[Any]]:
    row, column = axis.entry or (0, 0)
    rows = isinstance(matrix, list) and all(isinstance(r, list) for r in matrix)
    if not rows or row >= len(matrix) or column >= len(matrix[row]):
        raise InvalidInputError(
            f"To sweep over `{axis.name}`, give `{axis.name.partition('[')[0]}` as a "
            "matrix that has this entry, a list of rows such as [[1,0],[0,1]]; got "
            f"{_label(matrix)}."
        )
    new = [list(r) for r in matrix]
    new[row][column] = value
    return new


def _label(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value)
