"""Validation of the stored axes and results of a sweep, without importing JAX."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from meanfield.endings import Status
from meanfield.runs.records._validation import raise_damaged
from meanfield.spec import Axis, RunSpec

LARGEST = 2**63  # integers below this fit into NumPy's `int64`


def validate_axes(records: Sequence[Any], file: Path) -> tuple[Axis, ...]:
    """The axes in the record of a sweep.

    Raises:
        StoreError: if they are invalid.
    """
    axes = []
    for values in records:
        try:
            axes.append(TypeAdapter(Axis).validate_python(values))
        except ValidationError:
            raise_damaged(file, "one of its axes is invalid")
    are_distinct = len({axis.name for axis in axes}) == len(axes)
    if not axes or not are_distinct or not all(map(_is_axis, axes)):
        raise_damaged(file, "its axes are invalid")
    return tuple(axes)


def are_rows(part: Mapping[str, Any], cells: Sequence[int]) -> bool:
    """Whether a chunk has an ending and results for each of its cells."""
    columns = {k: v for k, v in part.items() if k not in ("cell", "ending")}
    return (
        part.get("cell") == cells
        and _is_column(part.get("ending"), cells)
        and {status.ending for status in Status}.issuperset(part["ending"])
        and all(name.isidentifier() and name.isascii() for name in columns)
        and all(_is_column(column, cells) for column in columns.values())
        and all(_is_cell(value) for column in columns.values() for value in column)
    )


def _is_axis(axis: Axis) -> bool:
    plain = (bool, int, float, str, list, type(None))
    texts = [repr(value) for value in axis.values]
    return (
        axis.key in RunSpec.model_fields
        and len(set(texts)) == len(texts) > 0
        and all(isinstance(value, plain) for value in axis.values)
        and all(_is_sound(value) for value in axis.values)
        and (axis.is_numeric or axis.scale == "list")
        and (axis.scale != "log" or min(axis.values) > 0)
    )


def _is_sound(value: object) -> bool:
    """Whether floats are finite and strings valid Unicode; true for other types."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return value.encode(errors="ignore").decode() == value
    return True


def _is_column(value: object, cells: Sequence[int]) -> bool:
    return isinstance(value, list) and len(value) == len(cells)


def _is_cell(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < LARGEST
    return value is None or isinstance(value, float)
