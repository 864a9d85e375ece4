r"""Attention from its definition, in plain NumPy: loops and sums.

Written from the mathematics alone, for tests. A measure is tokens `y` with weights `w`;
a velocity is $V \sum_j w_j \kappa(x, y_j) y_j + o$.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from meanfield.theorems.reference.formulas import sqrtm_psd as square_root

Matrix = np.ndarray
Vector = np.ndarray


@dataclass(frozen=True)
class Parameters:
    """The parameters of every variant."""

    Q: Matrix
    K: Matrix
    V: Matrix
    epsilon: float = 1.0
    q: Vector | None = None
    k: Vector | None = None


@dataclass(frozen=True)
class Sides:
    """Queries `x` with weights `u`, and the keys `y` with weights `w`."""

    x: Matrix
    u: Vector
    y: Matrix
    w: Vector


def dot(p: Parameters, x: Vector, y: Vector) -> float:
    q = np.zeros(len(p.Q)) if p.q is None else p.q
    k = np.zeros(len(p.K)) if p.k is None else p.k
    return float((p.Q @ x + q) @ (p.K @ y + k)) / p.epsilon


def squared_distance(p: Parameters, x: Vector, y: Vector) -> float:
    return -float(np.sum((p.Q @ x - p.K @ y) ** 2)) / p.epsilon


def score_matrix(score: Callable, p: Parameters, x: Matrix, y: Matrix) -> Matrix:
    """All scores, entry by entry."""
    return np.array([[score(p, xi, yj) for yj in y] for xi in x])


def log_sum(S: Matrix, w: Vector) -> Vector:
    """$\\log \\sum_j w_j e^{S_{ij}}$, row by row."""
    top = S.max(axis=1)
    return top + np.log(np.exp(S - top[:, None]) @ w)


def softmax(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    S = score_matrix(dot, p, x, y)
    return np.exp(S - log_sum(S, w)[:, None])


def l2(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    S = score_matrix(squared_distance, p, x, y)
    return np.exp(S - log_sum(S, w)[:, None])


def esp(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    """Plans by ranks along the axes: overlaps of masses, pair by pair."""
    return esp_across(p, x, Sides(y, w, y, w))


def share_of_mass(
    atoms: Vector, u: Vector, keys: Vector, w: Vector, at: float
) -> Vector:
    """The share of each key matched with a query at `at`, relative to its weight."""
    u, w = u / np.sum(u), w / np.sum(w)
    low, high = np.sum(u[atoms < at]), np.sum(u[atoms <= at])
    if np.any(atoms == at):
        return share_of_range(keys, w, low, high)
    # Between two atoms: linear in the level between the middles of the masses of keys.
    places = np.unique(keys[w > 0])
    masses = np.array([np.sum(w[keys == place]) for place in places])
    middles = np.cumsum(masses) - masses / 2
    near = [np.interp(low, middles, basis_row) for basis_row in np.eye(len(places))]
    shares = dict(zip(places, near / masses, strict=True))
    return np.array([shares.get(key, 0.0) for key in keys])


def share_of_range(keys: Vector, w: Vector, low: float, high: float) -> Vector:
    below = np.array([np.sum(w[keys < key]) for key in keys])
    mass = np.array([np.sum(w[keys == key]) for key in keys])
    inside = np.maximum(np.minimum(below + mass, high) - np.maximum(below, low), 0)
    return inside / mass / np.sum(w * inside / mass)


def esp_soft(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    """Soft sorting at temperature 1, with each row divided by its sum."""
    return esp_soft_across(p, x, Sides(y, w, y, w))


def esp_soft_published(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return esp_soft_published_across(p, x, Sides(y, w, y, w))


def differential(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    """Softmax minus one half: the second scores are zero by default."""
    return softmax(p, x, y, w) - 0.5


def linear(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return score_matrix(dot, p, x, y)


def linear_expansion(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    S = score_matrix(dot, p, x, y) * p.epsilon**2  # its epsilon multiplies the scores
    return (1 + S - (S @ w)[:, None]) / p.epsilon  # and divides the value


def exp(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return np.exp(score_matrix(dot, p, x, y))


def hardmax(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    """Equal weights of the largest scores, which may differ by rounding."""
    S = np.where(w > 0, score_matrix(dot, p, x, y), -np.inf)
    best = (
        S.max(axis=1, keepdims=True) - 1e-13 * np.abs(S).max(where=w > 0, initial=0)
        <= S
    )
    return best / (best @ w)[:, None]


def sigmoid(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return 1 / (1 + np.exp(-score_matrix(dot, p, x, y)))


def relu(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return np.maximum(score_matrix(dot, p, x, y), 0)


def half_steps(
    p: Parameters, x: Matrix, y: Matrix, w: Vector, *, iterations: int
) -> Matrix:
    """Sinkhorn's iteration from zero, rows first, for `iterations` half-steps."""
    return half_steps_across(p, x, Sides(y, w, y, w), iterations=iterations)


