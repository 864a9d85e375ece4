"""Tokens of the problems, and reference velocities in NumPy in double precision."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ._trial import Trial

SAMPLE = 256  # number of queries at which velocities are compared
BLOCK_SCORES = 2**24  # largest number of scores held in memory at the same time


class Sums(NamedTuple):
    """Softmax velocities at some queries, and logarithms of their denominators."""

    velocities: np.ndarray
    logs: np.ndarray


def tokens(trial: Trial) -> np.ndarray:
    """Standard normal tokens, `(n, d)`; the same for every method."""
    normals = np.random.default_rng(0).standard_normal((trial.n, trial.d))
    return normals.astype(trial.dtype)


def directions(trial: Trial) -> np.ndarray:
    r"""Random vectors $u_i$, `(n, d)`, in the cost $\sum_i u_i \cdot v(x_i)$."""
    normals = np.random.default_rng(1).standard_normal((trial.n, trial.d))
    return normals.astype(trial.dtype)


def sampled(count: int) -> np.ndarray:
    """Indices at which results are compared: all, or `SAMPLE` evenly spaced ones."""
    return np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(int))


def dense_sums(x: np.ndarray, queries: np.ndarray, epsilon: float) -> Sums:
    r"""Means $\sum_j e^{q \cdot x_j/\epsilon} x_j / Z$ and $\log Z$ for each query."""
    parts = [_sums(x, queries[rows], epsilon) for rows in _rows(len(x), len(queries))]
    return Sums(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _sums(x: np.ndarray, queries: np.ndarray, epsilon: float) -> Sums:
    scores = queries @ x.T / epsilon
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - top)
    mass = weights.sum(axis=1, keepdims=True)
    return Sums(weights @ x / mass, (top + np.log(mass))[:, 0])


def cost_gradient(
    x: np.ndarray, u: np.ndarray, epsilon: float, at: np.ndarray
) -> np.ndarray:
    r"""The gradient of $\sum_i u_i \cdot v(x_i)$ with respect to the tokens `at`.

    Let $P_{ij} = e^{x_i \cdot x_j/\epsilon}/Z_i$, $v_i = \sum_j P_{ij} x_j$ and
    $D_{ij} = P_{ij}\, u_i \cdot (x_j - v_i)/\epsilon$. The gradient at token $k$ is
    $\sum_i P_{ik} u_i + \sum_j D_{kj} x_j + \sum_i D_{ik} x_i$.
    """
    v, logs = dense_sums(x, x, epsilon)
    offsets = np.sum(u * v, axis=1)
    P = np.exp(x @ x[at].T / epsilon - logs[:, None])  # columns of the tokens `at`
    D = P * (u @ x[at].T - offsets[:, None]) / epsilon
    rows = np.exp(x[at] @ x.T / epsilon - logs[at, None])
    slopes = rows * (u[at] @ x.T - offsets[at, None]) / epsilon
    return P.T @ u + slopes @ x + D.T @ x


def relative_gap(values: np.ndarray, exact: np.ndarray) -> float:
    """Largest difference of two arrays, relative to the largest exact entry."""
    return float(np.max(np.abs(values - exact)) / np.max(np.abs(exact)))


def velocity_facts(trial: Trial, values: np.ndarray) -> dict[str, Any]:
    """Error of velocities at sampled queries, and operation counts."""
    x = tokens(trial).astype(np.float64)
    at = sampled(trial.n_queries)
    exact = dense_sums(x, x[at], trial.settings["epsilon"]).velocities
    error = relative_gap(np.asarray(values, np.float64)[at], exact)
    return {"error": error, **pair_costs(trial)}


def gradient_facts(trial: Trial, values: np.ndarray) -> dict[str, Any]:
    """Error of a gradient at sampled tokens."""
    x, u = (part.astype(np.float64) for part in (tokens(trial), directions(trial)))
    at = sampled(trial.n)
    exact = cost_gradient(x, u, trial.settings["epsilon"], at)
    return {"error": relative_gap(np.asarray(values, np.float64)[at], exact)}


def cost_facts(trial: Trial, value: float) -> dict[str, Any]:
    """Error of the cost, relative to the sum of the absolute values of its terms."""
    x, u = (part.astype(np.float64) for part in (tokens(trial), directions(trial)))
    terms = np.sum(u * dense_sums(x, x, trial.settings["epsilon"]).velocities, axis=1)
    error = abs(float(value) - terms.sum()) / np.abs(terms).sum()
    return {"error": float(error), **pair_costs(trial)}


def pair_costs(trial: Trial) -> dict[str, float]:
    """Number of matrix-product operations, and number of exponentials, for all pairs.

    A pair needs $2d$ operations for its score, $2d$ for its term in the sum of values,
    and 2 for its term in the denominator.
    """
    pairs = trial.n**2
    return {"products": pairs * (4 * trial.d + 2), "exponentials": pairs}


def _rows(n: int, count: int) -> Iterator[slice]:
    height = max(1, BLOCK_SCORES // n)
    return (slice(begin, begin + height) for begin in range(0, count, height))
