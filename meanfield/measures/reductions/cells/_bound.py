r"""A bound on the error of interpolating $e^{\sigma uw}$ between Chebyshev nodes.

With $u$ in a cell of half-width $h$ around $a$ and $|w| \le R$ the kernel is
$e^{\sigma aw} e^{zt}$ with $u = a + ht$ and $|z| \le \zeta = \sigma hR$. The error of
the polynomial through the $p$ roots $t_i$ of $T_p$ is
$2^{1-p}\,T_p(t)\,e^{zt} g(t)$ with the divided difference

$$g(t) = e^{-zt} [t_1, \dots, t_p, t]\,e^{z\cdot}
       = z^p \int e^{z\sum_i \lambda_i (t_i - t)}\,d\lambda,$$

which is an integral over a simplex (Hermite and Genocchi). This integral decreases in
$zt$. As $|T_p| \le 1 = |T_p(\pm 1)|$, the relative error is largest at an end of the
cell, where it is computed. The error of the interpolation in $w$ is interpolated in
$u$, so both errors together are at most $\varepsilon_u + \Lambda_u\varepsilon_w$. In
the Lebesgue constant $\Lambda_u$, the weight of a node is the ratio of the kernel at
the node to the kernel at $t$.
"""

import functools

import numpy as np
from jaxtyping import Float

MAX_CELL_NODES = 24  # largest number of nodes along an axis of a cell
_WIDEST = 16.0  # upper end of the bisection for the reach
_HALVINGS = 26  # number of steps of the bisection for the reach
# Numbers of points and of exponents at which the Lebesgue function is evaluated.
_N_POINTS, _N_EXPONENTS = 401, 9


def angles(count: int) -> Float[np.ndarray, " count"]:
    """The angles whose cosines are the roots of a Chebyshev polynomial."""
    return np.pi * (np.arange(count) + 0.5) / count


def to_coefficients(count: int) -> Float[np.ndarray, "count count"]:
    """The matrix from values at the nodes to coefficients of Chebyshev polynomials."""
    matrix = 2 / count * np.cos(np.outer(np.arange(count), angles(count)))
    matrix[0] /= 2
    return matrix


@functools.cache
def relative_error(nodes: int, reach: float) -> float:
    r"""Bound on the relative error of the interpolated kernel $e^{\sigma uw}$.

    Args:
        nodes: number $p$ of nodes in a cell.
        reach: $\zeta$, the same for the cells of queries and of keys.
    """
    end = lagrange(nodes, np.array([-1.0]))[:, 0]
    error = abs(1.0 - end @ np.exp(reach * (np.cos(angles(nodes)) + 1.0)))
    return float(error * (1.0 + growth(nodes, reach)))


@functools.cache
def growth(nodes: int, reach: float) -> float:
    r"""Lebesgue constant $\max_t \sum_i |\ell_i(t)|\,e^{z(t_i - t)}$, $|z| \le \zeta$.

    It bounds how much interpolation amplifies relative errors at the nodes, such as
    rounding errors.
    """
    t = np.linspace(-1.0, 1.0, _N_POINTS)
    basis = np.abs(lagrange(nodes, t))
    steps = np.cos(angles(nodes))[:, None] - t[None]
    exponents = np.linspace(0.0, reach, _N_EXPONENTS)
    return float(max((basis * np.exp(z * steps)).sum(axis=0).max() for z in exponents))


@functools.cache
def largest_reach(nodes: int, error: float) -> float:
    """The largest reach for which the relative error is at most `error`; 0 if none."""
    low, high = 0.0, _WIDEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if relative_error(nodes, middle) <= error:
            low = middle
        else:
            high = middle
    return low


def lagrange(nodes: int, t: Float[np.ndarray, " m"]) -> Float[np.ndarray, "nodes m"]:
    """Lagrange polynomials of the nodes, evaluated at `t` in [-1, 1]."""
    angle = np.arccos(np.clip(t, -1.0, 1.0))
    polynomials = np.cos(np.arange(nodes)[:, None] * angle[None])
    return to_coefficients(nodes).T @ polynomials
