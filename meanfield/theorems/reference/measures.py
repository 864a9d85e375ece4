"""Gauss–Hermite nodes of Gaussians, by NumPy, and transport, by POT and SciPy."""

from typing import Any

import numpy as np
from scipy.optimize import linprog

from meanfield._pot import ot

Array = np.ndarray


def hermite_nodes(mean: Array, factor: Array, n: int) -> tuple[Array, Array]:
    r"""Tensor Gauss–Hermite nodes of $N(\alpha, YY^\top)$ and their weights, by NumPy.

    There are `n` nodes along each column of the factor.
    """
    line, weights = np.polynomial.hermite_e.hermegauss(n)
    r = factor.shape[1]
    z = np.stack(np.meshgrid(*[line] * r, indexing="ij"), -1).reshape(-1, r)
    w = np.stack(np.meshgrid(*[weights] * r, indexing="ij"), -1).reshape(-1, r)
    mass = np.prod(w, axis=1)
    return mean + z @ factor.T, mass / mass.sum()


def wasserstein(
    x: Array, y: Array, p: float | int = 2, *, weights: tuple | None = None
) -> float:
    """Exact $W_p$ of two clouds of atoms, by POT's linear programme."""
    first, second = weights or (np.full(len(z), 1 / len(z)) for z in (x, y))
    cost = ot.dist(np.asarray(x), np.asarray(y), metric="euclidean") ** p
    total: Any = ot.emd2(np.asarray(first), np.asarray(second), cost)
    return float(total) ** (1 / p)


def programme(cost: Array, w: Array, v: Array) -> tuple[Array, float]:
    """Cheapest coupling of `w` and `v`, and its cost, by SciPy's linear solver."""
    n, m = cost.shape
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    solution: Any = linprog(
        cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([w, v])
    )
    return solution.x.reshape(n, m), float(solution.fun)
