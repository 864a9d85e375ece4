r"""Energies in NumPy, for real and complex arguments.

Gradients are taken by complex steps, $f'(x) = \mathrm{Im} f(x + ih)/h$ with $h =
10^{-30}$, which have neither truncation error nor cancellation.
"""

from collections.abc import Callable

import numpy as np

from .alternation import nth_state, scalings
from .measures import hermite_nodes

Array = np.ndarray
Scores = Callable[[Array, Array], Array]
STEP = 1e-30
ITERATIONS = 500  # number of Sinkhorn iterations; convergence is checked afterwards
MARGINAL_TOLERANCE = 1e-12  # relative error allowed in a marginal


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
    r"""Interaction energy $\frac12\sum_{ij}w_iw_je^{s(x_i,x_j)}$."""
    return w @ np.exp(scores(x, x)) @ w / 2


def log_scalings(kernel: Array, w: Array, v: Array, iterations: int) -> tuple:
    """Logarithms of the scalings that give `kernel` the marginals `w` and `v`."""
    rows, columns = nth_state(scalings(kernel, w, v), 2 * iterations + 1)
    left = np.max(np.abs(columns * (kernel.T @ (w * rows)) - 1))
    if left > MARGINAL_TOLERANCE:
        raise ArithmeticError(
            "Sinkhorn iterations in NumPy did not converge; the relative error of a "
            f"marginal is {left:.1g}."
        )
    return np.log(rows), np.log(columns)


def atom_potentials(
    x: Array, w: Array, scores: Scores, iterations: int = ITERATIONS
) -> tuple[Array, Array]:
    r"""Potentials $f$, $g$ at the atoms: both marginals of $e^{s+f+g}$ are $\mu$."""
    return log_scalings(np.exp(scores(x, x)), w, w, iterations)


def sinkhorn(x: Array, w: Array, scores: Scores) -> Array:
    r"""Sinkhorn energy $-\frac12\int(f+g)d\mu$: −½ times the divergence from $e^s$."""
    f, g = atom_potentials(x, w, scores)
    return -(w @ (f + g)) / 2


def relative_entropy(x: Array, w: Array, scores: Scores, base_scores: Scores) -> Array:
    r"""Relative entropy $\iint\kappa\log(\kappa/\kappa^0)$ of the plan of `scores`."""
    f, g = atom_potentials(x, w, scores)
    logs = scores(x, x) + f[:, None] + g[None, :]
    return w @ (np.exp(logs) * (logs - base_scores(x, x))) @ w


def potential_at(probes: Array, x: Array, w: Array, scores: Scores) -> Array:
    """Potentials $f$ and $g$ at probes, as rows of a `(2, m)` array."""
    f, g = atom_potentials(x, w, scores)
    rows = np.exp(scores(probes, x)) @ (w * np.exp(g))
    columns = np.exp(scores(x, probes)).T @ (w * np.exp(f))
    return -np.log(np.stack([rows, columns]))


def plan(x: Array, w: Array, scores: Scores) -> Array:
    r"""Density $\kappa^\infty$ of the converged plan."""
    f, g = atom_potentials(x, w, scores)
    return np.exp(scores(x, x) + f[:, None] + g[None, :])


def sinkhorn_gaussian(mean: Array, Sigma: Array, A: Array) -> Array:
    r"""Sinkhorn energy of $N(\alpha,\Sigma)$, where `A` is already divided by ε.

    The plan is Gaussian. Along the singular vectors of $\Sigma^{1/2}A\Sigma^{1/2}$, its
    correlations $t$ maximise $\sigma t + \frac12\log(1 - t^2)$, where $\sigma$ are the
    singular values. The squares of $\sigma$ are the eigenvalues of
    $A^\top\Sigma A\Sigma$.
    """
    N, identity = A.T @ Sigma @ A @ Sigma, np.eye(len(A))
    h = (identity + matrix_root(identity + 4 * N)) / 2
    inverse = np.linalg.inv(h)
    determinant = np.linalg.det(identity - N @ inverse @ inverse)
    return mean @ A @ mean / 2 + (np.trace(N @ inverse) + np.log(determinant) / 2) / 2


def matrix_root(S: Array) -> Array:
    """Matrix square root by the Denman–Beavers iteration; it allows complex steps."""
    root, inverse = S, np.eye(len(S))
    for _ in range(30):
        root_inverse = np.linalg.inv(root)
        root = (root + np.linalg.inv(inverse)) / 2
        inverse = (inverse + root_inverse) / 2
    return root


def gaussian_gradients(mean: Array, Sigma: Array, A: Array) -> tuple[Array, Array]:
    r"""Gradients of `sinkhorn_gaussian` in $\alpha$ and in $\Sigma$ (symmetric)."""
    mean_gradient = gradient(lambda m: sinkhorn_gaussian(m, Sigma, A), mean)
    raw = gradient(lambda S: sinkhorn_gaussian(mean, (S + S.T) / 2, A), Sigma)
    return mean_gradient, (raw + raw.T) / 2


def interaction_gaussian(z: tuple, mean: Array, factor: Array, A: Array) -> Array:
    r"""Integral $\frac12\iint e^{y\cdot Ax}$, in closed form over y, by nodes over x.

    The standard Gauss–Hermite nodes and their weights are `z`.
    """
    nodes, weights = z
    tilts = (mean + nodes @ factor.T) @ A.T
    spread = tilts @ factor
    return weights @ np.exp(tilts @ mean + np.sum(spread * spread, axis=1) / 2) / 2


def standard_nodes(d: int, n: int) -> tuple[Array, Array]:
    """Gauss–Hermite nodes of the standard Gaussian and their weights."""
    return hermite_nodes(np.zeros(d), np.eye(d), n)


def gradient(function: Callable[[Array], Array], x: Array) -> Array:
    """Gradient of a scalar function by complex steps, in the shape of `x`."""
    units = np.eye(x.size).reshape(x.size, *x.shape)
    derivatives = [directional_derivative(function, x, unit) for unit in units]
    return np.array(derivatives).reshape(x.shape)


def directional_derivative(
    function: Callable[[Array], Array], x: Array, direction: Array
) -> Array:
    """Derivative of an array-valued function in a direction, by a complex step."""
    return np.imag(function(x + 1j * STEP * direction)) / STEP


def interaction_variation(probes: Array, x: Array, w: Array, scores: Scores) -> Array:
    r"""First variation $\frac12\sum_jw_j(e^{s(p,x_j)} + e^{s(x_j,p)})$."""
    kernel = np.exp(scores(probes, x)) + np.exp(scores(x, probes)).T
    return kernel @ w / 2


def sinkhorn_variation(probes: Array, x: Array, w: Array, scores: Scores) -> Array:
    r"""First variation $-\frac12(f + g)$, with potentials extended to the probes."""
    return -np.sum(potential_at(probes, x, w, scores), axis=0) / 2


def quadratic(x: Array, H: Array, c: Array) -> Array:
    r"""Quadratic form $\frac12(x - c)\cdot H(x - c)$ of each row of `x`."""
    z = x - c
    return np.sum((z @ H) * z, axis=1) / 2
