"""Sparse Sinkhorn attention in NumPy: blocks, balancing, attention matrices."""

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Balancing = Callable[[Array, int], Array]


def block_sums(x: Array, b: int, more: int = 0) -> Array:
    r"""Sums $\sum_{iB \leq j < (i+1)B} x_j$, with `more` added to the upper index."""
    return np.array([x[i : i + b + more].sum(axis=0) for i in range(0, len(x), b)])


def sums_before(x: Array, b: int, more: int = 0) -> Array:
    r"""Sums $\sum_{j \leq iB} x_j$, with `more` added to the upper index."""
    return np.array([x[: i + 1 + more].sum(axis=0) for i in range(0, len(x), b)])


def normalise_rows(X: Array) -> Array:
    r"""Divides each row by its sum: $X \oslash (X11^\top)$."""
    return X / X.sum(axis=1, keepdims=True)


def normalise_columns(X: Array) -> Array:
    r"""Divides each column by its sum: $X \oslash (11^\top X)$."""
    return X / X.sum(axis=0, keepdims=True)


def balance(X: Array, passes: int) -> Array:
    """Normalises the columns and then the rows, `passes` times."""
    for _ in range(passes):
        X = normalise_rows(normalise_columns(X))
    return X


def balance_causally(X: Array, passes: int) -> Array:
    """Balances the lower triangle causally.

    Each column sum runs over the rows up to the current one.
    """
    X = np.tril(X)
    for _ in range(passes):
        sums = np.cumsum(X, axis=0)
        X = normalise_rows(X / np.where(sums > 0, sums, 1))
    return X


def balance_lower(X: Array, passes: int) -> Array:
    """Balances the lower triangle, dividing by the sums of whole columns."""
    return balance(np.tril(X), passes)


def balance_upper(X: Array, passes: int) -> Array:
    """Balances the upper triangle, which the printed mask keeps."""
    return balance(np.triu(X), passes)


def balance_upper_transposed(X: Array, passes: int) -> Array:
    """Transpose of `balance_upper`."""
    return balance_upper(X, passes).T


def sparse_scores(
    scores: Array, sorted_scores: Array, b: int, fill_value: float = -np.inf
) -> Array:
    r"""Scores $s(x_i, \psi_j) + s(x_i, x_j)$ within a block, else `fill_value`."""
    block = np.arange(len(scores)) // b
    return np.where(
        block[:, None] == block[None, :], scores + sorted_scores, fill_value
    )


def row_softmax(S: Array) -> Array:
    """Softmax of each row."""
    e = np.exp(S - S.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def expand_to_tokens(R: Array, b: int) -> Array:
    r"""Matrix $R \otimes I_b$, which sorts tokens if $R$ sorts blocks of length `b`."""
    return np.kron(R, np.eye(b))
