"""The matrices of each head, from a list or from the blocks of one matrix."""

from collections.abc import Callable
from typing import cast

import jax
import numpy as np
from jaxtyping import Array

from meanfield.errors import InvalidInputError
from meanfield.spec import HEADWISE_KEYS, AttentionSpec, Matrices, Matrix, heads_of

from ._parameters import Draw, matrix, square

Block = tuple[Array, Array, Array]
Make = Callable[[str, Matrix], Array]


def parameters(
    part: AttentionSpec, d: int, draw: Draw, prefix: str = ""
) -> list[Block]:
    """`Q`, `K` and `V` of each head, before `scale`.

    Head `h` takes entry `h` of a list of matrices. From a single matrix, it takes block
    `h` of the rows of `Q` and `K`; in `V` it sets all other rows to zero.

    Raises:
        InvalidInputError: if shapes or the number of heads do not fit.
    """
    _check_lists(part, prefix)
    whole: Make = lambda name, value: square(f"{prefix}{name}", value, d, draw)
    rows: Make = lambda name, value: matrix(f"{prefix}{name}", value, (d, d), draw)
    A = 1.0 if part.A is None else part.A
    if part.Q is None or part.K is None:
        unit = 1.0 if heads_of(A) is None else [1.0] * part.heads
        Q = _each_head(part, "A", A, make=whole, cut=_rows_of_queries)
        K = _each_head(part, "K", unit, make=whole, cut=_rows_of_queries)
    else:
        Q = _each_head(part, "Q", part.Q, make=rows, cut=_rows_of_queries)
        K = _each_head(part, "K", part.K, make=rows, cut=_rows_of_queries)
    counts = dict.fromkeys(block.shape[0] for block in (*Q, *K))
    if len(counts) > 1:
        raise InvalidInputError(
            f"`{prefix}Q` and `{prefix}K` must have the same number of rows; got "
            f"{' and '.join(map(str, counts))}."
        )
    sign = score_sign(part.V)
    if sign is not None:
        V = [sign * np.asarray(k).T @ np.asarray(q) for q, k in zip(Q, K, strict=True)]
        return list(zip(Q, K, map(jax.device_put, V), strict=True))
    V = _each_head(part, "V", part.V, make=whole, cut=_rows_of_values)
    return list(zip(Q, K, V, strict=True))


def score_sign(V: Matrices | None) -> float | None:
    """The sign in `V` = ±A, which stands for the score matrix; `None` for others."""
    return {"A": 1.0, "-A": -1.0}.get(V) if isinstance(V, str) else None


def _check_lists(part: AttentionSpec, prefix: str) -> None:
    for name in HEADWISE_KEYS:
        parts = heads_of(getattr(part, name))
        if parts is not None and len(parts) != part.heads:
            raise InvalidInputError(
                f"`{prefix}{name}` is a list of {len(parts)} matrices, but must have "
                f"one for each head (`heads` = {part.heads}); a single matrix is a "
                "list of rows, such as [[1,0],[0,2]]."
            )


def _each_head(
    part: AttentionSpec,
    name: str,
    value: Matrices,
    *,
    make: Make,
    cut: Callable[[str, Array, int], list[Array]],
) -> list[Array]:
    """A matrix for each head: an entry of a list, or a part of a single matrix."""
    parts = heads_of(value)
    if parts is None:
        single = make(name, cast(Matrix, value))
        return [single] if part.heads == 1 else cut(name, single, part.heads)
    return [make(f"{name}[{head}]", entry) for head, entry in enumerate(parts)]


def _rows_of_queries(name: str, single: Array, n_heads: int) -> list[Array]:
    """The block of rows of a matrix for each head."""
    check_divides(name, len(single), n_heads)
    # NumPy is used, since JAX would compile a program for each number of heads.
    return [jax.device_put(rows) for rows in np.split(np.asarray(single), n_heads)]


def _rows_of_values(name: str, single: Array, n_heads: int) -> list[Array]:
    """For each head, the matrix with all rows outside its block set to zero."""
    d = len(single)
    check_divides(name, d, n_heads)
    rows, whole = np.arange(d) // (d // n_heads), np.asarray(single)
    masks = ((rows == h)[:, None] for h in range(n_heads))
    return [jax.device_put(np.where(mask, whole, 0)) for mask in masks]


def check_divides(name: str, rows: int, n_heads: int) -> None:
    """Checks that the number of heads divides the rows of a matrix.

    Raises:
        InvalidInputError: if it does not.
    """
    if rows % n_heads:
        raise InvalidInputError(
            f"`heads` must divide {rows}, the number of rows of `{name}`; got {n_heads}"
            ". Alternatively, give a list with one matrix for each head."
        )
