"""Balancing of a positive matrix, which normalises columns and rows in turn."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from meanfield._programs import compile_once

Logs = Float[Array, "b b"]


def balance_logs(logs: Float[Array, "b b"], passes: int) -> Float[Array, "b b"]:
    r"""Logarithm of the balanced matrix, after normalising columns and rows in turn.

    Rows sum to one, and in the limit of many passes columns do too. In the log domain a
    row is divided by its sum as $X - \log((e^X 1)1^\top)$. If `passes` is zero, only
    rows are normalised. Source: tay2020, section 3.1.1, where the names of the two
    normalisations are exchanged (ERRATA T1) and the exponential is misplaced (T2).

    Args:
        logs: logarithms of the entries, which must be finite.
        passes: $N_k$, the number of passes over columns and rows.

    Examples:
        >>> from meanfield.attention.sparse import balance_logs
        >>> S = jnp.exp(balance_logs(jnp.array([[0.0, 1.0], [2.0, 0.0]]), 100))
        >>> print(S.sum(axis=0), S.sum(axis=1))
        [1. 1.] [1. 1.]
    """
    return _alternate(logs, _column_sums, passes)


def balance_logs_causally(
    logs: Float[Array, "b b"], passes: int
) -> Float[Array, "b b"]:
    r"""Causal balancing of a lower triangular matrix, so that no row reads later rows.

    In row $i$, a column is divided by its sum over the rows up to $i$; entries above
    the diagonal are zero. Rows sum to one. Columns do not, since the only doubly
    stochastic triangular matrix is the identity. The published balancing divides by
    sums over whole columns, so that earlier rows depend on later ones (tay2020, section
    3.3; ERRATA T3, T4, new:N5).

    Args:
        logs: logarithms of the entries; those above the diagonal are not used.
        passes: $N_k$, the number of passes over columns and rows.

    Examples:
        >>> from meanfield.attention.sparse import balance_logs_causally
        >>> print(jnp.exp(balance_logs_causally(jnp.zeros((3, 3)), 1)))
        [[1.     0.     0.    ]
         [0.3333 0.6667 0.    ]
         [0.1818 0.2727 0.5455]]
    """
    lower_triangle = jnp.tril(jnp.ones(logs.shape, bool))
    return _alternate(jnp.where(lower_triangle, logs, -jnp.inf), _sums_so_far, passes)


def _column_sums(logs: Float[Array, "b b"]) -> Float[Array, "1 b"]:
    return jax.nn.logsumexp(logs, axis=0, keepdims=True)


def _sums_so_far(logs: Float[Array, "b b"]) -> Float[Array, "b b"]:
    r"""$\log\sum_{j \leq i} e^{X_{jk}}$ of a lower triangle; zero above the diagonal.

    It is computed row by row with finite numbers, since XLA's cumulative log-sum-exp
    has NaN derivatives for columns that begin with $-\infty$.
    """
    columns = jnp.arange(logs.shape[0])

    def row(sums: Array, entry: tuple[Array, Array]) -> tuple[Array, Array]:
        place, values = entry
        values = jnp.where(columns <= place, values, 0)
        more = jnp.where(columns < place, jnp.logaddexp(sums, values), values)
        return more, more

    return jax.lax.scan(row, jnp.zeros_like(logs[0]), (columns, logs))[1]


@compile_once
def _alternate(logs: Logs, columns: Callable[[Logs], Array], passes: int) -> Logs:
    def normalise(_: Int[Array, ""], X: Logs) -> Logs:
        X = X - columns(X)
        return X - jax.nn.logsumexp(X, axis=1, keepdims=True)

    if passes == 0:
        return jax.nn.log_softmax(logs, axis=1)
    return jax.lax.fori_loop(0, passes, normalise, logs)
