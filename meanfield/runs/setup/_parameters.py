"""Parameters of a spec as arrays: from numbers, random laws and files."""

import math
import zlib
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from meanfield._precision import check_double_precision
from meanfield._registry import suggestion
from meanfield.attention import matrix_laws
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.measures import Gaussian
from meanfield.spec import (
    KEYS,
    AttentionSpec,
    Matrix,
    RunSpec,
    StartSpec,
    replace_files,
)

from ._files import read_array

S = TypeVar("S", bound=AttentionSpec)
T = TypeVar("T")


class Draw:
    """The random keys of one draw, by name.

    A name is folded into the seed, so adding a random parameter does not change others.

    Args:
        seed: the seed of the spec.
        index: the index of the draw.
    """

    def __init__(self, seed: int, index: int = 0) -> None:
        self._root = _fold_in(jax.random.key(seed), np.uint32(index))

    def key(self, name: str) -> Key[Array, ""]:
        """The random key of the parameter `name`."""
        return _fold_in(self._root, np.uint32(zlib.crc32(name.encode())))


# `fold_in` is compiled once for all draws.
_fold_in = jax.jit(jax.random.fold_in)


def inline_matrix_files(spec: RunSpec) -> RunSpec:
    """Replaces the names of matrix files in `spec` by the contents of the files.

    Names of files with tokens and weights stay, since a run stores these arrays.

    Raises:
        InputFileError: if a file cannot be read.
    """
    parts = {
        "layers": tuple(_inline_part(layer) for layer in spec.layers),
        "terms": tuple(_inline_part(term) for term in spec.terms),
    }
    updates = {name: part for name, part in parts.items() if part}
    return _inline_part(spec).model_copy(update=updates)


def _inline_part(part: S) -> S:
    values = {
        name: getattr(part, name, None)
        for name, row in KEYS.items()
        if row.holds in ("matrix", "options")
    }
    numbers = {name: _inline_value(value) for name, value in values.items()}
    changes = {name: v for name, v in numbers.items() if v is not values[name]}
    return part.model_copy(update=changes)


def _inline_value(value: Any) -> Any:
    """The value of a key, with the files that it names replaced by their numbers."""
    if isinstance(value, dict):
        return replace_files(value, lambda path: read_array(path).tolist())
    if isinstance(value, list) and any(isinstance(part, str) for part in value):
        return [_inline_head(part) for part in value]
    if isinstance(value, str) and value.startswith("@"):
        return read_array(value[1:]).tolist()
    return value


def _inline_head(part: Any) -> Any:
    # A vector in a list of heads would be mistaken for a row of a single matrix.
    numbers = _inline_value(part)
    if isinstance(numbers, list) and not isinstance(numbers[0], list):
        raise InputFileError(
            f"`{part[1:]}` must hold the matrix of one head; got a vector of "
            f"{len(numbers)} numbers."
        )
    return numbers


def matrix(name: str, value: Matrix, shape: tuple[int, int], draw: Draw) -> Array:
    """A matrix from a number `c` (as `c I`), rows, a random law or `@FILE`.

    Raises:
        InvalidInputError: if the shape does not fit, or the law is unknown.
        InputFileError: if the file cannot be read.
    """
    if isinstance(value, str) and not value.startswith("@"):
        return _law(name, value, shape, draw)
    array = _array(value)
    if array.ndim == 0:
        array = float(array) * np.eye(*shape)
    if array.ndim != 2 or array.shape[1] != shape[1]:
        raise InvalidInputError(
            f"`{name}` must be a matrix with {shape[1]} columns, given as a list of "
            f"rows; got shape {array.shape}."
        )
    return jax.device_put(array)


def square(name: str, value: Matrix, d: int, draw: Draw) -> Array:
    """A square matrix; see `matrix`.

    Raises:
        InvalidInputError: if it is not square, or its shape or law is wrong.
        InputFileError: if its file cannot be read.
    """
    array = matrix(name, value, (d, d), draw)
    if array.shape != (d, d):
        raise InvalidInputError(
            f"`{name}` must be a {d} × {d} matrix; got shape {array.shape}."
        )
    return array