def half_steps_across(
    p: Parameters, x: Matrix, sides: Sides, *, iterations: int
) -> Matrix:
    """Half-steps of Sinkhorn's iteration between two measures."""
    S = score_matrix(dot, p, sides.x, sides.y)
    f, g = np.zeros(len(sides.x)), np.zeros(len(sides.y))
    before = g
    for step in range(iterations):
        if step % 2 == 0:
            before = g
            f = -log_sum(S + g[None, :], sides.w)
        else:
            g = -log_sum(S.T + f[None, :], sides.u)
    rows = score_matrix(dot, p, x, sides.y)
    at_queries = -log_sum(rows + before[None, :], sides.w)
    return np.exp(rows + at_queries[:, None] + g[None, :]) / p.epsilon


def plan_potentials(
    S: Matrix, w: Vector, u: Vector | None = None
) -> tuple[Vector, Vector]:
    """Potentials by alternation in the log domain, to marginal errors of 1e-13.

    Columns have the weights `w`, rows `u`, or `w` if `u` is missing.
    """
    u = w if u is None else u
    f, g = np.zeros(len(u)), np.zeros(len(w))
    for _ in range(200_000):
        f = -log_sum(S + g[None, :], w)
        change = -log_sum(S.T + f[None, :], u) - g
        g = g + change
        if np.max(np.abs(change)) < 1e-13:
            return f, g
    raise AssertionError("the reference did not converge")


