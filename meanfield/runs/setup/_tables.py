"""Reading `.csv` tables, with checks for the index columns that pandas and R write."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from meanfield._reading import UTF_8, encoding_error

# Columns with these names are not coordinates. `FRAMES` has the names in our exports.
WEIGHTS = frozenset({"weight", "weights", "mass"})
ROWS = frozenset({"index", "unnamed: 0", "level_0", "rownames", "row_names", "id"})
FRAMES = frozenset({"run", "time", "layer", "token", "position", "density"})
_INDEX_ADVICE = "leave it out, with `index=False` in pandas or `row.names = FALSE` in R"
_FLOAT_ADVICE = "if these are data, write them with a decimal point, such as `0.0`"


def read_table(path: Path) -> np.ndarray:
    """The numbers in a `.csv` file; the first line may name its columns.

    Column numbers and row numbers, as pandas and R write them, are not data.

    Raises:
        InputFileError: if the file is not UTF-8 text.
        ValueError: if an entry is not a number, or a column does not look like a
            coordinate.
    """
    try:
        return _read(path)
    except UnicodeDecodeError:
        raise encoding_error(path) from None


def _read(path: Path) -> np.ndarray:
    first = list(islice(_rows(path), 2))
    if not first:
        raise ValueError("it is empty")
    number, cells = first[0]
    if len(cells) > 1 and not cells[0]:
        raise ValueError(
            f"its first column has no name, so it seems to name rows; {_INDEX_ADVICE}"
        )
    if not _are_names(cells):
        table = _numbers(path, n_skipped=0, width=0)
        _check_counts(path, table)
        return table
    _check_names(cells)
    if len(first) == 1:
        raise ValueError("it has names of columns, but no numbers")
    return _numbers(path, n_skipped=number, width=len(cells))


def _numbers(path: Path, *, n_skipped: int, width: int) -> np.ndarray:
    """The numbers after `n_skipped` lines, in rows of `width` (any length if zero)."""
    try:
        with path.open(encoding=UTF_8) as file:
            table = np.loadtxt(
                file, delimiter=",", skiprows=n_skipped, ndmin=2, quotechar='"'
            )
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        _check_lines(path, n_skipped, width)
        raise error from None
    if width and table.shape[1] != width:
        _check_lines(path, n_skipped, width)
    return table


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The line number and cells of each line that is neither empty nor a comment."""
    with path.open(encoding=UTF_8) as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip()
            if text:
                cells = next(csv.reader([text])) if '"' in text else text.split(",")
                yield number, [cell.strip() for cell in cells]


def _are_names(cells: list[str]) -> bool:
    """Whether the cells of a first line are column names, which begin with letters."""
    return not any(_is_numeric(cell) for cell in cells) and all(
        cell.strip("'")[:1].isalpha() for cell in cells
    )


def _check_names(names: list[str]) -> None:
    """Raises if the name of a column says that it holds weights, rows or frames."""
    if len(names) == 1:
        return
    for name in names:
        plain = name.strip("'").lower()
        where = f"its column `{name}` would be read as a coordinate"
        if plain in WEIGHTS:
            raise ValueError(
                f"{where}; put weights into a separate file, and use `--weights @FILE`"
            )
        if plain in ROWS:
            raise ValueError(f"{where}; {_INDEX_ADVICE}")
        if plain in FRAMES:
            raise ValueError(
                f"{where}; if it is a coordinate, rename the column, otherwise omit it"
            )


def _check_counts(path: Path, table: np.ndarray) -> None:
    """Raises if the first line or column looks like column or row numbers, not data.

    A square table of integers is accepted as a matrix.
    """
    n, k = table.shape
    if n == 1:
        return
    counts_columns = np.array_equal(table[0], np.arange(k))
    counts_rows = k > 1 and table[0, 0] in (0, 1) and np.all(np.diff(table[:, 0]) == 1)
    if not (counts_columns or counts_rows):
        return
    rows = [cells for _, cells in _rows(path)]
    line, body = rows[0], chain(*rows[1:])
    if counts_columns and _may_count(line, body, is_square=n == k):
        raise ValueError(
            f"its first line `{','.join(line)}` looks like column numbers from pandas; "
            f"omit that line with `header=False`, or, {_FLOAT_ADVICE}"
        )
    column, tails = zip(*((cells[0], cells[1:]) for cells in rows), strict=True)
    if counts_rows and _may_count(column, chain(*tails), is_square=n == k):
        raise ValueError(
            f"its first column seems to count rows; {_INDEX_ADVICE}, or, "
            f"{_FLOAT_ADVICE}"
        )


def _may_count(counts: Sequence[str], rest: Iterable[str], *, is_square: bool) -> bool:
    """Whether the cells `counts` may be column or row numbers, judging by `rest`."""
    if not all(cell.isdigit() for cell in counts):
        return False
    return not is_square or not any(cell.lstrip("+-").isdigit() for cell in rest)


def _check_lines(path: Path, n_skipped: int, width: int) -> None:
    """Raises at the first line that is not a row of numbers, if there is one."""
    for number, cells in _rows(path):
        if number <= n_skipped:
            continue
        width = width or len(cells)
        for column, cell in enumerate(cells, 1):
            if not _is_numeric(cell):
                hint = set(cell) & set(";\t ") and "; separate cells by commas"
                raise ValueError(
                    f"line {number}, column {column} holds `{cell}`, not a number"
                    f"{hint or ''}"
                )
        if len(cells) != width:
            raise ValueError(
                f"line {number} has {len(cells)} cells, but earlier lines have {width}"
            )


def _is_numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
