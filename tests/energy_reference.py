"""Energies from their definitions, in NumPy: sums over pairs, plans, quadrature."""

from collections.abc import Callable

import numpy as np
import ot
from reference import Parameters, dot, plan_potentials, score_matrix, squared_distance

Energy = Callable[[np.ndarray, np.ndarray], float]


def interaction(score: Callable, p: Parameters) -> Energy:
    r"""$\tfrac12\sum_{ij} w_i w_j e^{s(x_i, x_j)}$."""

    def value(x: np.ndarray, w: np.ndarray) -> float:
        return float(w @ np.exp(score_matrix(score, p, x, x)) @ w) / 2

    return value


def sinkhorn(p: Parameters) -> Energy:
    """Minus half the entropic cost of the plan, by POT's log-domain solver."""

    def value(x: np.ndarray, w: np.ndarray) -> float:
        S = score_matrix(dot, p, x, x)
        with np.errstate(divide="ignore"):  # weights may be zero
            plan = ot.sinkhorn(
                *(w, w, -S, 1.0),
                method="sinkhorn_log",
                stopThr=1e-15,
                numItermax=100_000,
                warn=False,
            )
        relative = plan / np.outer(w, w)
        return -float(np.sum(plan * (np.log(relative) - S))) / 2

    return value


def sinkhorn_dual(p: Parameters) -> Energy:
    r"""$-\tfrac12(\int f + \int g)$ of alternating projections; much faster."""

    def value(x: np.ndarray, w: np.ndarray) -> float:
        f, g = plan_potentials(score_matrix(dot, p, x, x), w)
        return -float(w @ (f + g)) / 2

    return value


def tables(p: Parameters, x: np.ndarray, score: Callable) -> np.ndarray:
    """The matrix of scores at once, for the many nodes of a quadrature."""
    q, k = x @ p.Q.T, x @ p.K.T
    if score is squared_distance:
        squares = np.sum((q[:, None, :] - k[None, :, :]) ** 2, axis=-1)
        return -squares / p.epsilon
    q = q if p.q is None else q + p.q
    k = k if p.k is None else k + p.k
    return q @ k.T / p.epsilon


def energy_of_nodes(kind: str, p: Parameters, x: np.ndarray, w: np.ndarray) -> float:
    """The energy `kind` of quadrature nodes."""
    if kind == "sinkhorn":
        f, g = plan_potentials(tables(p, x, dot), w)
        return -float(w @ (f + g)) / 2
    S = tables(p, x, squared_distance if kind == "interaction-l2" else dot)
    return float(w @ np.exp(S) @ w) / 2
