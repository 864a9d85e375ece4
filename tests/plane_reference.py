"""Laws in the plane with weighted nodes, moved along characteristics.

Every law is a standard one in $z$, shifted and sheared: $x = m + Fz$.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from line_reference import Density, Moments, Nodes
from scipy.integrate import solve_ivp
from scipy.special import expit, ive

ANGLES = 40  # nodes around a circle


@dataclass(frozen=True)
class PlaneLaw:
    """A density in the plane with its moments and quadrature nodes."""

    name: str
    density: Density
    mean: np.ndarray
    covariance: np.ndarray
    nodes: Nodes


def _transformed_law(
    name: str, density: Density, nodes: Nodes, place: tuple[np.ndarray, np.ndarray]
) -> PlaneLaw:
    """A law at $x = m + Fz$, from its density and nodes in z; moments by the nodes."""
    (z, area), (m, F) = nodes, place
    total = np.sum(area)
    w = area / total
    mean = w @ z
    covariance = (w[:, None] * (z - mean)).T @ (z - mean)
    scale = total * abs(np.linalg.det(F))
    density_at = lambda x: density(np.linalg.solve(F, (x - m).T).T) / scale
    return PlaneLaw(
        name, density_at, m + F @ mean, F @ covariance @ F.T, (m + z @ F.T, w)
    )


def bumps(
    centres: np.ndarray,
    deviations: np.ndarray,
    shares: np.ndarray,
    place: tuple[np.ndarray, np.ndarray],
    reach: float = 8.0,
) -> PlaneLaw:
    """A mixture of round normal densities, sheared; nodes of the trapezoidal rule."""

    def density(z: np.ndarray) -> np.ndarray:
        exponents = np.sum((z[:, None, :] - centres) ** 2, axis=2) / deviations**2
        return np.exp(-exponents / 2) / deviations**2 @ shares

    ends = np.max(np.abs(centres) + reach * deviations[:, None], axis=0)
    step = 0.7 * deviations.min()
    sides = [np.arange(-end, end + step, step) for end in ends]
    z = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    area = density(z) * step**2
    is_held = area > np.exp(-(reach**2) / 2) * area.max()
    return _transformed_law("bumps", density, (z[is_held], area[is_held]), place)


def _round(
    name: str, profile: Density, ends: np.ndarray, place: tuple[np.ndarray, np.ndarray]
) -> PlaneLaw:
    """A radial law, with Gauss nodes in the radius and even ones in the angle."""
    u, g = np.polynomial.legendre.leggauss(12 if len(ends) < 4 else 6)
    h = np.diff(ends)[:, None]
    r = (ends[:-1, None] + h * (u + 1) / 2).ravel()
    area = profile(r) * r * (h * g / 2).ravel() * 2 * np.pi / ANGLES
    angle = 2 * np.pi * np.arange(ANGLES) / ANGLES
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    z = (r[:, None, None] * around).reshape(-1, 2)
    density = lambda z: profile(np.hypot(z[:, 0], z[:, 1]))
    return _transformed_law(name, density, (z, np.repeat(area, ANGLES)), place)


def disc(place: tuple[np.ndarray, np.ndarray]) -> PlaneLaw:
    """Uniform on an ellipse."""
    return _round("disc", lambda r: 1.0 * (r < 2), np.array([0, 2.0]), place)


def dome(place: tuple[np.ndarray, np.ndarray]) -> PlaneLaw:
    """A density proportional to the square of a parabola, zero beyond an ellipse."""
    profile = lambda r: np.maximum(1 - r**2 / 8, 0) ** 2
    return _round("dome", profile, np.array([0, np.sqrt(8)]), place)


def ring(place: tuple[np.ndarray, np.ndarray], blur: float) -> PlaneLaw:
    """An ellipse blurred by a normal law."""
    bell = lambda r: np.exp(-((r - 1) ** 2) / (2 * blur**2))
    profile = lambda r: bell(r) * ive(0, r / blur**2)
    ends = np.array([max(0.0, 1 - 7 * blur), 1, 1 + 7 * blur])
    return _round("ring", profile, ends, place)


def cusp(place: tuple[np.ndarray, np.ndarray]) -> PlaneLaw:
    """Tails that fall like an exponential, and a cusp in the middle."""
    ends = np.array([0, 1, 2, 4, 7, 11, 16, 24, 34]) / np.sqrt(3)
    return _round("cusp", lambda r: np.exp(-np.sqrt(3) * r), ends, place)


def student(place: tuple[np.ndarray, np.ndarray], nu: float) -> PlaneLaw:
    """Student's law: tails of a power."""
    ends = np.sinh([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.75, 4.5, 6, 8])
    profile = lambda r: (1 + r**2 / nu) ** (-nu / 2 - 1)
    return _round("student", profile, ends, place)


def velocity(
    attention: str, A: np.ndarray, V: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The velocity at weighted nodes, by the definition of an attention in NumPy."""

    def tilted_scores(S: np.ndarray, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        E = np.exp(S - S.max(axis=1, keepdims=True)) * w
        return E @ x / E.sum(axis=1, keepdims=True)

    dots = lambda x: x @ A.T @ x.T
    forms = {
        "softmax": lambda x, w: tilted_scores(dots(x), x, w),
        "l2": lambda x, w: tilted_scores(2 * dots(x) - np.sum(x**2, axis=1), x, w),
        "sigmoid": lambda x, w: expit(dots(x)) @ (w[:, None] * x),
    }
    return lambda x, w: forms[attention](x, w) @ V.T


def moments_by_tokens(
    law: PlaneLaw, attention: str, A: np.ndarray, V: np.ndarray, t: float
) -> Moments:
    """Mean and covariance at time t, by weighted tokens along characteristics."""
    x0, w = law.nodes
    v = velocity(attention, A, V)
    move = lambda _, y: v(y.reshape(-1, 2), w).ravel()
    atol = 1e-9 * np.sqrt(np.trace(law.covariance))
    run = solve_ivp(move, (0, t), x0.ravel(), rtol=1e-7, atol=atol, method="DOP853")
    if not run.success:
        return np.full(2, np.nan), np.full((2, 2), np.nan)
    x = run.y[:, -1].reshape(-1, 2)
    mean = w @ x
    return mean, (w[:, None] * (x - mean)).T @ (x - mean)
