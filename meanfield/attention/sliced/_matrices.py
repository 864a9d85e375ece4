r"""The plan of a slice as a matrix, without sorts: for few tokens, many times over.

An atom's masses begin where those of all atoms before it end, which comparisons of all
pairs say; so whole stacks of clouds are matched in a few products, and derivatives are
those of products.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens


def soft_plan(
    near: AbstractScore,
    at: Float[Array, " k"],
    queries: tuple[Float[Array, " m"], Float[Array, " m"]],
    keys: tuple[Float[Array, " n"], Float[Array, " n"]],
) -> tuple[Float[Array, "k n"], Float[Array, " k"]]:
    r"""Rows of $P_t(u)^\top I P_t(v)$, divided by their sums, and logs of the sums.

    $I$ is the plan by ranks, and a row of the plan is in units of its query's weight.

    Args:
        near: $s$ of soft sorts.
        at: the places whose rows are asked for; $u$, for all of them.
        queries: $u$, and their weights, which sum to one.
        keys: $v$, likewise.
    """
    u, p = queries
    own = near(Tokens(u[:, None]), Tokens(u[:, None]))
    log_sums = jax.nn.logsumexp(own + _log(p)[None, :], axis=1)
    S = near(Tokens(at[:, None]), Tokens(u[:, None]))
    logs = jnp.where(p[None, :] > 0, S - log_sums[None, :], -jnp.inf)
    top = jax.lax.stop_gradient(jnp.max(logs, axis=1))
    E = jnp.exp(logs - top[:, None])
    sums = E @ p
    product = lambda A, B: jnp.matmul(A, B, precision=HIGHEST)
    rows = product(product(E, overlap(queries, keys)), _sort(near, keys))
    return rows / sums[:, None], jnp.log(sums) + top


def overlap(
    queries: tuple[Float[Array, " m"], Float[Array, " m"]],
    keys: tuple[Float[Array, " n"], Float[Array, " n"]],
) -> Float[Array, "m n"]:
    """The plan by ranks: the mass that each query and each key have in common.

    Of atoms in one place the one of the smaller number comes first.
    """
    begin_of_query, end_of_query = _interval(*queries)
    begin_of_key, end_of_key = _interval(*keys)
    ends = jnp.minimum(end_of_query[:, None], end_of_key[None, :])
    begins = jnp.maximum(begin_of_query[:, None], begin_of_key[None, :])
    return jnp.maximum(ends - begins, 0)


def _interval(places: Float[Array, " n"], p: Float[Array, " n"]) -> tuple[Array, Array]:
    """Where the mass of each atom lies in [0, 1]."""
    numbers = jnp.arange(places.shape[0])
    tied = places[None, :] == places[:, None]
    earlier = numbers[None, :] < numbers[:, None]
    before = (places[None, :] < places[:, None]) | (tied & earlier)
    begins = before.astype(p.dtype) @ p
    return begins, begins + p


def _sort(
    near: AbstractScore, side: tuple[Float[Array, " n"], Float[Array, " n"]]
) -> Float[Array, "n n"]:
    """The soft sort, its rows in the order of atoms and not of ranks."""
    v, p = side
    S = near(Tokens(v[:, None]), Tokens(v[:, None]))
    return jax.nn.softmax(S + _log(p)[None, :], axis=1)


def _log(p: Float[Array, " n"]) -> Float[Array, " n"]:
    return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1)), -jnp.inf)
