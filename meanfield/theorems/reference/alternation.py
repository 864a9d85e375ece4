r"""Sinkhorn's alternation in NumPy, shared by statements and tests.

Half-steps alternate between rows and columns, starting with rows, until $e^{s+f+g}$ is
a density against $w \otimes v$ whose marginals are both one. A state is a pair (rows,
columns).
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
    """States $(f, g)$ after each half-step in the log domain; `g` starts at zero.

    Another start can be passed as `g`.
    """
    columns = np.zeros(len(v)) if g is None else g
    while True:
        rows = -np.asarray(logsumexp(scores + (columns + np.log(v))[None, :], axis=1))
        yield rows, columns
        columns = -np.asarray(logsumexp(scores + (rows + np.log(w))[:, None], axis=0))
        yield rows, columns


def scalings(kernel: Array, w: Array, v: Array) -> Iterator[State]:
    """States $(e^f, e^g)$ after half-steps, from $g = 0$; kernels may be complex."""
    columns = np.ones(len(v))
    while True:
        rows = 1 / (kernel @ (v * columns))
        yield rows, columns
        columns = 1 / ((w * rows) @ kernel)
        yield rows, columns


def nth_state(states: Iterator[State], count: int) -> State:
    """The state after `count` half-steps."""
    return next(islice(states, count - 1, None))


def converged_state(
    states: Iterator[State],
    change: Callable[[State, State], float],
    *,
    tolerance: float,
    max_steps: int = 4000,
) -> State:
    """Iterates until a full step changes the state by less than `tolerance`.

    At most `max_steps` full steps are taken.
    """
    full = islice(states, 1, 2 * max_steps, 2)
    state = next(full)
    for new in full:
        is_converged, state = change(state, new) < tolerance, new
        if is_converged:
            break
    return state
