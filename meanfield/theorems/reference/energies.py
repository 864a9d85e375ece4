r"""Energies in NumPy, for real and for complex arguments alike.

Their slopes are taken by complex steps, $f'(x) = \mathrm{Im} f(x + ih)/h$ at $h =
10^{-30}$: without truncation and without cancellation, so to rounding.
"""

from collections.abc import Callable

import numpy as np

from .alternation import after, scalings
from .measures import hermite_nodes

Array = np.ndarray
Scores = Callable[[Array, Array], Array]
STEP = 1e-30
ITERATIONS = 500  # of Sinkhorn; checked to have converged
CONVERGED = 1e-12  # of a marginal


def bilinear(A: Array) -> Scores:
    r"""Scores $y_j\cdot Ax_i$ of queries `x` and keys `y`."""
    return lambda x, y: (x @ A.T) @ y.T


def distance(Q: Array, K: Array, bandwidth: float | Array) -> Scores:
    """Scores $-|Qx_i - Ky_j|^2/b$."""

    def scores(x: Array, y: Array) -> Array:
        z = (x @ Q.T)[:, None, :] - (y @ K.T)[None, :, :]
        return -np.sum(z * z, axis=2) / bandwidth

    return scores


def interaction(x: Array, w: Array, scores: Scores) -> Array:
    r"""$\frac12\sum_{ij}w_iw_je^{s(x_i,x_j)}$."""
    return w @ np.exp(scores(x, x)) @ w / 2


def transported(kernel: Array, w: Array, v: Array, iterations: int) -> tuple:
    """Logarithms of the scalings that give `kernel` the marginals `w` and `v`."""
    rows, columns = after(scalings(kernel, w, v), 2 * iterations + 1)
    left = np.max(np.abs(columns * (kernel.T @ (w * rows)) - 1))
    if left > CONVERGED:
        raise ArithmeticError(f"The reference has not converged: {left:.1g} left.")
    return np.log(rows), np.log(columns)


def scaled(
    x: Array, w: Array, scores: Scores, iterations: int = ITERATIONS
) -> tuple[Array, Array]:
    r"""$f$ and $g$ at the atoms, both marginals of $e^{s+f+g}$ equal to $\mu$."""
    return transported(np.exp(scores(x, x)), w, w, iterations)


def sinkhorn(x: Array, w: Array, scores: Scores) -> Array:
    r"""$-\frac12\int(f + g)d\mu$: minus half of the divergence from $e^s$."""
    f, g = scaled(x, w, scores)
    return -(w @ (f + g)) / 2


def relative_entropy(x: Array, w: Array, scores: Scores, against: Scores) -> Array:
    r"""$\iint\kappa\log(\kappa/\kappa^0)$, κ the plan of `scores`."""
    f, g = scaled(x, w, scores)
    logs = scores(x, x) + f[:, None] + g[None, :]
    return w @ (np.exp(logs) * (logs - against(x, x))) @ w


def potential_at(probes: Array, x: Array, w: Array, scores: Scores) -> Array:
    """$f$ and $g$ anywhere, as rows of a `(2, m)` array."""
    f, g = scaled(x, w, scores)
    rows = np.exp(scores(probes, x)) @ (w * np.exp(g))
    columns = np.exp(scores(x, probes)).T @ (w * np.exp(f))
    return -np.log(np.stack([rows, columns]))


def plan(x: Array, w: Array, scores: Scores) -> Array:
    r"""$\kappa^\infty$, a density."""
    f, g = scaled(x, w, scores)
    return np.exp(scores(x, x) + f[:, None] + g[None, :])


def sinkhorn_gaussian(mean: Array, Sigma: Array, A: Array) -> Array:
    r"""The same energy of $N(\alpha,\Sigma)$; `A` is divided by ε.

    The plan is Gaussian; in the singular directions of $\Sigma^{1/2}A\Sigma^{1/2}$ it
    has correlations $t$ that maximise $\sigma t + \frac12\log(1 - t^2)$. The squares of
    $\sigma$ are the eigenvalues of $A^\top\Sigma A\Sigma$.
    """
    N, identity = A.T @ Sigma @ A @ Sigma, np.eye(len(A))
    h = (identity + matrix_root(identity + 4 * N)) / 2
    inverse = np.linalg.inv(h)
    correlated = np.linalg.det(identity - N @ inverse @ inverse)
    return mean @ A @ mean / 2 + (np.trace(N @ inverse) + np.log(correlated) / 2) / 2


def matrix_root(S: Array) -> Array:
    """A square root by Denman and Beavers: inverses alone, so complex steps pass."""
    root, inverse = S, np.eye(len(S))
    for _ in range(30):
        other = np.linalg.inv(root)
        root, inverse = (root + np.linalg.inv(inverse)) / 2, (inverse + other) / 2
    return root


def gaussian_slopes(mean: Array, Sigma: Array, A: Array) -> tuple[Array, Array]:
    r"""$\partial_\alpha$ and the symmetric $\partial_\Sigma$ of that energy."""
    by_mean = slope(lambda m: sinkhorn_gaussian(m, Sigma, A), mean)
    return by_mean, symmetric_slope(lambda S: sinkhorn_gaussian(mean, S, A), Sigma)


def interaction_gaussian(z: tuple, mean: Array, factor: Array, A: Array) -> Array:
    r"""$\frac12\iint e^{y\cdot Ax}$: over `y` exactly, over `x` at nodes `z`."""
    nodes, weights = z
    slopes = (mean + nodes @ factor.T) @ A.T
    spread = slopes @ factor
    return weights @ np.exp(slopes @ mean + np.sum(spread * spread, axis=1) / 2) / 2


def standard_nodes(d: int, n: int) -> tuple[Array, Array]:
    """Gauss–Hermite nodes of the standard Gaussian and their weights."""
    return hermite_nodes(np.zeros(d), np.eye(d), n)


def slope(function: Callable[[Array], Array], x: Array) -> Array:
    """The gradient of a number, in the shape of `x`, by complex steps."""
    units = np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([along(function, x, unit) for unit in units]).reshape(x.shape)


def along(function: Callable[[Array], Array], x: Array, direction: Array) -> Array:
    """The derivative of any array in a direction, by a complex step."""
    return np.imag(function(x + 1j * STEP * direction)) / STEP


def symmetric_slope(function: Callable[[Array], Array], Sigma: Array) -> Array:
    """The symmetric gradient with respect to a symmetric matrix."""
    raw = slope(lambda S: function((S + S.T) / 2), Sigma)
    return (raw + raw.T) / 2


def interaction_variation(probes: Array, x: Array, w: Array, scores: Scores) -> Array:
    r"""$\frac12\sum_jw_j(e^{s(p,x_j)} + e^{s(x_j,p)})$."""
    both = np.exp(scores(probes, x)) + np.exp(scores(x, probes)).T
    return both @ w / 2


def sinkhorn_variation(probes: Array, x: Array, w: Array, scores: Scores) -> Array:
    r"""$-\frac12(f + g)$, the potentials extended to any point."""
    return -np.sum(potential_at(probes, x, w, scores), axis=0) / 2


def quadratic(x: Array, H: Array, c: Array) -> Array:
    r"""$\frac12(x - c)\cdot H(x - c)$ of each row."""
    z = x - c
    return np.sum((z @ H) * z, axis=1) / 2
