"""Numbers, vectors and matrices in few letters."""

import numpy as np

LARGEST = 3  # rows and columns of a matrix that is written out
_ROUNDED = 1e-12  # of the largest entry, below which one counts as none


def number(value: object) -> str:
    """A number with three digits."""
    return f"{float(np.asarray(value)):.3g}"


def matrix(values: np.ndarray, scale: float = 0.0) -> str:
    """A vector or a matrix, of a large one its shape.

    What is rounding beside its largest entry, or beside `scale`, is written as 0.
    """
    array = np.asarray(values)
    if max(array.shape, default=1) > LARGEST:
        return f"({' × '.join(map(str, array.shape))})"
    small = np.abs(array) <= _ROUNDED * np.max(np.abs(array), initial=scale)
    return _entries(np.where(small, 0.0, array).tolist())


def _entries(entry: list | float) -> str:
    if isinstance(entry, list):
        return f"[{', '.join(map(_entries, entry))}]"
    return number(entry)
