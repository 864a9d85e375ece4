"""Arrays of numbers in files: `.npy`, and tables with commas, `.csv`."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from meanfield._reading import absent
from meanfield.errors import InputFileError

SAVED = "Write one by `numpy.save`, or a table of numbers as .csv."
WEIGHTS = frozenset({"weight", "weights", "mass"})  # names of what is no coordinate


def read_array(path: str | Path) -> np.ndarray:
    """The numbers in a `.npy` or `.csv` file, in double.

    The first line of a `.csv` file may name its columns.

    Raises:
        InputFileError: if it is missing, of another kind, or holds no finite numbers.
    """
    path = Path(path)
    readers = {".npy": _npy, ".csv": _csv}
    if path.suffix not in readers:
        raise InputFileError(f"`{path}` must end in .npy or .csv.")
    try:
        array = readers[path.suffix](path)
    except FileNotFoundError:
        raise absent(path) from None
    except (OSError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise InputFileError(
            f"`{path}` holds no array of numbers: {reason.rstrip('.')}. {SAVED}"
        ) from None
    if array.size == 0 or array.ndim > 2:
        raise InputFileError(
            f"`{path}` holds no matrix; its shape is {array.shape}. {SAVED}"
        )
    if not np.all(np.isfinite(array)):
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputFileError(
            f"`{path}` has an entry at {place}, counted from 0, that is not finite; "
            "put a number there."
        )
    return array


def _npy(path: Path) -> np.ndarray:
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise ValueError("real numbers are needed.")
    return array.astype(float)


def _csv(path: Path) -> np.ndarray:
    rows = _rows(path)
    number, cells = next(rows, (0, []))
    if not cells:
        raise ValueError("it is empty")
    names = number if _are_names(cells) else 0
    if names:
        _refuse_weights(cells)
        if next(rows, None) is None:
            raise ValueError("it has names of columns and no numbers")
    try:
        return np.loadtxt(
            path, delimiter=",", skiprows=names, ndmin=2, encoding="utf-8-sig"
        )
    except ValueError as error:
        _refuse_odd_line(path, names)
        raise error from None


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines that are neither empty nor comments, by their numbers, in cells."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip()
            if text:
                yield number, [cell.strip() for cell in text.split(",")]


def _are_names(cells: list[str]) -> bool:
    """Whether a first line names columns: of numbers, all cells would be."""
    return not any(_is_numeric(cell) for cell in cells) and all(
        cell.strip("\"'")[:1].isalpha() for cell in cells
    )


def _refuse_weights(names: list[str]) -> None:
    found = [name for name in names if name.strip("\"'").lower() in WEIGHTS]
    if found and len(names) > 1:
        raise ValueError(
            f"its column `{found[0]}` would be read as a coordinate; put weights in a "
            "file of their own, `--weights @FILE`"
        )


def _refuse_odd_line(path: Path, names: int) -> None:
    """Says which line of a table is not as it must be, if one is found."""
    width = 0
    for number, cells in _rows(path):
        if number <= names:
            continue
        width = width or len(cells)
        for column, cell in enumerate(cells, 1):
            if not _is_numeric(cell):
                by = "; its cells must be parted by commas" if ";" in cell else ""
                raise ValueError(
                    f"line {number}, column {column} is `{cell}`, which is no number"
                    f"{by}"
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
