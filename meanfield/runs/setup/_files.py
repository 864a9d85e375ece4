"""Reading arrays of numbers from `.npy` and `.csv` files."""

import contextlib
from pathlib import Path

import numpy as np

from meanfield._reading import missing_file_error, path_of
from meanfield.errors import InputFileError

from ._tables import read_table

SAVE_ADVICE = "Write one with `numpy.save`, or a table of numbers as .csv."
CONVERSIONS = {  # how to convert other files that NumPy writes
    ".npz": 'numpy.save("NEW.npy", numpy.load("OLD")["NAME"])',
    ".txt": 'numpy.save("NEW.npy", numpy.loadtxt("OLD"))',
    ".dat": 'numpy.save("NEW.npy", numpy.loadtxt("OLD"))',
}


def read_array(path: str | Path) -> np.ndarray:
    """The numbers in a `.npy` or `.csv` file, in double precision.

    The first line of a `.csv` file may name its columns; see `read_table`.

    Raises:
        InputFileError: if the file is missing or has another suffix, or does not hold
            an array of finite numbers with at most two axes.
    """
    path = path_of(path)
    readers = {".npy": _npy, ".csv": read_table}
    if path.suffix not in readers:
        raise InputFileError(
            f"The file name `{path}` must end in .npy or .csv.{_conversion(path)}"
        )
    try:
        array = readers[path.suffix](path)
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except (OSError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise InputFileError(
            f"`{path}` is not an array of numbers: {reason.rstrip('.')}. {SAVE_ADVICE}"
        ) from None
    if array.size == 0 or array.ndim > 2:
        raise InputFileError(
            f"`{path}` must hold a matrix; its shape is {array.shape}. {SAVE_ADVICE}"
        )
    if not np.all(np.isfinite(array)):
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputFileError(
            f"`{path}` must hold finite numbers; the entry at {place} (counted from 0) "
            "is not finite."
        )
    return array


def _conversion(path: Path) -> str:
    """Advice on how to convert a file; empty if its suffix is not known."""
    command = CONVERSIONS.get(path.suffix)
    if command is None:
        return ""
    command = command.replace("OLD", path.name).replace("NEW", path.stem)
    if path.suffix == ".npz" and path.is_file():
        with contextlib.suppress(OSError, ValueError), np.load(path) as archive:
            command = command.replace("NAME", next(iter(archive), "NAME"))
    return f" Convert it in Python: `{command}`."


def _npy(path: Path) -> np.ndarray:
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise ValueError("its entries must be real numbers.")
    return array.astype(float)


def read_states(path: str) -> np.ndarray:
    """The states in a file, a row for each token.

    Raises:
        InputFileError: if it cannot be read.
    """
    x = read_array(path)
    return x[:, None] if x.ndim == 1 else np.atleast_2d(x)
