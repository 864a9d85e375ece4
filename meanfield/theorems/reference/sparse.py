"""Sparse Sinkhorn attention in NumPy: blocks, balancing, matrices of a sequence."""

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Balancing = Callable[[Array, int], Array]


def block_sums(x: Array, b: int, more: int = 0) -> Array:
    r"""$\sum_{iB \leq j < (i+1)B} x_j$, of as many tokens more at the end."""
    return np.array([x[i : i + b + more].sum(axis=0) for i in range(0, len(x), b)])


def sums_before(x: Array, b: int, more: int = 0) -> Array:
    r"""$\sum_{j \leq iB} x_j$, of as many tokens more at the end."""
    return np.array([x[: i + 1 + more].sum(axis=0) for i in range(0, len(x), b)])


def by_rows(X: Array) -> Array:
    r"""$X \oslash (X11^\top)$."""
    return X / X.sum(axis=1, keepdims=True)


def by_columns(X: Array) -> Array:
    r"""$X \oslash (11^\top X)$."""
    return X / X.sum(axis=0, keepdims=True)


def balanced(X: Array, passes: int) -> Array:
    """Columns and then rows, so many times."""
    for _ in range(passes):
        X = by_rows(by_columns(X))
    return X


def balanced_so_far(X: Array, passes: int) -> Array:
    """The lower triangle; columns are divided by their sums over rows so far."""
    X = np.tril(X)
    for _ in range(passes):
        sums = np.cumsum(X, axis=0)
        X = by_rows(X / np.where(sums > 0, sums, 1))
    return X


def balanced_below(X: Array, passes: int) -> Array:
    """The lower triangle, balanced by the sums of whole columns."""
    return balanced(np.tril(X), passes)


def balanced_above(X: Array, passes: int) -> Array:
    """The upper triangle likewise: what the print masks."""
    return balanced(np.triu(X), passes)


def transposed_above(X: Array, passes: int) -> Array:
    """The same, transposed."""
    return balanced_above(X, passes).T


def sparse_scores(
    scores: Array, mixed: Array, b: int, outside: float = -np.inf
) -> Array:
    r"""$s(x_i, \psi_j) + s(x_i, x_j)$ in a block, something else outside of it."""
    block = np.arange(len(scores)) // b
    return np.where(block[:, None] == block[None, :], scores + mixed, outside)


def row_softmax(S: Array) -> Array:
    """Rows of positive numbers that sum to one."""
    e = np.exp(S - S.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def on_tokens(R: Array, b: int) -> Array:
    r"""$R \otimes I_b$: what sorts tokens, where $R$ sorts blocks."""
    return np.kron(R, np.eye(b))
