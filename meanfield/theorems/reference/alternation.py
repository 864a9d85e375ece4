r"""Sinkhorn's alternation in NumPy: the one that statements and tests share.

It makes $e^{s+f+g}$ a density against $w \otimes v$ both of whose marginals are one, by
half-steps: rows, then columns, then rows. Its states are pairs: of rows and of columns.
"""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray
State = tuple[Array, Array]


def potentials(
    scores: Array, w: Array, v: Array, g: Array | None = None
) -> Iterator[State]:
    """$f$ and $g$ after each half-step in the log domain, from $g = 0$ or as given."""
    columns = np.zeros(len(v)) if g is None else g
    while True:
        rows = -np.asarray(logsumexp(scores + (columns + np.log(v))[None, :], axis=1))
        yield rows, columns
        columns = -np.asarray(logsumexp(scores + (rows + np.log(w))[:, None], axis=0))
        yield rows, columns


def scalings(kernel: Array, w: Array, v: Array) -> Iterator[State]:
    """$e^f$ and $e^g$ after each half-step, from $g = 0$; kernels may be complex."""
    columns = np.ones(len(v))
    while True:
        rows = 1 / (kernel @ (v * columns))
        yield rows, columns
        columns = 1 / ((w * rows) @ kernel)
        yield rows, columns


def after(states: Iterator[State], count: int) -> State:
    """What stands there after so many half-steps."""
    return next(islice(states, count - 1, None))


def settled(
    states: Iterator[State],
    change: Callable[[State, State], float],
    *,
    below: float,
    most: int = 4000,
) -> State:
    """Full steps until one changes less than that, or so many of them."""
    full = islice(states, 1, 2 * most, 2)
    state = next(full)
    for new in full:
        still, state = change(state, new) < below, new
        if still:
            break
    return state
