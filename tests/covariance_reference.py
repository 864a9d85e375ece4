"""The covariance equations of castin2025 in NumPy, from the errata: no library code."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from meanfield.theorems.reference import formulas

Linear = Callable[[np.ndarray], np.ndarray]


def linear_of(spec: Mapping[str, Any]) -> Linear:
    """`Y -> L` with `Y' = LY` and `S = YY^T`, for factors of shape (n, d, d)."""
    Q, K, V = (np.array(spec[key], float) for key in "QKV")
    epsilon, heads = spec.get("epsilon", 1.0), spec.get("heads", 1)
    if spec.get("attention") == "l2":
        return lambda Y: _l2(Q, K, V, epsilon, Y)
    if spec.get("attention") == "sinkhorn":
        return lambda Y: _sinkhorn(K.T @ Q / epsilon, V / epsilon, Y)
    pairs = list(_heads(Q, K, V, heads))
    # castin2025, Props. 4.2 and 4.9
    return lambda Y: np.sum([v @ Y @ _T(Y) @ a / epsilon for v, a in pairs], axis=0)


def _heads(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, heads: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Head `h`: its rows of `Q` and `K`, and those rows of `V`."""
    rows = np.split(np.arange(V.shape[0]), heads)
    for q, k, V_rows in zip(np.split(Q, heads), np.split(K, heads), rows, strict=True):
        value = np.zeros_like(V)
        value[V_rows] = V[V_rows]
        yield value, k.T @ q


def _l2(Q: np.ndarray, K: np.ndarray, V: np.ndarray, eps: float, Y: np.ndarray) -> Any:
    """ERRATA N3: `2VY(I + 2 Y^T K^T K Y)^-1 Y^T A`."""
    KY = K @ Y
    gram = np.eye(Y.shape[-1]) + 2 * _T(KY) @ KY / eps
    return 2 * V @ Y @ np.linalg.solve(gram, _T(Y) @ K.T @ Q) / eps


def _sinkhorn(A: np.ndarray, V: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """ERRATA N1: `VYU diag(1/h) U^T Y^T A` from the singular values of `Y^T A Y`."""
    U, sigma, _ = np.linalg.svd(_T(Y) @ A @ Y)
    h = (1 + np.sqrt(1 + 4 * sigma**2)) / 2
    YU = Y @ U
    return V @ (YU / h[..., None, :]) @ _T(YU) @ A


def _T(M: np.ndarray) -> np.ndarray:
    return np.swapaxes(M, -1, -2)


def integrate_covariances(linear: Linear, starts: np.ndarray, t: float) -> np.ndarray:
    """Covariances at time `t`, by SciPy's DOP853 at rtol 1e-11."""
    factors = np.linalg.cholesky(starts)

    ts = np.array([0.0, t])
    Y = formulas.integrate(lambda _, Y: linear(Y) @ Y, factors, ts)[-1]
    return Y @ _T(Y)


def euler_steps(
    linear: Linear,
    start: np.ndarray,
    euler: Mapping[str, float],
    max_steps: int = 50_000,
) -> tuple[np.ndarray, int, str]:
    """One covariance under clipped Euler steps: final value, steps and ending.

    Evaluate, step, clip at 1e-14, test the norm of what was evaluated, then the trace.
    """
    S, factor = start, np.linalg.cholesky(start)
    for n in range(1, max_steps + 1):
        half = linear(factor[None])[0] @ S
        slope = half + half.T
        values, U = np.linalg.eigh(S + euler["dt"] * slope)
        values = np.maximum(values, 1e-14)
        S, factor = (U * values) @ U.T, U * np.sqrt(values)
        if np.linalg.norm(slope) < euler["rest"]:
            return S, n, "steady"
        if np.trace(S) > euler["bound"]:
            return S, n, "passed the bound"
    return S, max_steps, "max-steps"


def euler_steps_of_inverse(
    parameters: tuple[np.ndarray, np.ndarray, np.ndarray],
    starts: np.ndarray,
    rule: tuple[float, float, float],
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Covariances of L2 stepped without a factor: final values, steps and endings.

    `2VS(I + 2K^T K S)^-1 AS`, `A = K^T Q / sqrt(2)`, and its transpose, by an inverse;
    only negative eigenvalues are clipped. The rule is the step, the threshold of rest
    and the bound of the trace; all members rest or pass it.
    """
    Q, K, V = parameters
    (dt, rest, bound), A, B = rule, K.T @ Q / np.sqrt(2), 2 * K.T @ K
    ends, n_steps = np.empty_like(starts), np.zeros(len(starts), int)
    endings = [""] * len(starts)
    going, S = np.arange(len(starts)), starts
    while going.size:
        slope = 2 * V @ S @ np.linalg.inv(np.eye(2) + B @ S) @ A @ S
        slope = slope + _T(slope)
        values, U = np.linalg.eigh(S + dt * slope)
        S = (U * np.where(values < 0, 1e-14, values)[:, None, :]) @ _T(U)
        n_steps[going] += 1
        small = np.linalg.norm(slope, axis=(1, 2)) < rest
        result = small | (np.trace(S, axis1=1, axis2=2) > bound)
        if result.any():
            ends[going[result]] = S[result]
            for i, is_at_rest in zip(going[result], small[result], strict=True):
                endings[i] = "steady" if is_at_rest else "passed the bound"
            going, S = going[~result], S[~result]
    return ends, n_steps, endings
