"""Rates of mean and factor under the Gaussian closure, by NumPy and SciPy alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr

from meanfield.theorems.reference import formulas
from meanfield.theorems.reference.energies import standard_nodes

Rates = tuple[np.ndarray, np.ndarray]
Right = Callable[[np.ndarray, np.ndarray], Rates]


def normal(z: Any) -> Any:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def nodal_rates(order: int, link: Callable, A: np.ndarray, V: np.ndarray) -> Right:
    """Sums over all pairs of quadrature nodes of queries and keys."""

    def right(alpha: np.ndarray, Y: np.ndarray) -> Rates:
        z, w = standard_nodes(Y.shape[1], order)
        x = alpha + z @ Y.T
        velocity = (link(x @ A.T @ x.T) * w) @ x @ V.T
        return w @ velocity, (velocity * w[:, None]).T @ z

    return right


def exp_rates(A: np.ndarray, V: np.ndarray, alpha: np.ndarray, Y: np.ndarray) -> Rates:
    r"""In closed form: $e^{y\cdot Ax}$ tilts the Gaussian of query and key together."""
    r = Y.shape[1]
    M, h = Y.T @ A @ Y, np.concatenate([Y.T @ A.T @ alpha, Y.T @ A @ alpha])
    precision = np.eye(2 * r)
    precision[:r, r:], precision[r:, :r] = -M.T, -M
    covariance = np.linalg.inv(precision)
    m = covariance @ h
    mass = np.exp(alpha @ A @ alpha + h @ m / 2) / np.sqrt(np.linalg.det(precision))
    key = alpha + Y @ m[r:]
    with_query = np.outer(key, m[:r]) + Y @ covariance[r:, :r]
    return V @ key * mass, V @ with_query * mass


def relu_rates(a: float, v: float, alpha: np.ndarray, Y: np.ndarray) -> Rates:
    """One dimension: the half-normal integral of the keys, the queries by `quad`."""
    mean, y = float(alpha[0]), float(Y[0, 0])

    def velocity(x: float) -> float:
        m, s = a * x * mean, max(abs(a * x) * y, 1e-300)
        share, density = ndtr(m / s), normal(m / s)
        return v * (mean * (m * share + s * density) + y * y * a * x * share)

    def average(power: int) -> float:
        f = lambda z: velocity(mean + y * z) * z**power * normal(z)
        kink = [-mean / y]
        return quad(f, -12, 12, points=kink, epsabs=1e-12, epsrel=1e-12)[0]

    return np.array([average(0)]), np.array([[average(1)]])


def integrate(right: Right, start: Rates, end: float) -> Rates:
    """By DOP853, to 1e-10."""
    rate = lambda _, y: np.column_stack(right(y[:, 0], y[:, 1:]))
    ts = np.array([0.0, end])
    y = formulas.integrate(rate, np.column_stack(start), ts, rtol=1e-9)[-1]
    return y[:, 0], y[:, 1:]
