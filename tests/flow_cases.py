"""Flows shared by several test files."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield._typing import Numbers
from meanfield.attention import Attention, attentions
from meanfield.flows import Trajectory
from meanfield.measures import Gaussian

RTOL = (
    np.finfo(np.float64).eps ** 0.6
)  # default tolerance of a step in double precision


def ensemble(fn: Callable, *batches: Numbers) -> Trajectory:
    """`fn` of all members, batched and compiled once."""
    arrays = [jnp.asarray(a) for a in batches]
    return jax.jit(jax.vmap(fn))(*arrays)


def scalar_attention(A: object, V: object, *, name: str = "softmax") -> Attention:
    cast = lambda a: jnp.reshape(jnp.asarray(a), (1, 1))
    ones = jnp.ones((1, 1), cast(A).dtype)
    return attentions[name](cast(A), ones, cast(V))


def centred_gaussian(s0: float | Array, dtype: type = np.float64) -> Gaussian:
    factor = jnp.sqrt(jnp.asarray(s0, dtype)).reshape(1, 1)
    return Gaussian(jnp.zeros(1, dtype), factor)
