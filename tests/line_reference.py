"""Moments of flows on a line and in the plane, computed without a grid."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import expit, gamma

Density = Callable[[np.ndarray], np.ndarray]
Nodes = tuple[np.ndarray, np.ndarray]
Moments = tuple[np.ndarray, np.ndarray]
AMPLIFICATION_LIMIT = (
    1e-9  # largest amplified rounding error, relative to the largest density
)


@dataclass(frozen=True)
class LineLaw:
    """A density on a line with its moments and quadrature nodes."""

    name: str
    density: Density
    mean: float
    variance: float
    nodes: Nodes


def _even(density: Density, reach: float, n: int, middle: float = 0.0) -> Nodes:
    """Nodes of the trapezoidal rule, spectral for analytic densities."""
    x = middle + np.linspace(-reach, reach, n)
    w = density(x)
    return x, w / w.sum()


def _panels(density: Density, ends: np.ndarray, order: int = 24) -> Nodes:
    """Gauss nodes in each interval between `ends`."""
    u, g = np.polynomial.legendre.leggauss(order)
    h = np.diff(ends)[:, None]
    x = (ends[:-1, None] + h * (u + 1) / 2).ravel()
    w = density(x) * (h * g / 2).ravel()
    return x, w / w.sum()


def bumps(
    centres: np.ndarray, deviations: np.ndarray, shares: np.ndarray, reach: float = 9.0
) -> LineLaw:
    """A mixture of normal densities."""
    c, s, p = (np.asarray(a, float) for a in (centres, deviations, shares))
    p = p / p.sum()

    def density(x: np.ndarray) -> np.ndarray:
        z = (np.ravel(x)[:, None] - c) / s
        return (np.exp(-(z**2) / 2) / (s * np.sqrt(2 * np.pi))) @ p

    mean = float(p @ c)
    variance = float(p @ (s**2 + (c - mean) ** 2))
    far = np.max(np.abs(c - mean) + reach * s)
    n = int(min(700, max(160, 2 * far / (0.25 * s.min()))))
    return LineLaw("bumps", density, mean, variance, _even(density, far, n, mean))


def uniform(a: float, b: float) -> LineLaw:
    density = lambda x: ((np.ravel(x) > a) & (np.ravel(x) < b)) / (b - a)
    nodes = _panels(density, np.linspace(a, b, 9))
    return LineLaw("uniform", density, (a + b) / 2, (b - a) ** 2 / 12, nodes)


def parabola(a: float, b: float) -> LineLaw:
    """A density proportional to the square of a parabola, zero beyond [a, b]."""
    half, middle = (b - a) / 2, (a + b) / 2
    inner = lambda u: 15 / 16 * np.maximum(1 - u**2, 0) ** 2 / half
    density = lambda x: inner((np.ravel(x) - middle) / half)
    nodes = _panels(density, np.linspace(a, b, 9))
    return LineLaw("parabola", density, middle, half**2 / 7, nodes)


def laplace(m: float, b: float) -> LineLaw:
    density = lambda x: np.exp(-np.abs(np.ravel(x) - m) / b) / (2 * b)
    ends = b * np.array([0, 1, 2, 4, 7, 12, 20, 36])
    nodes = _panels(density, m + np.concatenate([-ends[:0:-1], ends]), 16)
    return LineLaw("laplace", density, m, 2 * b**2, nodes)


def logistic(m: float, b: float) -> LineLaw:
    density = lambda x: 1 / (4 * b * np.cosh((np.ravel(x) - m) / (2 * b)) ** 2)
    nodes = _even(density, 36 * b, 300, m)
    return LineLaw("logistic", density, m, (np.pi * b) ** 2 / 3, nodes)


def student(m: float, b: float, nu: float) -> LineLaw:
    """Student's law, with power-law tails, in the variable of a hyperbolic sine."""
    norm = gamma((nu + 1) / 2) / (gamma(nu / 2) * np.sqrt(nu * np.pi) * b)
    density = lambda x: (
        norm * (1 + ((np.ravel(x) - m) / b) ** 2 / nu) ** (-(nu + 1) / 2)
    )
    u = np.linspace(-9, 9, 260)
    x = m + b * np.sinh(u)
    w = density(x) * np.cosh(u)
    return LineLaw("student", density, m, b**2 * nu / (nu - 2), (x, w / w.sum()))


# --- tokens ---------------------------------------------------------------------


def _tilted(x: np.ndarray, w: np.ndarray, A: float, score: Density) -> np.ndarray:
    S = score(x)
    E = np.exp(S - S.max(axis=1, keepdims=True)) * w
    return E @ x / E.sum(axis=1)


def _plan_mean(
    x: np.ndarray, w: np.ndarray, A: float, memory: dict[str, np.ndarray]
) -> np.ndarray:
    """The conditional mean of the plan with kernel exp(Axy) and both marginals w."""
    sign = np.sign(A)
    K = np.exp(-abs(A) * (x[:, None] - sign * x[None, :]) ** 2 / 2)
    b = memory.get("b", np.ones_like(w))
    for _ in range(20_000):
        a = 1 / (K @ (b * w))
        new = 1 / (K.T @ (a * w))
        result = np.max(np.abs(np.log(new / b))[w > 1e-14]) < 1e-9
        b = np.sqrt(new * b) if not result else new
        if result:
            break
    memory["b"] = b
    a = 1 / (K @ (b * w))
    return a * (K @ (b * w * x))


