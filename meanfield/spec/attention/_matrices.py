"""Types of matrices in a spec: numbers, rows, files and laws, for one head or many."""

from typing import Annotated, cast

from pydantic import AfterValidator

Matrix = float | list[float] | list[list[float]] | str
HeadMatrix = float | list[list[float]] | str
Matrices = Matrix | list[HeadMatrix]


def heads_of(value: Matrices | None) -> list[HeadMatrix] | None:
    """The list of matrices, one for each head; `None` for a single matrix.

    A list of rows, each a list of numbers, is a single matrix.

    Examples:
        >>> from meanfield.spec import heads_of
        >>> heads_of([1.0, -1.0]), heads_of(1.0)
        ([1.0, -1.0], None)
    """
    is_nested = lambda part: any(isinstance(entry, list) for entry in part[:1])
    is_row = lambda part: isinstance(part, list) and not is_nested(part)
    if not isinstance(value, list) or all(map(is_row, value)):
        return None
    return cast(list[HeadMatrix], value)


def _rectangular(value: Matrices) -> Matrices:
    if not isinstance(value, list):
        return value
    rows = [row for row in value if isinstance(row, list)]
    if not value or (rows and not rows[0]):
        raise ValueError("is empty: give a number, or a list of rows")
    if len({len(row) for row in rows}) > 1:
        raise ValueError("has rows of different lengths: give rows of equal length")
    return value


def _each_rectangular(value: Matrices) -> Matrices:
    for part in heads_of(value) or ():
        _rectangular(part)
    return value if heads_of(value) else _rectangular(value)


Numbers = Annotated[Matrix, AfterValidator(_rectangular)]
HeadNumbers = Annotated[Matrices, AfterValidator(_each_rectangular)]
