"""How numbers from outside become arrays, and arrays constants for derivatives."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from ._precision import refuse_rounding
from ._typing import Numbers
from .errors import InvalidInputError

T = TypeVar("T")
_SHOWN = 60  # characters of a wrong value that a message repeats


def frozen(tree: T) -> T:
    """The same, constant for derivatives."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def member_of(stack: T, index: Array | int) -> T:
    """One of a stack of trees: entry `index` of each of its arrays."""
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, stack)


def is_concrete(value: object) -> bool:
    """Whether the entries of `value` can be read on the host now."""
    return not isinstance(value, Tracer)


def is_at_hand(value: object) -> bool:
    """Whether numbers are known, and all of them in this process."""
    if not isinstance(value, jax.Array):
        return isinstance(value, np.ndarray)
    return is_concrete(value) and value.is_fully_addressable


def is_tracing() -> bool:
    """Whether what is computed now becomes part of a program: inside a `jit`."""
    return not is_concrete(jax.device_put(0.0))


def is_known(array: object, ndim: int) -> bool:
    """Whether this is an array of so many axes whose numbers can be read now.

    Modules that are trees may hold anything in the place of their arrays.
    """
    is_array = isinstance(array, jax.Array | np.ndarray)
    return is_array and is_concrete(array) and np.ndim(array) == ndim


def float_array(name: str, value: Numbers) -> Array:
    """`value` as a floating-point array; integers become the default float.

    Raises:
        PrecisionError: if it is double precision while JAX rounds to single.
        InvalidInputError: if it is not numeric, not real, in half or extended
            precision, or has entries that are not finite.
    """
    array = real_array(name, value)
    if isinstance(array, np.ndarray):
        array = _on_device(name, array, value)
    elif not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    if is_concrete(array) and not np.all(np.isfinite(np.asarray(array))):
        raise InvalidInputError(
            f"`{name}` has entries that are not finite; leave them out, or put numbers "
            "in their place."
        )
    return array


def real_array(name: str, value: Numbers) -> Array | np.ndarray:
    """`value` as an array of real numbers: of NumPy, unless it is one of JAX.

    Raises:
        InvalidInputError: if it is not numeric, not real, in half or extended
            precision, or masked: NumPy would read what lies under the mask.
    """
    if isinstance(value, jax.Array):
        array = value
    else:
        _check_unmasked(name, value)
        try:
            array = _native(np.asarray(value))
        except ValueError:  # rows of unequal lengths
            array = np.asarray("")
        except (TypeError, RuntimeError) as error:  # of a tensor of another library
            raise InvalidInputError(
                f"`{name}` must be real numbers; got {_said(value)}: {error}"
            ) from None
    _check_real(name, array.dtype)
    return array


def check_real(name: str, value: object) -> None:
    """Refuses an array that is masked or not real, in a module that holds arrays.

    Modules that are trees may hold anything in the place of their arrays.

    Raises:
        InvalidInputError: naming the argument.
    """
    if isinstance(value, jax.Array | np.ndarray):
        real_array(name, value)


def number(name: str, value: object) -> object:
    """`value` itself, if it is one real number: of Python, of NumPy, or an array's.

    Raises:
        InvalidInputError: if it is none.
    """
    missing = is_concrete(value) and _is_real(value) and np.isnan(np.asarray(value))
    if not _is_real(value) or missing:
        raise InvalidInputError(f"`{name}` must be one number; got {_said(value)}.")
    array = value if isinstance(value, jax.Array) else _native(np.asarray(value))
    _check_real(name, array.dtype)
    return value


def positive(name: str, value: object) -> object:
    """`value` itself, if it is one number above zero.

    Where that is known too late to raise, inside `jit`, NaN takes the place of others.

    Raises:
        InvalidInputError: if it is none.
    """
    if isinstance(value, Tracer):
        return or_nan(value > 0, number(name, value))
    if _is_real(value) and not np.asarray(value) > 0:  # NaN included
        raise InvalidInputError(f"`{name}` must be positive; got {_said(value)}.")
    return number(name, value)


def or_nan(holds: Array, value: Any) -> Any:
    """`value` where a condition holds, known inside `jit` alone; NaN elsewhere.

    So are its derivatives, which a choice between the two would set to zero.
    """
    return value * jnp.where(holds, 1.0, jnp.nan)


def require(what: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Refuses a thing in the place of another, as when two arguments change places.

    Raises:
        InvalidInputError: saying `what` belongs there, and what was given.
    """
    if not isinstance(value, kind):
        raise InvalidInputError(f"{what}; got {_said(value)}.")


def _is_real(value: object) -> bool:
    if isinstance(value, str | np.ma.MaskedArray):
        return False
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return array.dtype.kind in "biuf" and array.ndim == 0


def _said(value: object) -> str:
    if isinstance(value, str | int | float | complex | None):
        return repr(value)[:_SHOWN]
    if isinstance(value, jax.Array | np.ndarray) and value.ndim == 0:
        return str(value)[:_SHOWN]
    article = "the class" if isinstance(value, type) else "a"
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return f"{article} `{name}`"


def _check_real(name: str, dtype: np.dtype) -> None:
    """Refuses numbers that are not real, or of a size that flows are not made for.

    Raises:
        InvalidInputError: naming the type.
    """
    floats = jnp.issubdtype(dtype, jnp.floating)
    if not (floats or jnp.issubdtype(dtype, jnp.integer) or dtype == np.bool_):
        raise InvalidInputError(
            f"`{name}` must be real numbers in a regular array; got {_kind(dtype)}."
        )
    if floats and dtype not in (np.float32, np.float64):
        raise InvalidInputError(f"`{name}` must be float32 or float64; got {dtype}.")


def _kind(dtype: np.dtype) -> str:
    numeric = jnp.issubdtype(dtype, jnp.number)
    return f"{dtype}" if numeric else "no numbers"


def _native(array: np.ndarray) -> np.ndarray:
    """The same numbers in the order of bytes of this machine, as files may lack it."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_unmasked(name: str, value: object) -> None:
    parts = value if isinstance(value, list | tuple) else [value]
    masked = [p for p in parts if isinstance(p, np.ma.MaskedArray) and np.any(p.mask)]
    if masked:
        raise InvalidInputError(
            f"`{name}` must have no masked entries; got {np.sum(masked[0].mask)}. "
            "Leave them out, or put numbers in their place by its method `filled`."
        )


def _on_device(name: str, host: np.ndarray, value: Numbers) -> Array:
    if host.dtype.kind != "f":  # else whole numbers beyond 32 bits would wrap
        host = host.astype(jnp.result_type(float))
    explicit_double = isinstance(value, np.ndarray) and host.dtype == np.float64
    if explicit_double:
        refuse_rounding(f"`{name}` is float64")
    return jax.device_put(host)  # `asarray` would compile a program for each shape