def line_velocity(
    attention: str, A: float, V: float
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The velocity at weighted nodes, by the definition of an attention in NumPy."""
    memory: dict[str, np.ndarray] = {}
    forms = {
        "softmax": lambda x, w: _tilted(x, w, A, lambda y: A * np.outer(y, y)),
        "l2": lambda x, w: _tilted(
            x, w, A, lambda y: -((A * y[:, None] - y[None, :]) ** 2)
        ),
        "sigmoid": lambda x, w: expit(A * np.outer(x, x)) @ (w * x),
        "linear": lambda x, w: A * x * (w @ x**2),
        "sinkhorn": lambda x, w: _plan_mean(x, w, A, memory),
    }
    form = forms[attention]
    return lambda x, w: V * form(x, w)


def moments_by_tokens(
    law: LineLaw, attention: str, A: float, V: float, t: float
) -> Moments:
    """Mean and variance at time t, by weighted tokens along characteristics."""
    x0, w = law.nodes
    v = line_velocity(attention, A, V)
    atol = 1e-10 * np.sqrt(law.variance)
    move = lambda _, x: v(x, w)
    run = solve_ivp(move, (0, t), x0, rtol=1e-8, atol=atol, method="DOP853")
    if not run.success:
        return np.full(1, np.nan), np.full((1, 1), np.nan)
    x = run.y[:, -1]
    mean = w @ x
    return np.array([mean]), np.array([[w @ (x - mean) ** 2]])


def moments_by_fourier(
    law: LineLaw,
    attention: str,
    A: float,
    V: float,
    kappa: float,
    t: float,
    n: int = 160,
) -> Moments:
    """Mean and variance with noise, by Fourier's method for the density.

    exp(Axy) may amplify the rounding errors of the modes: then the density is negative
    somewhere, and the moments are NaN.
    """
    (end,), ((spread,),) = moments_by_tokens(law, attention, A, V, t)
    reach = 9 * np.sqrt(max(law.variance, spread) + 2 * kappa * t)
    low, high = min(law.mean, end) - reach, max(law.mean, end) + reach
    n = int(n * (high - low) / (2 * reach))
    x = np.linspace(low, high, n, endpoint=False)
    h = x[1] - x[0]
    k = 2j * np.pi * np.fft.fftfreq(n, h)
    v = line_velocity(attention, A, V)

    def rate(_: float, rho: np.ndarray) -> np.ndarray:
        w = np.maximum(rho, 0) * h
        flux = np.fft.fft(rho * v(x, w / w.sum()))
        return np.fft.ifft(-k * flux + kappa * k**2 * np.fft.fft(rho)).real

    run = solve_ivp(rate, (0, t), law.density(x), rtol=1e-7, atol=1e-12, method="RK45")
    rho = run.y[:, -1] / run.y[:, -1].sum()
    if not (run.success and rho.min() > -AMPLIFICATION_LIMIT * rho.max()):
        return np.full(1, np.nan), np.full((1, 1), np.nan)
    mean = rho @ x
    return np.array([mean]), np.array([[rho @ (x - mean) ** 2]])


# --- closed forms -----------------------------------------------------------------


def _affine(
    attention: str, A: np.ndarray, V: np.ndarray, m: np.ndarray, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The velocity of a Gaussian, $x \\mapsto Lx + b$; of any law under `linear`."""
    d = len(m)
    if attention == "softmax":
        return V @ S @ A, V @ m
    if attention == "l2":  # -|Ax - y|² with Q = A and K = I
        P = np.linalg.inv(np.eye(d) + 2 * S)
        return V @ P @ (2 * S @ A), V @ P @ m
    if attention == "linear":
        return V @ (S + np.outer(m, m)) @ A, np.zeros(d)
    # sinkhorn: correlations 2a/(1 + √(1 + 4a²)) along the singular vectors of S^½ A S^½
    values, vectors = np.linalg.eigh(S)
    root = (vectors * np.sqrt(values)) @ vectors.T
    U, a, W = np.linalg.svd(root @ A @ root)
    L = V @ root @ (U * (2 * a / (1 + np.sqrt(1 + 4 * a**2)))) @ W @ np.linalg.inv(root)
    return L, V @ m - L @ m


def gaussian_moments(
    attention: str, A: np.ndarray, V: np.ndarray, kappa: float, start: Moments, t: float
) -> Moments:
    """Mean and covariance at time t of a Gaussian, or of any law under `linear`."""
    d = len(start[0])

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        m, S = y[:d], y[d:].reshape(d, d)
        L, b = _affine(attention, A, V, m, S)
        rate = L @ S + S @ L.T + 2 * kappa * np.eye(d)
        return np.concatenate([L @ m + b, rate.ravel()])

    y0 = np.concatenate([start[0], start[1].ravel()])
    run = solve_ivp(rate, (0, t), y0, rtol=1e-10, atol=1e-13, method="DOP853")
    if not run.success:
        return np.full(d, np.nan), np.full((d, d), np.nan)
    return run.y[:d, -1], run.y[d:, -1].reshape(d, d)
