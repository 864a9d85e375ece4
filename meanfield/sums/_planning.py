"""Choice of a reduction for sums, which uses cells if these are faster."""

from numbers import Real

import jax.numpy as jnp

from meanfield._array import is_concrete, is_tracing
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.measures.reductions import AbstractReduction, Blocked
from meanfield.measures.reductions.cells import PAIRS, Cells, choose_layout, extent

from ._functions import vectors


def plan(
    queries: Numbers, keys: Numbers, *, columns: int = 1, tolerance: float = 1e-6
) -> AbstractReduction:
    r"""A reduction for sums over keys: exact sums, or cells if these are faster.

    For each query, the total error of all terms $w_je^{q_i\cdot k_j}$ is at most $\tau$
    times their sum, apart from rounding errors of inner products, which exact sums
    have, too. So the error of the logarithm of a sum is at most $-\log(1 - \tau)$, and
    the error of a mean is at most $\tau/(1-\tau)$ times half the diameter of the
    values. The bound also holds for other queries and keys that reach at most a quarter
    farther along any axis. Sums are exact if they reach farther, or in single
    precision.

    Args:
        queries: $q$, (m, k); concrete values, not traced inside `jit`.
        keys: $k$, (n, k); concrete values, not traced inside `jit`.
        columns: number of columns of the values that are averaged.
        tolerance: $\tau$.

    Returns:
        The `reduction` to pass to `log_sum_exp`, `tilted_mean` or `Points`.

    Raises:
        InvalidInputError: if shapes do not match, values are traced, the tolerance is
            not between 1e-11 and 0.1, or `columns` is negative.

    Examples:
        >>> from meanfield import sums
        >>> x = jax.random.normal(jax.random.key(0), (20_000, 2))
        >>> sums.plan(x[:100], x[:100])  # 10 000 pairs: exact
        Blocked()
        >>> with jax.enable_x64():
        ...     x = jnp.asarray(x, jnp.float64)
        ...     cells = sums.plan(x, x, columns=2)
        >>> cells.layout.bound <= 1e-6
        True
    """
    q, k = vectors("queries", queries), vectors("keys", keys)
    if is_tracing() or not (is_concrete(q) and is_concrete(k)):
        raise InvalidInputError(
            "`plan` needs concrete values; got traced values, as inside `jit` or a "
            "derivative. Call `plan` outside, and pass its result as `reduction`."
        )
    if not (isinstance(tolerance, Real) and 1e-11 <= tolerance <= 0.1):
        raise InvalidInputError(
            f"`tolerance` must be between 1e-11 and 0.1; got {tolerance!r}."
        )
    if columns < 0:
        raise InvalidInputError(f"`columns` must not be negative; got {columns}.")
    rows, pairs = columns + 1, len(q) * len(k)
    if q.dtype != jnp.float64:
        return Blocked()
    layout = choose_layout(
        [extent(q, k, jnp.zeros(len(k)))],
        tokens=len(q) + len(k),
        rows=rows,
        error=tolerance,
    )
    if layout is None or layout.seconds(len(q) + len(k), rows) > pairs / PAIRS:
        return Blocked()
    return Cells(tolerance, layout=layout)
