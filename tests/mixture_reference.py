"""The closure of a mixture under softmax: NumPy, SciPy, and nodes of its own."""

import numpy as np
import scipy

Arrays = tuple[np.ndarray, np.ndarray]


def averages(
    A: np.ndarray, V: np.ndarray, w: np.ndarray, m: np.ndarray, S: np.ndarray
) -> Arrays:
    r"""$m_k' = E_k v$ and $S_k' = E_k[(x - m_k)v^\top] + \dots$, under softmax.

    The velocity is known without nodes: tilted by $e^{u\cdot y}$, $u = Ax$, a component
    has the mass $e^{u\cdot m + u\cdot Su/2}$ and the mean $m + Su$.
    """
    d = m.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    z = np.stack(np.meshgrid(*[nodes] * d), -1).reshape(-1, d)
    mass = np.prod(np.stack(np.meshgrid(*[weights] * d), -1).reshape(-1, d), axis=1)
    mass /= mass.sum()
    m_rates, S_rates = np.zeros_like(m), np.zeros_like(S)
    for k, mean in enumerate(m):
        x = mean + z @ np.linalg.cholesky(S[k]).T
        u = x @ A.T
        Su = np.einsum("jab,nb->nja", S, u)
        logs = np.log(w) + u @ m.T + np.einsum("na,nja->nj", u, Su) / 2
        shares = scipy.special.softmax(logs, axis=1)
        v = np.einsum("nj,nja->na", shares, m + Su) @ V.T
        m_rates[k] = mass @ v
        half = (mass[:, None] * (x - mean)).T @ v
        S_rates[k] = half + half.T
    return m_rates, S_rates


def integrated(
    A: np.ndarray, V: np.ndarray, w: np.ndarray, start: Arrays, end: float
) -> Arrays:
    """Means and covariances of the components at the end, by SciPy."""
    c, d = start[0].shape

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        m, S = flat[: c * d].reshape(c, d), flat[c * d :].reshape(c, d, d)
        return np.concatenate([r.ravel() for r in averages(A, V, w, m, S)])

    flat = np.concatenate([part.ravel() for part in start])
    y = scipy.integrate.solve_ivp(rate, (0, end), flat, rtol=1e-9, atol=1e-11).y[:, -1]
    return y[: c * d].reshape(c, d), y[c * d :].reshape(c, d, d)


def of_all(w: np.ndarray, m: np.ndarray, S: np.ndarray) -> Arrays:
    """Mean and covariance of a mixture."""
    away = m - w @ m
    return w @ m, np.einsum("k,kab->ab", w, S + np.einsum("ka,kb->kab", away, away))
