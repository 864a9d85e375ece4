r"""Moments, tokens and energies from their definitions, in NumPy.

A Gaussian is its mean and a factor `Y` of its covariance, $x = \alpha + Yz$ with $z$
standard normal, so that singular ones need no special treatment. Tokens may be complex,
for derivatives by complex steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

Matrix = np.ndarray
Rates = tuple[np.ndarray, np.ndarray]


class Head(NamedTuple):
    """An attention: its name, with `sinkhorn:5` for five half-steps; its matrices."""

    name: str
    Q: Matrix
    K: Matrix
    V: Matrix
    epsilon: float = 1.0

    @property
    def half_steps(self) -> int | None:
        """The number of half-steps of a truncated Sinkhorn attention."""
        return int(self.name.split(":")[1]) if ":" in self.name else None


def _tilt(Y: Matrix, B: Matrix) -> Matrix:
    """$(\\Sigma^{-1} + B)^{-1}$."""
    return Y @ np.linalg.solve(np.eye(Y.shape[1]) + Y.T @ B @ Y, Y.T)


def _half_steps(A: Matrix, alpha: Matrix, Y: Matrix, count: int) -> Rates:
    """Potentials $-\\tfrac12 y\\cdot By + b\\cdot y$, rows first; then the mean."""
    B, b = np.zeros_like(A), np.zeros_like(alpha)
    for side in [A, A.T] * ((count - 1) // 2):
        P = _tilt(Y, B)
        mean = alpha + P @ (b - B @ alpha)
        B, b = side.T @ P @ side, -side.T @ mean
    P = _tilt(Y, B)
    return alpha + P @ (A @ alpha + b - B @ alpha), P @ A @ Y


def barycentre(head: Head, alpha: Matrix, Y: Matrix) -> Rates:
    """The barycentre at the mean, and its derivative times `Y`."""
    A, S, e = head.K.T @ head.Q / head.epsilon, Y @ Y.T, head.epsilon
    if head.name in ("softmax", "linear-expansion"):
        # The expansion's epsilon multiplies scores, and divides the value.
        share, A = (1.0, A) if head.name == "softmax" else (1 / e, A * e)
        return alpha * share + S @ A @ alpha, S @ A @ Y
    if head.name in ("linear", "relu"):
        M = (S + np.outer(alpha, alpha)) @ A if head.name == "linear" else S @ A / 2
        return M @ alpha, M @ Y
    if head.name == "l2":
        B = 2 * head.K.T @ head.K / e
        P = _tilt(Y, B)
        return alpha + P @ (2 * A @ alpha - B @ alpha), 2 * P @ A @ Y
    if head.half_steps is not None:
        at_mean, slope = _half_steps(A, alpha, Y, head.half_steps)
        return at_mean / e, slope / e
    # Principal pairs have a correlation with sigma = rho / (1 - rho²).
    U, sigma, Wt = np.linalg.svd(Y.T @ A @ Y)
    rho = 2 * sigma / (1 + np.sqrt(1 + 4 * sigma**2))
    return alpha / e, Y @ (U * rho) @ Wt / e


def moments(heads: list[Head], alpha: Matrix, Y: Matrix, t: float) -> Rates:
    """Mean and factor at time `t` under the sum of `heads`."""
    d = len(alpha)

    def rates(_: float, state: Matrix) -> Matrix:
        mean, factor = state[:d], state[d:].reshape(Y.shape)
        parts = [barycentre(head, mean, factor) for head in heads]
        rates_of_heads = [
            np.concatenate([head.V @ a, (head.V @ L).ravel()])
            for head, (a, L) in zip(heads, parts, strict=True)
        ]
        return np.sum(rates_of_heads, axis=0)

    end = integrate(rates, np.concatenate([alpha, Y.ravel()]), (0.0, t))
    return end[:d], end[d:].reshape(Y.shape)


def integrate(rates: Callable, start: Matrix, span: tuple[float, float]) -> Matrix:
    """The final state by SciPy's method of eighth order."""
    size = np.linalg.norm(start)
    path = solve_ivp(rates, span, start, method="DOP853", rtol=1e-12, atol=1e-14 * size)
    assert path.success
    return path.y[:, -1]


def velocities(head: Head, x: Matrix, w: Matrix) -> Matrix:
    """Velocities of weighted tokens, multiplied by the value matrix."""
    q, k, e = x @ head.Q.T, x @ head.K.T, head.epsilon
    S = q @ k.T
    if head.name == "l2":
        S = 2 * S - np.sum(q * q, axis=1)[:, None] - np.sum(k * k, axis=1)[None]
    S, factor = S / e, 1.0
    if head.name in ("softmax", "l2"):
        P = np.exp(S - np.max(S.real, axis=1, keepdims=True)) * w
        P = P / np.sum(P, axis=1, keepdims=True)
    elif head.name == "sinkhorn":
        P, factor = _plan(S, w), 1 / e
    else:
        links = {
            "relu": lambda s: np.maximum(s, 0),
            "linear": lambda s: s,
            "exp": np.exp,
        }
        P = links[head.name](S) * w
    return factor * P @ x @ head.V.T


def _plan(S: Matrix, w: Matrix) -> Matrix:
    kernel, columns = np.exp(S), np.ones_like(w)
    for _ in range(2000):
        rows = 1 / (kernel @ (columns * w))
        columns = 1 / (kernel.T @ (rows * w))
    P = kernel * (columns * w)[None]
    return P / np.sum(P, axis=1, keepdims=True)


def correlations(A: Matrix, Y: Matrix) -> tuple[Matrix, Matrix]:
    """Singular values of the scores of a Gaussian, and its principal correlations."""
    sigma = np.linalg.svd(Y.T @ A @ Y, compute_uv=False)
    return sigma, 2 * sigma / (1 + np.sqrt(1 + 4 * sigma**2))


def sinkhorn_energy(A: Matrix, alpha: Matrix, Y: Matrix) -> float:
    """Half of the mean score under the plan, less half its mutual information."""
    sigma, rho = correlations(A, Y)
    information = -np.sum(np.log1p(-(rho**2))) / 2
    return float(alpha @ A @ alpha + np.sum(sigma * rho) - information) / 2


def interaction_energy(M: Matrix, alpha: Matrix, Sigma: Matrix) -> float:
    """$\\tfrac12 E e^{z\\cdot Mz/2}$ of two independent copies, $z = (x, y)$."""
    zero = np.zeros_like(Sigma)
    m, C = np.concatenate([alpha, alpha]), np.block([[Sigma, zero], [zero, Sigma]])
    G = np.eye(len(m)) - M @ C
    exponent = m @ np.linalg.solve(G, M @ m) / 2
    return float(np.exp(exponent) / np.sqrt(np.linalg.det(G)) / 2)
