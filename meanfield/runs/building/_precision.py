"""The floating-point format of a run."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from meanfield._precision import refuse_rounding
from meanfield.spec import RunSpec

T = TypeVar("T")


def dtype_of(spec: RunSpec) -> jnp.dtype:
    """The floating-point format of a spec.

    Raises:
        PrecisionError: if it is double while JAX rounds to single.
    """
    if spec.precision == "single":
        return jnp.dtype("float32")
    refuse_rounding("This run is in double precision")
    return jnp.dtype("float64")


def typed(spec: RunSpec, module: T) -> T:
    """A dynamics or a measure with every float in the format of its spec."""
    dtype = dtype_of(spec)
    cast = lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf
    return jax.tree.map(cast, module)
