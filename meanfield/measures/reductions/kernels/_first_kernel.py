"""The first kernel on a device, which shows whether kernels work there."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._method import Method, Side, Terms
from ._programs import linked_sums

FEW = 64  # tokens


def tested_method() -> Method | None:
    """The default method of kernels, or `None`, with a warning, if one fails."""
    try:
        with jax.ensure_compile_time_eval():
            dtypes = {np.float32, jnp.zeros(1).dtype.type}
            is_right = all(map(_is_right, dtypes))
        problem = "" if is_right else "their sums are wrong"
    # JAX raises any of these if it, or Triton in it, does not support the device.
    except (RuntimeError, ValueError, NotImplementedError) as error:
        problem = str(error).splitlines()[0]
    if not problem:
        return Method()
    warnings.warn(
        f"Kernels for sums over tokens do not work on {jax.devices()[0].device_kind}: "
        f"{problem}. XLA computes these sums instead, more slowly.",
        stacklevel=2,
    )
    return None


def _is_right(dtype: type) -> bool:
    """Whether a kernel gives the right sums for a few tokens."""
    rng = np.random.default_rng(0)
    q, k, values = (rng.normal(size=(rows, FEW)).astype(dtype) for rows in (2, 2, 3))
    sums = jax.jit(linked_sums, static_argnums=0)(
        Method(), _side(q), _side(k), Terms(jnp.asarray(values))
    )
    powers = np.exp2(k.T @ q)
    error = np.abs(np.asarray(sums) - values @ powers)
    return bool(np.all(error <= FEW * np.finfo(dtype).eps * (np.abs(values) @ powers)))


def _side(vectors: np.ndarray) -> Side:
    x: Array = jnp.asarray(vectors)
    return Side(x, jnp.zeros_like(x[:1]))
