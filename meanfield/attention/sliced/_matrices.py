r"""The plan of a slice as a matrix, computed without sorting, for small clouds.

Comparisons of all pairs give the total mass of the atoms before each atom. A few matrix
products thus match a whole stack of clouds, and these products are simple to
differentiate.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens


def partner_rows(
    line_score: AbstractScore,
    queries: tuple[Float[Array, " m"], Float[Array, " m"]],
    keys: tuple[Float[Array, " n"], Float[Array, " n"]],
) -> tuple[Float[Array, " m"], Float[Array, "m n"]]:
    r"""Logs of the row sums of the soft sort of queries, and the rows of $I P_t(v)$.

    Here $I$ is the plan by ranks.

    Args:
        line_score: the score $s$ of the soft sorts.
        queries: the points $u$ and their weights, which sum to one.
        keys: the points $v$ and their weights, which sum to one.
    """
    u, p = queries
    scores = line_score(Tokens(u[:, None]), Tokens(u[:, None]))
    log_sums = jax.nn.logsumexp(scores + _log(p)[None, :], axis=1)
    rows = overlap(queries, keys)
    return log_sums, jnp.matmul(rows, _sort(line_score, keys), precision=HIGHEST)


def soft_rows(
    line_score: AbstractScore,
    points: Float[Array, " k"],
    queries: tuple[Float[Array, " m"], Float[Array, " m"]],
    partners: tuple[Float[Array, " m"], Float[Array, "m n"]],
) -> tuple[Float[Array, "k n"], Float[Array, " k"]]:
    r"""Rows of $P_t(u)^\top I P_t(v)$, divided by their sums, and logs of the sums.

    Each row is first divided by the weight of its query.

    Args:
        line_score: the score $s$ of the soft sorts.
        points: the points whose rows are returned; to get all rows, use $u$.
        queries: the points $u$ and their weights, which sum to one.
        partners: the result of `partner_rows`.
    """
    (u, p), (log_sums, rows) = queries, partners
    S = line_score(Tokens(points[:, None]), Tokens(u[:, None]))
    logs = jnp.where(p[None, :] > 0, S - log_sums[None, :], -jnp.inf)
    top = jax.lax.stop_gradient(jnp.max(logs, axis=1))
    E = jnp.exp(logs - top[:, None])
    sums = E @ p
    means = jnp.matmul(E, rows, precision=HIGHEST)
    return means / sums[:, None], jnp.log(sums) + top


def overlap(
    queries: tuple[Float[Array, " m"], Float[Array, " m"]],
    keys: tuple[Float[Array, " n"], Float[Array, " n"]],
) -> Float[Array, "m n"]:
    """The plan by ranks, that is, the mass shared by each query and each key.

    Atoms at the same point are ordered by their index.
    """
    begin_of_query, end_of_query = _interval(*queries)
    begin_of_key, end_of_key = _interval(*keys)
    ends = jnp.minimum(end_of_query[:, None], end_of_key[None, :])
    begins = jnp.maximum(begin_of_query[:, None], begin_of_key[None, :])
    return jnp.maximum(ends - begins, 0)


def _interval(places: Float[Array, " n"], p: Float[Array, " n"]) -> tuple[Array, Array]:
    """The interval of [0, 1] that the mass of each atom occupies."""
    numbers = jnp.arange(places.shape[0])
    is_tied = places[None, :] == places[:, None]
    earlier = numbers[None, :] < numbers[:, None]
    is_before = (places[None, :] < places[:, None]) | (is_tied & earlier)
    begins = is_before.astype(p.dtype) @ p
    return begins, begins + p


def _sort(
    line_score: AbstractScore, side: tuple[Float[Array, " n"], Float[Array, " n"]]
) -> Float[Array, "n n"]:
    """The matrix of the soft sort; its rows are ordered like the atoms, not by rank."""
    v, p = side
    S = line_score(Tokens(v[:, None]), Tokens(v[:, None]))
    return jax.nn.softmax(S + _log(p)[None, :], axis=1)


def _log(p: Float[Array, " n"]) -> Float[Array, " n"]:
    return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1)), -jnp.inf)
