"""Sequences by the library: tokens in order, their blocks, and attention to these."""

from typing import Any

from jaxtyping import Float

from meanfield.attention import Attention
from meanfield.attention.sparse import (
    Blocks,
    Layer,
    SortingNetwork,
    balanced,
    balanced_causally,
    pooled,
    pooled_before,
)
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._vocabulary import Cloud, Parameters

from .attentions import matrices, points, velocity


def sequence(x: Array) -> Cloud:
    """Tokens of equal weight, one after the other."""
    n = len(x)
    return Cloud(x, np.ones(n), np.arange(1, n + 1) / n)


def weights(name: str, p: Parameters, x: Array, **options: Any) -> Array:
    """The library's matrix of a sequence."""
    return np.asarray(matrices(p.attention(name, **options), sequence(x))[0])


def moved(name: str, p: Parameters, x: Array, **options: Any) -> Array:
    """The library's velocities of a sequence."""
    at = sequence(x)
    return np.asarray(velocity(p.attention(name, **options), at, at))


def idle(d: int) -> Parameters:
    """Scores of zero, and the value one: tokens move by means of what they see."""
    return Parameters(np.zeros((1, d)), np.zeros((1, d)), np.eye(d))


def sums(x: Array, n_blocks: int) -> Array:
    """The library's pooled blocks."""
    return np.asarray(pooled(Blocks(points(sequence(x)), n_blocks)))


def sums_so_far(x: Array, n_blocks: int) -> Array:
    """The library's sums of tokens up to the first of each block."""
    return np.asarray(pooled_before(Blocks(points(sequence(x)), n_blocks)))


def network(*layers: Array, link: Any = jax.nn.relu) -> SortingNetwork:
    """The library's sorting network, with one link after each matrix."""
    return SortingNetwork(tuple(Layer(matrix, link=link) for matrix in layers))


def balance(logs: Array, passes: int) -> Array:
    """The library's balanced matrix of these logarithms."""
    return np.asarray(jnp.exp(balanced(jnp.asarray(logs), passes)))


def balance_causally(logs: Array, passes: int) -> Array:
    """The library's balanced lower triangle."""
    return np.asarray(jnp.exp(balanced_causally(jnp.asarray(logs), passes)))


@eqx.filter_jit
def slopes(of: Attention, at: Cloud) -> Float[JaxArray, "n d n d"]:
    """The derivatives of the library's velocities by the tokens."""
    mu: Points = points(at)
    return jax.jacrev(lambda x: of.field(0.0, mu.at(x))(mu.at(x).tokens))(mu.tokens.x)
