"""What is sorted where: a matrix that mixes blocks, or an order of them."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield.linalg import HIGHEST


class AbstractPlan(eqx.Module):
    """Gives each block of queries the blocks of keys that are sorted to it."""

    @abc.abstractmethod
    def applied(self, values: Float[Array, "b w p"]) -> Float[Array, "b w p"]:
        r"""$\sum_k R_{ik} v_k$, place by place."""


class Mixing(AbstractPlan):
    """A matrix $R$ whose rows sum to one; its product costs $N_B^2$ blocks."""

    matrix: Float[Array, "b b"]

    @override
    def applied(self, values: Float[Array, "b w p"]) -> Float[Array, "b w p"]:
        flat = values.reshape(values.shape[0], -1)
        mixed = jnp.matmul(self.matrix, flat, precision=HIGHEST)
        return mixed.reshape(values.shape)


class Order(AbstractPlan):
    """A permutation, whose product moves each block once."""

    order: Int[Array, " b"]

    @override
    def applied(self, values: Float[Array, "b w p"]) -> Float[Array, "b w p"]:
        return values[self.order]
