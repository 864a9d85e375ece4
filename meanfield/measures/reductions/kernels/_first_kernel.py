"""The first kernels on a device, which show whether kernels work there."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ._method import KernelSide, Method, Terms
from ._pair_sums import best_keys, linked_sums

N_TOKENS = 64


def checked_method(method: Method) -> Method | None:
    """The method of kernels; `None`, after a warning, if the first kernels fail."""
    device = jax.devices()[0]
    dtypes = {np.float32, jax.dtypes.canonicalize_dtype(float).type}
    try:
        with jax.default_device(device):
            is_right = all(_is_right(dtype, method) for dtype in dtypes)
        problem = "" if is_right else "their sums are wrong"
    # JAX raises any of these if it, or Triton in it, does not support the device.
    except (RuntimeError, ValueError, NotImplementedError) as error:
        problem = next(iter(str(error).splitlines()), "") or type(error).__name__
    if not problem:
        return method
    warnings.warn(
        f"Kernels for sums over tokens do not work on {device.device_kind}: {problem}. "
        "XLA computes these sums instead, more slowly.",
        stacklevel=2,
    )
    return None


def _is_right(dtype: type, method: Method) -> bool:
    """Whether kernels give the right sums and best keys for a few tokens."""
    rng = np.random.default_rng(0)
    numbers: Any = rng.normal(size=(7, N_TOKENS)).astype(dtype)
    q, k, values = numbers[:2], numbers[2:4], numbers[4:]
    sides = KernelSide(q, np.zeros_like(q[:1])), KernelSide(k, np.zeros_like(k[:1]))
    scores = k.T @ q
    sums = _run(linked_sums, method, *sides, Terms(values))
    _, best = _run(best_keys, method, *sides)
    bound = N_TOKENS * np.finfo(dtype).eps * (np.abs(values) @ np.exp2(scores))
    has_sums = np.all(np.abs(sums - values @ np.exp2(scores)) <= bound)
    return bool(has_sums and np.all(best == scores.argmax(axis=0)))


def _run(function: Callable[..., Any], method: Method, *arrays: Any) -> Any:
    """Results of a compiled program, which runs even while another one is traced."""
    program = jax.jit(function, static_argnums=0).lower(method, *arrays).compile()
    return jax.tree.map(np.asarray, program(*arrays))
