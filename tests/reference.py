"""Attention from its definition, in NumPy, slowly: loops, sums, nothing clever.

Written from the mathematics alone, for tests. A measure is tokens `y` with weights `w`;
a velocity is $V \\sum_j w_j \\kappa(x, y_j) y_j + o$.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Matrix = np.ndarray
Vector = np.ndarray


@dataclass(frozen=True)
class Parameters:
    """What every variant is made of."""

    Q: Matrix
    K: Matrix
    V: Matrix
    epsilon: float = 1.0
    q: Vector | None = None
    k: Vector | None = None


def dot(p: Parameters, x: Vector, y: Vector) -> float:
    q = np.zeros(len(p.Q)) if p.q is None else p.q
    k = np.zeros(len(p.K)) if p.k is None else p.k
    return float((p.Q @ x + q) @ (p.K @ y + k)) / p.epsilon


def squared_distance(p: Parameters, x: Vector, y: Vector) -> float:
    return -float(np.sum((p.Q @ x - p.K @ y) ** 2)) / p.epsilon


def table(score: Callable, p: Parameters, x: Matrix, y: Matrix) -> Matrix:
    """All scores, one at a time."""
    return np.array([[score(p, xi, yj) for yj in y] for xi in x])


def log_sum(S: Matrix, w: Vector) -> Vector:
    """$\\log \\sum_j w_j e^{S_{ij}}$, row by row."""
    top = S.max(axis=1)
    return top + np.log(np.exp(S - top[:, None]) @ w)


def softmax(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    S = table(dot, p, x, y)
    return np.exp(S - log_sum(S, w)[:, None])


def l2(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    S = table(squared_distance, p, x, y)
    return np.exp(S - log_sum(S, w)[:, None])


def linear(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return table(dot, p, x, y)


def linear_expansion(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    S = table(dot, p, x, y) * p.epsilon**2  # its epsilon multiplies the scores
    return (1 + S - (S @ w)[:, None]) / p.epsilon  # and divides the value


def exp(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return np.exp(table(dot, p, x, y))


def sigmoid(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return 1 / (1 + np.exp(-table(dot, p, x, y)))


def relu(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return np.maximum(table(dot, p, x, y), 0)


def half_steps(
    p: Parameters, x: Matrix, y: Matrix, w: Vector, *, iterations: int
) -> Matrix:
    """Sinkhorn from zero, rows first, stopped after `iterations` half-steps."""
    S = table(dot, p, y, y)
    f, g = np.zeros(len(y)), np.zeros(len(y))
    before = g
    for step in range(iterations):
        if step % 2 == 0:
            before = g
            f = -log_sum(S + g[None, :], w)
        else:
            g = -log_sum(S.T + f[None, :], w)
    rows = table(dot, p, x, y)
    at_queries = -log_sum(rows + before[None, :], w)
    return np.exp(rows + at_queries[:, None] + g[None, :]) / p.epsilon


def plan_potentials(S: Matrix, w: Vector) -> tuple[Vector, Vector]:
    """Alternation in the log domain until both marginals hold to 1e-13."""
    f, g = np.zeros(len(w)), np.zeros(len(w))
    for _ in range(200_000):
        f = -log_sum(S + g[None, :], w)
        change = -log_sum(S.T + f[None, :], w) - g
        g = g + change
        if np.max(np.abs(change)) < 1e-13:
            return f, g
    raise AssertionError("the reference did not converge")


def sinkhorn(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    _, g = plan_potentials(table(dot, p, y, y), w)
    rows = table(dot, p, x, y) + g[None, :]
    return np.exp(rows - log_sum(rows, w)[:, None]) / p.epsilon


KERNELS: dict[str, Callable[[Parameters, Matrix, Matrix, Vector], Matrix]] = {
    "softmax": softmax,
    "l2": l2,
    "sinkhorn": sinkhorn,
    "linear": linear,
    "linear-expansion": linear_expansion,
    "exp": exp,
    "sigmoid": sigmoid,
    "relu": relu,
}


def velocity(name: str, p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    """Velocities at `x` under the variant `name`, from tokens `y` of weights `w`."""
    return (KERNELS[name](p, x, y, w) * w[None, :]) @ y @ p.V.T


def masked_velocity(
    name: str,
    p: Parameters,
    y: Matrix,
    w: Vector,
    sees: Matrix,
) -> Matrix:
    """Each token under the measure restricted to what it sees, renormalised."""
    rows = []
    for i in range(len(y)):
        seen = sees[i]
        if not np.any(w[seen] > 0):
            rows.append(np.zeros(y.shape[1]))
            continue
        part = w[seen] / np.sum(w[seen]) * np.sum(w)
        rows.append(velocity(name, p, y[i : i + 1], y[seen], part)[0])
    return np.array(rows)


def gaussian_linear(
    name: str, p: Parameters, Sigma: Matrix, alpha: Vector
) -> tuple[Matrix, Vector]:
    """$(L, b)$ of the barycentre after $V$, with inverses wherever a paper has them.

    For nonsingular `Sigma` and `A`. Sources: castin2025, Lemmas 4.1 and 4.14, and eq.
    (4.3) corrected as ERRATA C10 says.
    """
    d = len(alpha)
    A = p.K.T @ p.Q / p.epsilon
    inverse = np.linalg.inv(Sigma)
    if name == "softmax":
        return p.V @ Sigma @ A, p.V @ alpha
    if name == "l2":
        tilted = np.linalg.inv(inverse + 2 * p.K.T @ p.K / p.epsilon)
        return 2 * p.V @ tilted @ A, p.V @ tilted @ inverse @ alpha
    if name == "sinkhorn":
        root = square_root(Sigma)
        middle = square_root(np.eye(d) / 4 + root @ A.T @ Sigma @ A @ root)
        C = root @ middle @ np.linalg.inv(root) - np.eye(d) / 2
        L = p.V @ np.linalg.inv(A).T @ inverse @ C / p.epsilon
        return L, p.V @ alpha / p.epsilon - L @ alpha
    if name == "linear":
        return p.V @ (Sigma + np.outer(alpha, alpha)) @ A, np.zeros(d)
    if name == "linear-expansion":
        return p.V @ Sigma @ A * p.epsilon, p.V @ alpha / p.epsilon
    if name == "relu":
        return p.V @ Sigma @ A / 2, np.zeros(d)
    raise KeyError(name)


def square_root(S: Matrix) -> Matrix:
    values, U = np.linalg.eigh(S)
    return (U * np.sqrt(np.maximum(values, 0))) @ U.T
