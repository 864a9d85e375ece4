"""How sums are executed: in cells, where that costs less."""

from numbers import Real

import jax.numpy as jnp

from meanfield._array import is_concrete, is_tracing
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.measures.reductions import AbstractReduction, Blocked
from meanfield.measures.reductions.cells import (
    PAIRS,
    Cells,
    chosen,
    extent,
)

from ._functions import vectors


def plan(
    queries: Numbers, keys: Numbers, *, columns: int = 1, tolerance: float = 1e-6
) -> AbstractReduction:
    r"""Sums over keys in cells with an error bound, or exact where these cost less.

    No terms $w_je^{q_i\cdot k_j}$ of a query are off by more than $\tau$ times their
    sum, all together and but for the rounding of inner products, which exact sums have,
    too. So the logarithm of a sum is within $-\log(1 - \tau)$, and a mean within
    $\tau/(1-\tau)$ times half the diameter of the values. It holds for other queries
    and keys, too, as long as they lie no more than a quarter farther along any axis;
    where it does not, sums are exact.

    Args:
        queries: $q$, (m, k), numbers that are known: no arrays inside `jit`.
        keys: $k$, (n, k), likewise.
        columns: of the values that are averaged.
        tolerance: $\tau$.

    Returns:
        What `log_sum_exp` and `tilted_mean` take as `reduction`, and `Points` too.

    Raises:
        InvalidInputError: if shapes do not fit, numbers are not known, or the tolerance
            is not between 1e-11 and 0.1, or `columns` no count.

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
            "A plan needs numbers, and these are not known yet, inside `jit` or a "
            "derivative: plan outside, and pass the plan as `reduction`."
        )
    if not (isinstance(tolerance, Real) and 1e-11 <= tolerance <= 0.1):
        raise InvalidInputError(
            f"`tolerance` must be between 1e-11 and 0.1; got {tolerance!r}."
        )
    if columns < 0:
        raise InvalidInputError(f"`columns` counts those of values; got {columns}.")
    rows, pairs = columns + 1, len(q) * len(k)
    if q.dtype != jnp.float64:
        return Blocked()
    layout = chosen(
        [extent(q, k, jnp.zeros(len(k)))],
        tokens=len(q) + len(k),
        rows=rows,
        error=tolerance,
    )
    if layout is None or layout.seconds(len(q) + len(k), rows) > pairs / PAIRS:
        return Blocked()
    return Cells(tolerance, layout=layout)
