"""Formulas of the papers in plain NumPy, with loops where the papers have sums.

Nothing here uses the library, which is compared with these formulas. In all functions,
tokens `x` have the shape `(n, d)`, their weights `w` sum to one, and probes have the
shape `(m, d)`.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import expit, logsumexp

from .alternation import converged_state, potentials

Array = np.ndarray


def dot_scores(Q: Array, K: Array, probes: Array, x: Array) -> Array:
    r"""Scores $Qx_i\cdot Ky_j$, computed for one pair at a time."""
    return np.array([[(Q @ p) @ (K @ y) for y in x] for p in probes])


def distance_scores(Q: Array, K: Array, probes: Array, x: Array) -> Array:
    """Scores $-|Qx_i - Ky_j|^2$, computed for one pair at a time."""
    return np.array([[-np.sum((Q @ p - K @ y) ** 2) for y in x] for p in probes])


def row_softmax(scores: Array, w: Array) -> Array:
    r"""Weights $w_j e^{s_{ij}} / \sum_l w_l e^{s_{il}}$ of each row."""
    logs = scores + np.log(w)[None, :]
    return np.exp(logs - np.asarray(logsumexp(logs, axis=1, keepdims=True)))


def normalised_velocity(scores: Array, w: Array, V: Array, x: Array) -> Array:
    r"""Velocities $V\sum_j P_{ij}x_j$ with normalised rows of `P`, as for softmax."""
    return row_softmax(scores, w) @ x @ V.T


def pointwise_velocity(
    link: Callable[[Array], Array], scores: Array, w: Array, V: Array, x: Array
) -> Array:
    r"""Velocities $V\sum_j w_j \varphi(s_{ij}) x_j$, as for exp, sigmoid and ReLU."""
    return (link(scores) * w[None, :]) @ x @ V.T


def sinkhorn_potentials(scores: Array, w: Array, v: Array) -> tuple[Array, Array]:
    """Potentials $f$ of rows and $g$ of columns, by alternating log-domain updates.

    The integrals of $e^{s_{ij} + f_i + g_j}$ against `w` in $i$, `v` in $j$, are one.
    """
    change = lambda old, new: np.max(np.abs(new[1] - old[1]))
    return converged_state(potentials(scores, w, v), change, tolerance=1e-15)


def sinkhorn_velocity(
    scores: Array, w: Array, V: Array, x: Array, epsilon: float
) -> Array:
    r"""Velocities $V\sum_j w_j\kappa^\infty_{ij}x_j/\epsilon$; `scores` contain 1/ε."""
    f, g = sinkhorn_potentials(scores, w, w)
    density = np.exp(scores + f[:, None] + g[None, :])
    return (density * w[None, :]) @ x @ V.T / epsilon


def integrate(
    rate: Callable[[float, Array], Array],
    start: Array,
    ts: Array,
    *,
    rtol: float = 1e-11,
) -> Array:
    """Solution of $y' = r(t, y)$ of any shape, at the times `ts`, by SciPy's DOP853."""
    shape = np.shape(start)
    solution = solve_ivp(
        lambda t, y: np.ravel(rate(t, y.reshape(shape))),
        (float(ts[0]), float(ts[-1])),
        np.ravel(start).astype(float),
        method="DOP853",
        t_eval=ts,
        rtol=rtol,
        atol=1e-2 * rtol,
    )
    return solution.y.T.reshape(len(solution.t), *shape)


def integrate_pieces(
    rate: Callable[[float, float, Array], Array],
    start: Array,
    cuts: Iterable[float],
    *,
    rtol: float = 1e-11,
) -> Array:
    """Solution at the `cuts` of $y' = r(m, t, y)$, which is smooth between them.

    The number $m$ is the middle of a piece; at a cut, it decides which side is meant.
    """
    states = [start]
    for a, b in pairwise(cuts):
        piece = partial(rate, (a + b) / 2)
        states.append(integrate(piece, states[-1], np.array([a, b]), rtol=rtol)[-1])
    return np.stack(states)


def rk4(
    rate: Callable[[float, Array], Array], start: Array, t: float, steps: int
) -> Array:
    """State at time `t` by fixed steps of the classical Runge–Kutta method."""
    y, h = np.asarray(start, float), t / steps
    for i in range(steps):
        s = i * h
        a = rate(s, y)
        b = rate(s + h / 2, y + h / 2 * a)
        c = rate(s + h / 2, y + h / 2 * b)
        y = y + h / 6 * (a + 2 * b + 2 * c + rate(s + h, y + h * c))
    return y


def sqrtm_psd(S: Array) -> Array:
    """The symmetric square root of a positive semidefinite matrix."""
    values, U = np.linalg.eigh(S)
    return (U * np.sqrt(np.maximum(values, 0))) @ U.T


sigmoid = expit
