"""The closure of a mixture under softmax, in NumPy and SciPy."""

import numpy as np
import scipy

from meanfield.theorems.reference.formulas import integrate as integral
from meanfield.theorems.reference.measures import hermite_nodes

Arrays = tuple[np.ndarray, np.ndarray]


def averages(
    A: np.ndarray, V: np.ndarray, w: np.ndarray, m: np.ndarray, S: np.ndarray
) -> Arrays:
    r"""$m_k' = E_k v$ and $S_k' = E_k[(x - m_k)v^\top] + \dots$, under softmax.

    The velocity is known without nodes: tilted by $e^{u\cdot y}$, $u = Ax$, a component
    has the mass $e^{u\cdot m + u\cdot Su/2}$ and the mean $m + Su$.
    """
    m_rates, S_rates = np.zeros_like(m), np.zeros_like(S)
    for k, mean in enumerate(m):
        x, mass = hermite_nodes(mean, np.linalg.cholesky(S[k]), 30)
        u = x @ A.T
        Su = np.einsum("jab,nb->nja", S, u)
        logs = np.log(w) + u @ m.T + np.einsum("na,nja->nj", u, Su) / 2
        shares = scipy.special.softmax(logs, axis=1)
        v = np.einsum("nj,nja->na", shares, m + Su) @ V.T
        m_rates[k] = mass @ v
        half = (mass[:, None] * (x - mean)).T @ v
        S_rates[k] = half + half.T
    return m_rates, S_rates


def integrate(
    A: np.ndarray, V: np.ndarray, w: np.ndarray, start: Arrays, end: float
) -> Arrays:
    """Means and covariances of the components at the end, by SciPy."""
    join = lambda m, S: np.concatenate([m[:, :, None], S], axis=2)
    rate = lambda _, y: join(*averages(A, V, w, y[:, :, 0], y[:, :, 1:]))
    y = integral(rate, join(*start), np.array([0.0, end]), rtol=1e-9)[-1]
    return y[:, :, 0], y[:, :, 1:]


def total_moments(w: np.ndarray, m: np.ndarray, S: np.ndarray) -> Arrays:
    """Mean and covariance of a mixture."""
    deviations = m - w @ m
    return w @ m, np.einsum(
        "k,kab->ab", w, S + np.einsum("ka,kb->kab", deviations, deviations)
    )
