"""Flows shared by several test files."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield._typing import Numbers, Time
from meanfield.attention import Attention, attentions
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Affine
from meanfield.flows import Trajectory
from meanfield.measures import AbstractMeasure, Gaussian, Points

RTOL = (
    np.finfo(np.float64).eps ** 0.6
)  # default tolerance of a step in double precision

SETTLING = (  # Q, K and V of castin2025, Figure 2(d)
    [[0.6764, 1.5211], [-0.5119, 1.1502]],
    [[-0.5907, -0.7688], [-0.335, 0.093]],
    [[1.8318, -0.3769], [0.3481, -0.1163]],
)
STARTS = np.array([[[3, 2.5], [2.5, 26]], [[4, 5.5], [5.5, 25]]]) / 29


class Stretch(AbstractDynamics):
    """The velocity x f(|x|) of one token."""

    law: int = eqx.field(static=True)

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        assert isinstance(mu, Points)
        r = jnp.linalg.norm(mu.tokens.x)
        slow = jnp.log1p(r)
        rate = (r / (1 + r)) ** 4
        laws = (
            r**2 / (1 + r**2),
            slow,
            slow * jnp.log1p(slow),
            r**2 * (1 - r**2),
            rate,
        )
        d = mu.tokens.x.shape[1]
        return Affine(laws[self.law] * jnp.eye(d, dtype=r.dtype), jnp.zeros(d, r.dtype))


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
