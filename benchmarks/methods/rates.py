"""Matrix products and exponentials by XLA, and exponentials by `meanfield`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._trial import Job, Trial
from meanfield.measures.reductions.kernels import exp2

FULL_VECTORS = {
    "xla_cpu_prefer_vector_width": 512
}  # bits of a vector register, on processors that have such registers


def product(trial: Trial) -> Job:
    """Product of a square matrix with itself by XLA."""
    a = jnp.asarray(_numbers(trial, (trial.n, trial.n)))
    function_in_jit = jax.jit(
        lambda a: jnp.matmul(a, a, precision=jax.lax.Precision.HIGHEST)
    )
    facts = lambda _: {"products": 2 * trial.n**3}
    return Job(lambda: jax.block_until_ready(function_in_jit(a)), facts)


def library_exp(trial: Trial) -> Job:
    """Repeated exponentials by XLA's own function."""
    return _exponentials(trial, jnp.exp)


def polynomial_exp2(trial: Trial) -> Job:
    """Repeated exponentials by the polynomial that the library uses in sums."""
    return _exponentials(trial, exp2)


def _exponentials(trial: Trial, exponential: Callable[[Any], Any]) -> Job:
    x, repeats = jnp.asarray(_numbers(trial, (trial.n,))), trial.settings["repeats"]
    # Each argument depends on the total, so XLA cannot reuse a computed exponential.
    add_exponential = lambda _, total: total + exponential(x - 1e-30 * total)
    repeated_sum = lambda x: jax.lax.fori_loop(
        0, repeats, add_exponential, jnp.zeros_like(x)
    )
    options: Any = FULL_VECTORS if trial.device == "cpu" else None
    function_in_jit = jax.jit(repeated_sum, compiler_options=options)
    facts = lambda _: {"exponentials": repeats * trial.n}
    return Job(lambda: jax.block_until_ready(function_in_jit(x)), facts)


def _numbers(trial: Trial, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).uniform(-30, 0, shape).astype(trial.dtype)
