"""Conversion and validation of user input as arrays; small helpers for pytrees."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ._precision import check_double_precision
from ._typing import Numbers
from .errors import InvalidInputError

T = TypeVar("T")
_MAX_CHARS = 60  # a message shows at most this many characters of a wrong value


def stop_gradient(tree: T) -> T:
    """`tree` with `jax.lax.stop_gradient` applied to each of its arrays."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def member_of(stack: T, index: Array | int) -> T:
    """Member `index` of a stack of pytrees, with entry `index` of each array."""
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, stack)


def is_concrete(value: object) -> bool:
    """Whether `value` is concrete, that is, not a JAX tracer."""
    return not isinstance(value, Tracer)


def is_addressable(value: object) -> bool:
    """Whether `value` is a concrete array that lies entirely in this process."""
    if not isinstance(value, jax.Array):
        return isinstance(value, np.ndarray)
    return is_concrete(value) and value.is_fully_addressable


def is_tracing() -> bool:
    """Whether the caller is being traced, for example inside `jit`."""
    return not is_concrete(jax.device_put(0.0))


def is_known(array: object, ndim: int) -> bool:
    """Whether `array` is a concrete array with `ndim` axes.

    A module may hold other objects, since JAX can replace its arrays.
    """
    is_array = isinstance(array, jax.Array | np.ndarray)
    return is_array and is_concrete(array) and np.ndim(array) == ndim


def float_array(name: str, value: Numbers) -> Array:
    """`value` as a floating-point array; integers become the default float.

    Raises:
        PrecisionError: if `value` is in double precision and JAX in single precision.
        InvalidInputError: if `value` is not numeric, not real, in half or extended
            precision, or has entries that are not finite.
    """
    array = real_array(name, value)
    if isinstance(array, np.ndarray):
        array = _to_device(name, array, value)
    elif not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    if is_concrete(array) and not np.all(np.isfinite(np.asarray(array))):
        raise InvalidInputError(
            f"`{name}` has entries that are not finite; remove them, or replace "
            "them with finite numbers."
        )
    return array


def real_array(name: str, value: Numbers) -> Array | np.ndarray:
    """`value` as an array of real numbers: a JAX array as it is, else a NumPy array.

    Raises:
        InvalidInputError: if `value` is not numeric, not real, in half or extended
            precision, or masked, since NumPy would use the masked values.
    """
    if isinstance(value, jax.Array):
        array = value
    else:
        _check_unmasked(name, value)
        try:
            array = _native(np.asarray(value))
        except ValueError:  # the rows have unequal lengths
            array = np.asarray("")
        except (TypeError, RuntimeError) as error:  # some tensors cannot be converted
            raise InvalidInputError(
                f"`{name}` must be an array of real numbers; got {_describe(value)}, "
                f"which NumPy cannot convert: {error}"
            ) from None
    _check_real(name, array.dtype)
    return array


def check_real(name: str, value: object) -> None:
    """Raises if `value` is an array that is masked or not real.

    Objects that are not arrays are accepted, since JAX can replace the arrays of a
    module by any object.

    Raises:
        InvalidInputError: if `value` is such an array; the message names the argument.
    """
    if isinstance(value, jax.Array | np.ndarray):
        real_array(name, value)


def number(name: str, value: object) -> object:
    """Returns `value` if it is a real number: a Python or NumPy scalar, or a 0-d array.

    Raises:
        InvalidInputError: if it is not a real number.
    """
    missing = is_concrete(value) and _is_real(value) and np.isnan(np.asarray(value))
    if not _is_real(value) or missing:
        raise InvalidInputError(
            f"`{name}` must be a single real number; got {_describe(value)}."
        )
    array = value if isinstance(value, jax.Array) else _native(np.asarray(value))
    _check_real(name, array.dtype)
    return value


