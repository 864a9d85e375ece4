"""Plans that sort blocks, by a mixing matrix or by a permutation."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield.linalg import HIGHEST


class AbstractPlan(eqx.Module):
    """A plan that assigns blocks of keys to each block of queries."""

    @abc.abstractmethod
    def apply(self, values: Float[Array, "b w p"]) -> Float[Array, "b w p"]:
        r"""Sorted values $\sum_k R_{ik} v_k$; the sum of a slot is over all blocks."""


class Mixing(AbstractPlan):
    """A plan given by a matrix $R$ whose rows sum to one.

    It computes each of the $N_B$ sorted blocks as a sum of $N_B$ blocks.
    """

    matrix: Float[Array, "b b"]

    @override
    def apply(self, values: Float[Array, "b w p"]) -> Float[Array, "b w p"]:
        flat = values.reshape(values.shape[0], -1)
        mixture = jnp.matmul(self.matrix, flat, precision=HIGHEST)
        return mixture.reshape(values.shape)


class Order(AbstractPlan):
    """A plan given by a permutation, which moves each block once."""

    order: Int[Array, " b"]

    @override
    def apply(self, values: Float[Array, "b w p"]) -> Float[Array, "b w p"]:
        return values[self.order]