def sinkhorn(p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    return sinkhorn_across(p, x, Sides(y, w, y, w))


def sinkhorn_across(p: Parameters, x: Matrix, sides: Sides) -> Matrix:
    _, g = plan_potentials(score_matrix(dot, p, sides.x, sides.y), sides.w, sides.u)
    rows = score_matrix(dot, p, x, sides.y) + g[None, :]
    return np.exp(rows - log_sum(rows, sides.w)[:, None]) / p.epsilon


def esp_across(p: Parameters, x: Matrix, sides: Sides) -> Matrix:
    """Overlaps of the masses of projected queries and keys, axis by axis."""
    at, atoms = (np.array([p.Q @ row for row in z]) for z in (x, sides.x))
    K = np.array([p.K @ row for row in sides.y])
    rows = [
        [
            share_of_mass(atoms[:, axis], sides.u, K[:, axis], sides.w, q[axis])
            for q in at
        ]
        for axis in range(len(p.Q))
    ]
    return np.mean(rows, axis=0)


def esp_soft_across(p: Parameters, x: Matrix, sides: Sides) -> Matrix:
    plans = soft_plans(p, x, sides)
    return np.mean([plan / (plan @ sides.w)[:, None] for plan in plans], axis=0)


def esp_soft_published_across(p: Parameters, x: Matrix, sides: Sides) -> Matrix:
    return np.mean(soft_plans(p, x, sides), axis=0)


def soft_plans(p: Parameters, x: Matrix, sides: Sides, t: float = 1.0) -> list[Matrix]:
    """$P_t(u)^T I P_t(v)$ over the weights, axis by axis, extended to rows at `x`."""
    near = lambda a, b: np.exp(-((a[:, None] - b[None, :]) ** 2) / t)
    plans, (u_mass, w) = [], (sides.u / sides.u.sum(), sides.w / sides.w.sum())
    for q, k in zip(p.Q, p.K, strict=True):
        u, v, at = sides.x @ q, sides.y @ k, x @ q
        hard = np.array([share_of_mass(u, u_mass, v, w, level) for level in u])
        keys = near(v, v) / (near(v, v) @ w)[:, None]
        queries = near(at, u) / (near(u, u) @ u_mass)[None, :]
        plans.append((queries * u_mass) @ (hard * w) @ keys)
    return plans


KERNELS: dict[str, Callable[[Parameters, Matrix, Matrix, Vector], Matrix]] = {
    "softmax": softmax,
    "l2": l2,
    "differential": differential,
    "esp": esp,
    "esp-soft": esp_soft,
    "esp-soft-published": esp_soft_published,
    "sinkhorn": sinkhorn,
    "linear": linear,
    "linear-expansion": linear_expansion,
    "exp": exp,
    "hardmax": hardmax,
    "sigmoid": sigmoid,
    "relu": relu,
}


# Kernels that depend on both measures; the others depend on the keys alone.
CROSS_KERNELS: dict[str, Callable[[Parameters, Matrix, Sides], Matrix]] = {
    "sinkhorn": sinkhorn_across,
    "esp": esp_across,
    "esp-soft": esp_soft_across,
    "esp-soft-published": esp_soft_published_across,
}


def velocity_across(name: str, p: Parameters, x: Matrix, sides: Sides) -> Matrix:
    """Velocities at `x` of queries that attend to keys, under the variant `name`."""
    if name in CROSS_KERNELS:
        kernel = CROSS_KERNELS[name](p, x, sides)
    else:
        kernel = KERNELS[name](p, x, sides.y, sides.w)
    return (kernel * sides.w[None, :]) @ sides.y @ p.V.T


def velocity(name: str, p: Parameters, x: Matrix, y: Matrix, w: Vector) -> Matrix:
    """Velocities at `x` under the variant `name`, from tokens `y` of weights `w`."""
    return (KERNELS[name](p, x, y, w) * w[None, :]) @ y @ p.V.T


def masked_velocity(
    name: str, p: Parameters, y: Matrix, w: Vector, sees: Matrix
) -> Matrix:
    """Velocities under the measure restricted to visible tokens, renormalised."""
    rows = []
    for i in range(len(y)):
        visible = sees[i]
        if not np.any(w[visible] > 0):
            rows.append(np.zeros(y.shape[1]))
            continue
        part = w[visible] / np.sum(w[visible]) * np.sum(w)
        rows.append(velocity(name, p, y[i : i + 1], y[visible], part)[0])
    return np.array(rows)


def gaussian_linear(
    name: str, p: Parameters, Sigma: Matrix, alpha: Vector
) -> tuple[Matrix, Vector]:
    """$(L, b)$ of the barycentre times $V$, with inverses where the papers have them.

    For nonsingular `Sigma` and `A`. Sources: castin2025, Lemmas 4.1 and 4.14, and eq.
    (4.3) corrected as ERRATA C10 says; ERRATA N2 for `esp`.
    """
    L, b = AFFINE_FORMS[name](p, Sigma, alpha)
    return p.V @ L, p.V @ b


def affine_l2(p: Parameters, Sigma: Matrix, alpha: Vector) -> tuple[Matrix, Vector]:
    inverse = np.linalg.inv(Sigma)
    tilted = np.linalg.inv(inverse + 2 * p.K.T @ p.K / p.epsilon)
    return 2 * tilted @ p.K.T @ p.Q / p.epsilon, tilted @ inverse @ alpha


def affine_sinkhorn(
    p: Parameters, Sigma: Matrix, alpha: Vector
) -> tuple[Matrix, Vector]:
    A, root = p.K.T @ p.Q / p.epsilon, square_root(Sigma)
    middle = square_root(np.eye(len(A)) / 4 + root @ A.T @ Sigma @ A @ root)
    C = root @ middle @ np.linalg.inv(root) - np.eye(len(A)) / 2
    L = np.linalg.inv(A).T @ np.linalg.inv(Sigma) @ C / p.epsilon
    return L, alpha / p.epsilon - L @ alpha


def affine_esp(p: Parameters, Sigma: Matrix, alpha: Vector) -> tuple[Matrix, Vector]:
    L = np.zeros_like(Sigma)
    for q, k in zip(p.Q, p.K, strict=True):  # along the axes
        L += np.outer(Sigma @ k, q) / np.sqrt((q @ Sigma @ q) * (k @ Sigma @ k))
    L /= len(p.Q)
    return L, alpha - L @ alpha


def affine_esp_soft(
    p: Parameters, Sigma: Matrix, alpha: Vector
) -> tuple[Matrix, Vector]:
    """At temperature 1: kernels of variance 1/2."""
    L = np.zeros_like(Sigma)
    for q, k in zip(p.Q, p.K, strict=True):
        s, r = q @ Sigma @ q, k @ Sigma @ k
        # Ranks near a query have the prior N(0, s) and each its own normaliser.
        among = 1 / (1 / s + 2 - 1 / (s + 0.5)) * 2
        L += np.outer(Sigma @ k, q) * among * np.sqrt(r / s) / (r + 0.5)
    L /= len(p.Q)
    return L, alpha - L @ alpha


AffineForm = Callable[[Parameters, Matrix, Vector], tuple[Matrix, Vector]]
AFFINE_FORMS: dict[str, AffineForm] = {
    "softmax": lambda p, S, alpha: (S @ p.K.T @ p.Q / p.epsilon, alpha),
    "l2": affine_l2,
    "sinkhorn": affine_sinkhorn,
    "differential": lambda p, S, alpha: (S @ p.K.T @ p.Q / p.epsilon, alpha / 2),
    "esp": affine_esp,
    "esp-soft": affine_esp_soft,
    "linear": lambda p, S, alpha: (
        (S + np.outer(alpha, alpha)) @ p.K.T @ p.Q / p.epsilon,
        0 * alpha,
    ),
    "linear-expansion": lambda p, S, alpha: (S @ p.K.T @ p.Q, alpha / p.epsilon),
    "relu": lambda p, S, alpha: (S @ p.K.T @ p.Q / p.epsilon / 2, 0 * alpha),
}
