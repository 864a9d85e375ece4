"""Numbers, laws and files of a spec as arrays."""

import math
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import Matrix


class Draw:
    """The keys of one draw: a name is folded into the seed, so no draw shifts another.

    Args:
        seed: the seed of the spec.
        index: which of its draws.
    """

    def __init__(self, seed: int, index: int = 0) -> None:
        self._root = jax.random.fold_in(jax.random.key(seed), index)

    def key(self, name: str) -> Key[Array, ""]:
        """The key of the draw called `name`."""
        return jax.random.fold_in(self._root, zlib.crc32(name.encode()))


def matrix(
    name: str, value: Matrix, shape: tuple[int, int], draw: Draw
) -> np.ndarray | Array:
    """A matrix: `c I` for a number, drawn for a law, read for an `@FILE`.

    Raises:
        InvalidInputError: if its shape does not fit, or the law is unknown.
        InputFileError: if its file cannot be read.
    """
    if isinstance(value, str) and not value.startswith("@"):
        return _law(name, value, shape, draw)
    if isinstance(value, int | float):
        return float(value) * jnp.eye(*shape)
    array = read_array(value[1:]) if isinstance(value, str) else np.array(value, float)
    if array.ndim == 0:
        return float(array) * jnp.eye(*shape)
    if array.ndim != 2 or array.shape[1] != shape[1]:
        raise InvalidInputError(
            f"`{name}` must be a matrix with {shape[1]} columns, one list for each row; "
            f"got shape {array.shape}."
        )
    return jnp.asarray(array)


def vector(name: str, value: Matrix, size: int) -> Array:
    """A vector: all entries `c` for a number, or a list, or an `@FILE`.

    Raises:
        InvalidInputError: if its size does not fit.
        InputFileError: if its file cannot be read.
    """
    if isinstance(value, str):
        if not value.startswith("@"):
            raise InvalidInputError(
                f"`{name}` must be a number, a list or @FILE.npy; got {value}."
            )
        value = read_array(value[1:]).tolist()
    array = np.asarray(value, float)
    if array.ndim == 0:
        return jnp.full(size, float(array))
    if array.shape != (size,):
        raise InvalidInputError(
            f"`{name}` must hold {size} numbers; got shape {array.shape}."
        )
    return jnp.asarray(array)


def columns(value: Matrix | None) -> int | None:
    """The dimension that a parameter fixes, if it does."""
    if isinstance(value, str) and value.startswith("@"):
        shape = read_array(value[1:]).shape
        return shape[-1] if shape else None
    if isinstance(value, list):
        return len(value[0]) if isinstance(value[0], list) else len(value)
    return None


def read_array(path: str | Path) -> np.ndarray:
    """The numbers in a `.npy` or `.csv` file (a header line is allowed), in double.

    Raises:
        InputFileError: if it is missing, of another kind, or holds no numbers.
    """
    path = Path(path)
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), float)
        if path.suffix == ".csv":
            return _csv(path)
    except FileNotFoundError:
        raise InputFileError(f"There is no file `{path}`.") from None
    except (OSError, ValueError, EOFError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise InputFileError(f"`{path}` holds no array of numbers: {reason}") from None
    raise InputFileError(f"`{path}` must end in .npy or .csv.")


def _csv(path: Path) -> np.ndarray:
    with path.open(encoding="utf-8") as file:
        first = file.readline()
    header = 0 if all(_numeric(cell) for cell in first.split(",")) else 1
    return np.loadtxt(path, delimiter=",", skiprows=header, ndmin=2)


def _numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _law(name: str, law: str, shape: tuple[int, int], draw: Draw) -> Array:
    kind, _, argument = law.partition(":")
    scale = float(argument) if _numeric(argument) else 1.0
    known = argument == "" or (_numeric(argument) and math.isfinite(scale))
    if kind != "normal" or not known:
        raise InvalidInputError(
            f"`{name}` must be a number, a list of rows, @FILE.npy, or the law "
            f"`normal` or `normal:SCALE`; got `{law}`."
        )
    return scale * jax.random.normal(draw.key(name), shape)
