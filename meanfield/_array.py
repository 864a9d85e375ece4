"""How numbers from outside become arrays, and arrays constants for derivatives."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from ._typing import Numbers
from .errors import InvalidInputError, PrecisionError

T = TypeVar("T")


def frozen(tree: T) -> T:
    """The same, constant for derivatives."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def is_concrete(value: object) -> bool:
    """Whether the entries of `value` can be read on the host now."""
    return not isinstance(value, Tracer)


def float_array(name: str, value: Numbers) -> Array:
    """`value` as a floating-point array; integers become the default float.

    Raises:
        PrecisionError: if it is double precision while JAX rounds to single.
        InvalidInputError: if it is not numeric, or has entries that are not finite.
    """
    array = value if isinstance(value, jax.Array) else _from_host(name, value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    if is_concrete(array) and not np.all(np.isfinite(np.asarray(array))):
        raise InvalidInputError(f"`{name}` has entries that are not finite.")
    return array


def _from_host(name: str, value: Numbers) -> Array:
    try:
        host = np.asarray(value)
    except ValueError:  # rows of unequal lengths
        host = np.asarray("")
    if host.dtype.kind not in "biuf":
        raise InvalidInputError(f"`{name}` must be numbers in a regular array.")
    explicit_double = isinstance(value, np.ndarray) and host.dtype == np.float64
    if explicit_double and not jax.config.read("jax_enable_x64"):
        raise PrecisionError(
            f"`{name}` is float64 but JAX would round it to float32; write "
            '`jax.config.update("jax_enable_x64", True)` before making any array.'
        )
    return jax.device_put(host)  # `asarray` would compile a program for each shape
