"""The floating-point format of a run."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from meanfield.errors import PrecisionError
from meanfield.spec import RunSpec

T = TypeVar("T")


def dtype_of(spec: RunSpec) -> jnp.dtype:
    """The floating-point format of a spec.

    Raises:
        PrecisionError: if it is double while JAX rounds to single.
    """
    if spec.precision == "single":
        return jnp.dtype("float32")
    if not jax.config.read("jax_enable_x64"):
        raise PrecisionError(
            "This run is in double precision and JAX is set to single; write "
            '`jax.config.update("jax_enable_x64", True)` before making any array.'
        )
    return jnp.dtype("float64")


def typed(spec: RunSpec, module: T) -> T:
    """A dynamics or a measure with every float in the format of its spec."""
    dtype = dtype_of(spec)
    cast = lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf
    return jax.tree.map(cast, module)
