"""Numbers, laws and files of a spec as arrays, in its floating-point format."""

import math
import zlib
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from meanfield._precision import refuse_rounding
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.measures import Gaussian
from meanfield.spec import (
    KEYS,
    AttentionSpec,
    Matrix,
    RunSpec,
    StartSpec,
    with_files,
)

from ._files import read_array

S = TypeVar("S", bound=AttentionSpec)
T = TypeVar("T")


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


def with_numbers_of_files(spec: RunSpec) -> RunSpec:
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


def _with_numbers(part: S) -> S:
    values = {
        name: getattr(part, name, None)
        for name, row in KEYS.items()
        if row.holds in ("matrix", "options")
    }
    numbers = {name: _numbers(value) for name, value in values.items()}
    return part.model_copy(
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


def initial_gaussian(keys: StartSpec, d: int, draw: Draw) -> Gaussian:
    """The Gaussian of `mean` and `cov`, by which a standard cloud is spread."""
    mean, cov = vector("mean", keys.mean, d), square("cov", keys.cov, d, draw)
    return Gaussian.from_moments(mean, cov)


def token_weights(weights: Matrix | None, n: int) -> np.ndarray | Array:
    """The weights of `n` tokens: all alike, unless they are given."""
    return np.ones(n) if weights is None else vector("weights", weights, n)


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


def _law(name: str, law: str, shape: tuple[int, int], draw: Draw) -> Array:
    if law[:1] == "[":
        raise InvalidInputError(
            f"`{name}` is no list of rows of finite numbers, as `[[1, 0], [0, 1]]` is; "
            f"got `{law}`."
        )
    kind, _, argument = law.partition(":")
    scale = _scale(argument)
    if kind != "normal" or not math.isfinite(scale):
        raise InvalidInputError(
            f"`{name}` must be a number, a list of rows, @FILE.npy, or the law "
            f"`normal` or `normal:SCALE`; got `{law}`."
        )
    return scale * jax.random.normal(draw.key(name), shape)


def _scale(argument: str) -> float:
    """The scale of a law; not a number where it is none."""
    try:
        return float(argument or 1)
    except ValueError:
        return math.nan


def dtype_of(precision: str) -> jnp.dtype:
    """The floating-point format of `single` or `double` precision.

    Raises:
        PrecisionError: if it is double while JAX rounds to single.
    """
    if precision == "single":
        return jnp.dtype("float32")
    refuse_rounding("This run is in double precision")
    return jnp.dtype("float64")


def typed(module: T, dtype: jnp.dtype) -> T:
    """A dynamics or a measure with every float in a format."""
    cast = lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf
    return jax.tree.map(cast, module)
