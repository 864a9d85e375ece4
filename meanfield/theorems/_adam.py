"""The Adam optimiser, for one array of parameters."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

DECAYS = 0.9, 0.999  # decay rates of the averages of gradients and of squared gradients
EPSILON = 1e-8  # prevents 0/0 in coordinates whose gradients are all zero


class Moments(NamedTuple):
    """Running averages of the gradients and of their squares, and the step count."""

    first: Float[Array, "*shape"]
    second: Float[Array, "*shape"]
    n_steps: Int[Array, ""]


def zero_moments(x: Float[Array, "*shape"]) -> Moments:
    """Zero moments, from which Adam starts."""
    return Moments(jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros((), jnp.int32))


def adam(
    gradient: Float[Array, "*shape"], moments: Moments, learning_rate: float
) -> tuple[Float[Array, "*shape"], Moments]:
    """Adam's step for a gradient, as in `optax.adam`, and the updated moments."""
    b1, b2 = DECAYS
    first = (1 - b1) * gradient + b1 * moments.first
    second = (1 - b2) * gradient**2 + b2 * moments.second
    n_steps = moments.n_steps + 1
    size = jnp.sqrt(second / (1 - b2**n_steps)) + EPSILON
    step = -learning_rate * (first / (1 - b1**n_steps)) / size
    return step, Moments(first, second, n_steps)
