"""Numbers, laws and files of a spec as arrays."""

import math
import zlib
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Key

from meanfield._reading import absent
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import KEYS, AttentionSpec, Matrix, RunSpec, with_files

SAVED = "Write one by `numpy.save`, or a table of numbers as .csv."

S = TypeVar("S", bound=AttentionSpec)


class Draw:
    """The keys of one draw: a name is folded into the seed, so no draw shifts another.

    Args:
        seed: the seed of the spec.
        index: which of its draws.
    """

    def __init__(self, seed: int, index: int = 0) -> None:
        self._root = _folded(jax.random.key(seed), np.uint32(index))

    def key(self, name: str) -> Key[Array, ""]:
        """The key of the draw called `name`."""
        return _folded(self._root, np.uint32(zlib.crc32(name.encode())))


# One program for all draws.
_folded = jax.jit(jax.random.fold_in)


def embedded(spec: RunSpec) -> RunSpec:
    """`spec` with the numbers of its matrix files, which it then no longer needs.

    Tokens and weights stay in their files: a stored run has them among its arrays.

    Raises:
        InputFileError: if a file cannot be read.
    """
    parts = {
        "layers": tuple(_with_numbers(layer) for layer in spec.layers),
        "terms": tuple(_with_numbers(term) for term in spec.terms),
    }
    updates = {name: part for name, part in parts.items() if part}
    return _with_numbers(spec).model_copy(update=updates)


def _with_numbers(spec: S) -> S:
    values = {
        name: getattr(spec, name, None)
        for name, row in KEYS.items()
        if row.holds in ("matrix", "options")
    }
    numbers = {name: _numbers(value) for name, value in values.items()}
    return spec.model_copy(
        update={name: new for name, new in numbers.items() if new is not values[name]}
    )


def _numbers(value: Any) -> Any:
    """A value of a key, with the numbers of the files that it names."""
    if isinstance(value, dict):
        return with_files(value, lambda path: read_array(path).tolist())
    if isinstance(value, list) and any(isinstance(part, str) for part in value):
        return [_of_one_head(part) for part in value]
    if isinstance(value, str) and value.startswith("@"):
        return read_array(value[1:]).tolist()
    return value


def _of_one_head(part: Any) -> Any:
    # Without its rows a vector would read as one row of a single matrix.
    numbers = _numbers(part)
    if isinstance(numbers, list) and not isinstance(numbers[0], list):
        raise InputFileError(
            f"`{part[1:]}` must hold the matrix of a head; it is a vector of "
            f"{len(numbers)} numbers."
        )
    return numbers


def matrix(name: str, value: Matrix, shape: tuple[int, int], draw: Draw) -> Array:
    """A matrix: `c I` for a number, drawn for a law, read for an `@FILE`.

    Raises:
        InvalidInputError: if its shape does not fit, or the law is unknown.
        InputFileError: if its file cannot be read.
    """
    if isinstance(value, str) and not value.startswith("@"):
        return _law(name, value, shape, draw)
    array = read_array(value[1:]) if isinstance(value, str) else np.array(value, float)
    if array.ndim == 0:
        array = float(array) * np.eye(*shape)
    if array.ndim != 2 or array.shape[1] != shape[1]:
        raise InvalidInputError(
            f"`{name}` must be a matrix with {shape[1]} columns, a list for each row; "
            f"got shape {array.shape}."
        )
    return jax.device_put(array)


def square(name: str, value: Matrix, d: int, draw: Draw) -> Array:
    """A matrix of as many rows as columns; see `matrix`.

    Raises:
        InvalidInputError: if it is none.
        InputFileError: if its file cannot be read.
    """
    array = matrix(name, value, (d, d), draw)
    if array.shape != (d, d):
        raise InvalidInputError(
            f"`{name}` must be a {d} × {d} matrix; got shape {array.shape}."
        )
    return array


def vector(name: str, value: Matrix, size: int) -> Array:
    """A vector: all entries `c` for a number, or a list, or an `@FILE`.

    Raises:
        InvalidInputError: if its size does not fit.
        InputFileError: if its file cannot be read.
    """
    if isinstance(value, str) and not value.startswith("@"):
        raise InvalidInputError(
            f"`{name}` must be a number, a list or @FILE.npy; got `{value}`."
        )
    array = read_array(value[1:]) if isinstance(value, str) else np.array(value, float)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.size == size == max(array.shape):  # a row or a column of a CSV file too
        return jax.device_put(array.reshape(size))
    raise InvalidInputError(
        f"`{name}` must hold {size} numbers; got shape {array.shape}."
    )


def columns(value: Matrix | None) -> int | None:
    """The dimension that a parameter fixes, if it does."""
    if isinstance(value, str) and value.startswith("@"):
        shape = read_array(value[1:]).shape
        return shape[-1] if shape else None
    if isinstance(value, list):
        return len(value[0]) if isinstance(value[0], list) else len(value)
    return None


def entries(value: Matrix | None) -> int | None:
    """The dimension that a vector fixes, if it does; a column is one too."""
    if isinstance(value, str) and value.startswith("@"):
        array = read_array(value[1:])
        return array.size if array.ndim else None
    return np.size(np.array(value, float)) if isinstance(value, list) else None


def read_array(path: str | Path) -> np.ndarray:
    """The numbers in a `.npy` or `.csv` file (a header line is allowed), in double.

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
            f"`{path}` has an entry at {place} that is not finite; put a number there."
        )
    return array


def _npy(path: Path) -> np.ndarray:
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise ValueError("real numbers are needed.")
    return array.astype(float)


def _csv(path: Path) -> np.ndarray:
    with path.open(encoding="utf-8") as file:
        first = file.readline()
    if not first.strip():
        raise ValueError("it is empty.")
    header = 0 if all(_numeric(cell) for cell in first.split(",")) else 1
    return np.loadtxt(path, delimiter=",", skiprows=header, ndmin=2, encoding="utf-8")


def _numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _law(name: str, law: str, shape: tuple[int, int], draw: Draw) -> Array:
    kind, _, argument = law.partition(":")
    scale = float(argument) if _numeric(argument) else 1.0
    is_law = argument == "" or (_numeric(argument) and math.isfinite(scale))
    if kind != "normal" or not is_law:
        raise InvalidInputError(
            f"`{name}` must be a number, a list of rows, @FILE.npy, or the law "
            f"`normal` or `normal:SCALE`; got `{law}`."
        )
    return scale * jax.random.normal(draw.key(name), shape)
