"""Tables with commas: numbers, and what pandas and R write beside them."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from meanfield._reading import UTF_8, not_utf_8

WEIGHTS = frozenset({"weight", "weights", "mass"})  # names of what is no coordinate
ROWS = frozenset({"index", "unnamed: 0", "level_0", "rownames", "row_names", "id"})
FRAMES = frozenset({"run", "time", "layer", "token", "position", "density"})  # exported
_WITHOUT = "leave it out, by `index=False` in pandas or `row.names = FALSE` in R"
_POINTS = "write its numbers with points, as `0.0`"


def read_table(path: Path) -> np.ndarray:
    """The numbers in a `.csv` file; the first line may name its columns.

    Numbers of the columns or of the rows, as pandas and R write them, are no data.

    Raises:
        InputFileError: if it is no text in UTF-8.
        ValueError: saying what is no number, or may be no coordinate.
    """
    try:
        return _read(path)
    except UnicodeDecodeError:
        raise not_utf_8(path) from None


def _read(path: Path) -> np.ndarray:
    first = list(islice(_rows(path), 2))
    if not first:
        raise ValueError("it is empty")
    number, cells = first[0]
    if len(cells) > 1 and not cells[0]:
        raise ValueError(
            f"its first column has no name and holds names of rows; {_WITHOUT}"
        )
    if not _are_names(cells):
        table = _numbers(path, skipped=0, width=0)
        _check_counts(path, table)
        return table
    _check_names(cells)
    if len(first) == 1:
        raise ValueError("it has names of columns and no numbers")
    return _numbers(path, skipped=number, width=len(cells))


def _numbers(path: Path, *, skipped: int, width: int) -> np.ndarray:
    """The numbers below some lines; as many in each as `width`, unless it is zero."""
    try:
        with path.open(encoding=UTF_8) as file:
            table = np.loadtxt(
                file, delimiter=",", skiprows=skipped, ndmin=2, quotechar='"'
            )
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        _check_lines(path, skipped, width)
        raise error from None
    if width and table.shape[1] != width:
        _check_lines(path, skipped, width)
    return table


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines that are neither empty nor comments, by their numbers, in cells."""
    with path.open(encoding=UTF_8) as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip()
            if text:
                cells = next(csv.reader([text])) if '"' in text else text.split(",")
                yield number, [cell.strip() for cell in cells]


def _are_names(cells: list[str]) -> bool:
    """Whether a first line names columns: of numbers, all cells would be."""
    return not any(_is_numeric(cell) for cell in cells) and all(
        cell.strip("'")[:1].isalpha() for cell in cells
    )


def _check_names(names: list[str]) -> None:
    """Raises where a name says that its column is no coordinate, unless it is alone."""
    if len(names) == 1:
        return
    for name in names:
        plain = name.strip("'").lower()
        where = f"its column `{name}` would be read as a coordinate"
        if plain in WEIGHTS:
            raise ValueError(
                f"{where}; put weights in a file of their own, `--weights @FILE`"
            )
        if plain in ROWS:
            raise ValueError(f"{where}; {_WITHOUT}")
        if plain in FRAMES:
            raise ValueError(f"{where}; leave it out, or rename it if it is one")


def _check_counts(path: Path, table: np.ndarray) -> None:
    """Raises where a first line or column may count columns or rows, and be no data.

    A square table of whole numbers is read as the matrix that it looks like.
    """
    n, k = table.shape
    if n == 1:
        return
    counts_columns = np.array_equal(table[0], np.arange(k))
    counts_rows = k > 1 and table[0, 0] in (0, 1) and np.all(np.diff(table[:, 0]) == 1)
    if not (counts_columns or counts_rows):
        return
    rows = [cells for _, cells in _rows(path)]
    line, below = rows[0], chain(*rows[1:])
    if counts_columns and _may_count(line, below, is_square=n == k):
        raise ValueError(
            f"its first line `{','.join(line)}` may be names of columns, as pandas "
            f"writes them; leave it out by `header=False`, or {_POINTS}"
        )
    column, others = zip(*((cells[0], cells[1:]) for cells in rows), strict=True)
    if counts_rows and _may_count(column, chain(*others), is_square=n == k):
        raise ValueError(
            f"its first column may count the rows; {_WITHOUT}, or {_POINTS}"
        )


def _may_count(counts: Sequence[str], rest: Iterable[str], *, is_square: bool) -> bool:
    """Whether numbers written as counts are, among the other cells of a table."""
    if not all(cell.isdigit() for cell in counts):
        return False
    return not is_square or not any(cell.lstrip("+-").isdigit() for cell in rest)


def _check_lines(path: Path, skipped: int, width: int) -> None:
    """Raises at the first line that is no row of numbers, if there is one."""
    for number, cells in _rows(path):
        if number <= skipped:
            continue
        width = width or len(cells)
        for column, cell in enumerate(cells, 1):
            if not _is_numeric(cell):
                by = set(cell) & set(";\t ") and "; its cells must be parted by commas"
                raise ValueError(
                    f"line {number}, column {column} is `{cell}`, which is no number"
                    f"{by or ''}"
                )
        if len(cells) != width:
            raise ValueError(
                f"line {number} has {len(cells)} cells, those before it have {width}"
            )


def _is_numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
