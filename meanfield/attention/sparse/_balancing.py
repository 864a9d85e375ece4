"""Balancing: columns and rows of a positive matrix divided by their sums, in turn."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from meanfield._programs import compile_once

Logs = Float[Array, "b b"]


def balanced(logs: Float[Array, "b b"], passes: int) -> Float[Array, "b b"]:
    r"""$\log$ of the matrix after so many passes, each over columns and then rows.

    So rows sum to one, and columns to one in the limit. In the log domain a row is
    divided by its sum as $X - \log((e^X 1)1^\top)$; without passes rows alone are.
    Source: tay2020, section 3.1.1, where the names of both normalisations are exchanged
    (ERRATA T1) and the exponential is misplaced (T2).

    Args:
        logs: the logarithms of the entries, finite.
        passes: $N_k$.

    Examples:
        >>> from meanfield.attention.sparse import balanced
        >>> S = jnp.exp(balanced(jnp.array([[0.0, 1.0], [2.0, 0.0]]), 100))
        >>> print(S.sum(axis=0), S.sum(axis=1))
        [1. 1.] [1. 1.]
    """
    return _alternated(logs, _column_sums, passes)


def balanced_causally(logs: Float[Array, "b b"], passes: int) -> Float[Array, "b b"]:
    r"""The same of a lower triangle, where no row sees a later one.

    A column is divided, in row $i$, by its sum over rows up to $i$; above the diagonal
    are zeros. Rows sum to one, columns do not: a triangle that is doubly stochastic is
    the identity. With the sums of whole columns, as published, earlier rows see later
    ones (tay2020, section 3.3; ERRATA T3, T4, new:N5).

    Args:
        logs: the logarithms of the entries; those above the diagonal are not read.
        passes: $N_k$.

    Examples:
        >>> from meanfield.attention.sparse import balanced_causally
        >>> print(jnp.exp(balanced_causally(jnp.zeros((3, 3)), 1)))
        [[1.     0.     0.    ]
         [0.3333 0.6667 0.    ]
         [0.1818 0.2727 0.5455]]
    """
    past = jnp.tril(jnp.ones(logs.shape, bool))
    return _alternated(jnp.where(past, logs, -jnp.inf), _sums_so_far, passes)


def _column_sums(logs: Float[Array, "b b"]) -> Float[Array, "1 b"]:
    return jax.nn.logsumexp(logs, axis=0, keepdims=True)


def _sums_so_far(logs: Float[Array, "b b"]) -> Float[Array, "b b"]:
    r"""$\log\sum_{j \leq i} e^{X_{jk}}$ of a lower triangle; zero above the diagonal.

    Row by row, and finite everywhere: the sum that XLA has for this gives no
    derivatives where a column begins with $-\infty$.
    """
    columns = jnp.arange(logs.shape[0])

    def row(sums: Array, entry: tuple[Array, Array]) -> tuple[Array, Array]:
        place, values = entry
        values = jnp.where(columns <= place, values, 0)
        more = jnp.where(columns < place, jnp.logaddexp(sums, values), values)
        return more, more

    return jax.lax.scan(row, jnp.zeros_like(logs[0]), (columns, logs))[1]


@compile_once
def _alternated(logs: Logs, columns: Callable[[Logs], Array], passes: int) -> Logs:
    def once(_: Int[Array, ""], X: Logs) -> Logs:
        X = X - columns(X)
        return X - jax.nn.logsumexp(X, axis=1, keepdims=True)

    if passes == 0:
        return jax.nn.log_softmax(logs, axis=1)
    return jax.lax.fori_loop(0, passes, once, logs)