def vector(name: str, value: Matrix, size: int) -> Array:
    """A vector from a number (for all entries), a list, or `@FILE`.

    Raises:
        InvalidInputError: if the size does not fit.
        InputFileError: if the file cannot be read.
    """
    if isinstance(value, str) and not value.startswith("@"):
        raise InvalidInputError(
            f"`{name}` must be a number, a list or @FILE.npy; got `{value}`."
        )
    array = _array(value)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.size == size == max(array.shape):  # may be a row or column of a CSV file
        return jax.device_put(array.reshape(size))
    raise InvalidInputError(
        f"`{name}` must hold {size} numbers; got shape {array.shape}."
    )


def initial_gaussian(keys: StartSpec, d: int, draw: Draw) -> Gaussian:
    """The Gaussian with `mean` and `cov`, to which a standard cloud is mapped."""
    mean, cov = vector("mean", keys.mean, d), square("cov", keys.cov, d, draw)
    return Gaussian.from_moments(mean, cov)


def token_weights(weights: Matrix | None, n: int) -> np.ndarray | Array:
    """The weights of `n` tokens; all equal by default."""
    return np.ones(n) if weights is None else vector("weights", weights, n)


def read_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options with lists as arrays, and files replaced by the numbers in them.

    Raises:
        InputFileError: if a file cannot be read.
    """
    values = replace_files(options or {}, read_array)
    return {
        name: np.asarray(value, float) if isinstance(value, list) else value
        for name, value in values.items()
    }


def check_option_name(name: str, names: Collection[str], *, owner: str) -> None:
    """Checks that an option is among those of its owner, an attention or energies.

    Raises:
        InvalidInputError: if it is not.
    """
    if name not in names:
        hint = suggestion(name, list(names)) if names else "it has none."
        raise InvalidInputError(f"`{owner}` has no option `{name}`; {hint}")


def columns(value: Matrix | None) -> int | None:
    """The number of columns of a matrix; `None` if its value does not fix a number."""
    shape = _array(value).shape
    return shape[-1] if shape else None


def entries(value: Matrix | None) -> int | None:
    """The number of entries of a vector; `None` if its value does not fix a number."""
    array = _array(value)
    return array.size if array.ndim else None


def _array(value: Matrix | None) -> np.ndarray:
    """The numbers in a value or in its file; NaN for a random law or no value."""
    if isinstance(value, str):
        return read_array(value[1:]) if value.startswith("@") else np.array(math.nan)
    return np.array(value, float)


def _law(name: str, law: str, shape: tuple[int, int], draw: Draw) -> Array:
    if law[:1] == "[":
        raise InvalidInputError(
            f"`{name}` must be a list of rows of finite numbers, such as `[[1, 0], "
            f"[0, 1]]`; got `{law}`."
        )
    kind, _, argument = law.partition(":")
    scale = _scale(argument)
    if kind not in matrix_laws or not math.isfinite(scale):
        laws = ", ".join(f"`{name}`" for name in matrix_laws)
        raise InvalidInputError(
            f"`{name}` must be a number, a list of rows, @FILE.npy, or a law ({laws}, "
            f"or with a factor, such as `normal:2`); got `{law}`."
        )
    return scale * matrix_laws[kind](draw.key(name), shape)


def _scale(argument: str) -> float:
    """The scale of a law; NaN if it is not a number."""
    try:
        return float(argument or 1)
    except ValueError:
        return math.nan


def dtype_of(precision: str) -> jnp.dtype:
    """The floating-point format of `single` or `double` precision.

    Raises:
        PrecisionError: if it is double while JAX is in single precision.
    """
    if precision == "single":
        return jnp.dtype("float32")
    check_double_precision("This run is in double precision")
    return jnp.dtype("float64")


def cast_floats(module: T, dtype: jnp.dtype) -> T:
    """A dynamics or a measure with all floats cast to a dtype."""
    cast = lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf
    return jax.tree.map(cast, module)
