"""Compiled calls of the library for sequences: blocks, balancing, sparse attention."""

from typing import Any

from jaxtyping import Float

from meanfield.attention import Attention, sparse
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._vocabulary import Cloud, Parameters

from .attentions import matrices, points, velocity


def sequence(x: Array) -> Cloud:
    """Cloud of equally weighted tokens at positions 1/n, 2/n, …, 1."""
    n = len(x)
    return Cloud(x, np.ones(n), np.arange(1, n + 1) / n)


def weights(name: str, p: Parameters, x: Array, **options: Any) -> Array:
    """The library's attention matrix of a sequence."""
    return np.asarray(matrices(p.attention(name, **options), sequence(x))[0])


def velocities(name: str, p: Parameters, x: Array, **options: Any) -> Array:
    """The library's velocities of a sequence."""
    cloud = sequence(x)
    return np.asarray(velocity(p.attention(name, **options), cloud, cloud))


def zero_scores(d: int) -> Parameters:
    """Parameters with zero scores and V = I, for which velocities are plain means."""
    return Parameters(np.zeros((1, d)), np.zeros((1, d)), np.eye(d))


def sums(x: Array, n_blocks: int) -> Array:
    """The library's sums of the tokens of each block."""
    return np.asarray(sparse.block_sums(sparse.Blocks(points(sequence(x)), n_blocks)))


def sums_so_far(x: Array, n_blocks: int) -> Array:
    """The library's sums of tokens, up to and including the first one of each block."""
    return np.asarray(sparse.prefix_sums(sparse.Blocks(points(sequence(x)), n_blocks)))


def network(*layers: Array, link: Any = jax.nn.relu) -> sparse.SortingNetwork:
    """The library's sorting network, with the same link after each matrix."""
    return sparse.SortingNetwork(
        tuple(sparse.Layer(matrix, link=link) for matrix in layers)
    )


def balance(logs: Array, passes: int) -> Array:
    """The library's balanced matrix, from logarithms of its entries."""
    return np.asarray(jnp.exp(sparse.balance_logs(jnp.asarray(logs), passes)))


def balance_causally(logs: Array, passes: int) -> Array:
    """The library's causally balanced lower triangle, from logarithms of entries."""
    return np.asarray(jnp.exp(sparse.balance_logs_causally(jnp.asarray(logs), passes)))


@eqx.filter_jit
def velocity_jacobian(attention: Attention, cloud: Cloud) -> Float[JaxArray, "n d n d"]:
    """Derivatives of the library's velocities with respect to the tokens."""
    mu: Points = points(cloud)
    return jax.jacrev(
        lambda x: attention.field(0.0, mu.replace_coordinates(x))(
            mu.replace_coordinates(x).tokens
        )
    )(mu.tokens.x)