def positive(name: str, value: object) -> object:
    """Returns `value` if it is a positive number.

    Inside `jit` no exception can depend on a value, so any other number becomes NaN.

    Raises:
        InvalidInputError: if it is not a positive number.
    """
    if isinstance(value, Tracer):
        return or_nan(value > 0, number(name, value))
    if _is_real(value) and not np.asarray(value) > 0:  # also true for NaN
        raise InvalidInputError(f"`{name}` must be positive; got {_describe(value)}.")
    return number(name, value)


def or_nan(holds: Array, value: Any) -> Any:
    """`value` where `holds` is true, NaN elsewhere; usable inside `jit`.

    Where the value is NaN, so are its derivatives; with `jnp.where(holds, value, nan)`
    they would be zero.
    """
    return value * jnp.where(holds, 1.0, jnp.nan)


def require(requirement: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Raises if `value` is not an instance of `kind`, as when arguments are swapped.

    Raises:
        InvalidInputError: its message is `requirement` and a description of `value`.
    """
    if not isinstance(value, kind):
        raise InvalidInputError(f"{requirement}; got {_describe(value)}.")


def _is_real(value: object) -> bool:
    if isinstance(value, str | np.ma.MaskedArray):
        return False
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return array.dtype.kind in "biuf" and array.ndim == 0


def _describe(value: object) -> str:
    if isinstance(value, str | int | float | complex | None):
        return repr(value)[:_MAX_CHARS]
    if isinstance(value, jax.Array | np.ndarray) and value.ndim == 0:
        return str(value)[:_MAX_CHARS]
    article = "the class" if isinstance(value, type) else "a"
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return f"{article} `{name}`"


def _check_real(name: str, dtype: np.dtype) -> None:
    """Raises unless `dtype` is a real number type; floats must be float32 or float64.

    Raises:
        InvalidInputError: for any other type, which the message names.
    """
    floats = jnp.issubdtype(dtype, jnp.floating)
    if not (floats or jnp.issubdtype(dtype, jnp.integer) or dtype == np.bool_):
        raise InvalidInputError(
            f"`{name}` must be a regular array of real numbers; got {_kind(dtype)}."
        )
    if floats and dtype not in (np.float32, np.float64):
        raise InvalidInputError(f"`{name}` must be float32 or float64; got {dtype}.")


def _kind(dtype: np.dtype) -> str:
    numeric = jnp.issubdtype(dtype, jnp.number)
    return f"{dtype}" if numeric else "other entries, or rows of unequal lengths"


def _native(array: np.ndarray) -> np.ndarray:
    """`array` in native byte order; an array from a file may have the other order."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_unmasked(name: str, value: object) -> None:
    parts = value if isinstance(value, list | tuple) else [value]
    masked_parts = [
        p for p in parts if isinstance(p, np.ma.MaskedArray) and np.any(p.mask)
    ]
    if masked_parts:
        raise InvalidInputError(
            f"`{name}` must have no masked entries; got "
            f"{np.sum(masked_parts[0].mask)}. Remove the masked entries, or use the "
            "array's method `filled` to replace them with numbers."
        )


def _to_device(name: str, host: np.ndarray, value: Numbers) -> Array:
    if host.dtype.kind != "f":  # large integers would wrap around in 32 bits
        host = host.astype(jnp.result_type(float))
    explicit_double = isinstance(value, np.ndarray) and host.dtype == np.float64
    if explicit_double:
        check_double_precision(f"`{name}` is float64")
    return jax.device_put(host)  # `asarray` would compile a program for each shape


def square_matrix(name: str, value: Numbers) -> Float[Array, "d d"]:
    """A square matrix of the token dimension.

    Raises:
        InvalidInputError: if it is not square.
    """
    M = float_array(name, value)
    if M.ndim != 2 or M.shape[0] != M.shape[1]:
        raise InvalidInputError(
            f"`{name}` must be a square matrix of the token dimension; got shape "
            f"{M.shape}."
        )
    return M
