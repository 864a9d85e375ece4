r"""What interpolation of $e^{\sigma uw}$ between Chebyshev nodes misses, at most.

With $u$ in a cell of half-width $h$ around $a$ and $|w| \le R$ the kernel is
$e^{\sigma aw} e^{zt}$ with $u = a + ht$ and $|z| \le \zeta = \sigma hR$. What the
polynomial through the $p$ roots $t_i$ of $T_p$ misses of $e^{zt}$ is
$2^{1-p}\,T_p(t)\,e^{zt} g(t)$ with the divided difference

$$g(t) = e^{-zt} [t_1, \dots, t_p, t]\,e^{z\cdot}
       = z^p \int e^{z\sum_i \lambda_i (t_i - t)}\,d\lambda,$$

an integral over a simplex that falls with $zt$ (Hermite and Genocchi). As
$|T_p| \le 1 = |T_p(\pm 1)|$, the relative error is largest at an end of the cell, where
it is computed; and as the error of a kernel in $w$ is itself interpolated in $u$, both
together are at most $\varepsilon_u + \Lambda_u\varepsilon_w$, with a Lebesgue constant
that weighs each node by how much larger the kernel is there.
"""

import functools

import numpy as np
from jaxtyping import Float

MOST = 24  # nodes in a cell
_WIDEST = 16.0  # reach that is looked for, at most
_HALVINGS = 26  # of the reaches that are tried
_SEEN, _SLOPES = 401, 9  # points and slopes at which the Lebesgue function is taken


def angles(count: int) -> Float[np.ndarray, " count"]:
    """The angles whose cosines are the roots of a Chebyshev polynomial."""
    return np.pi * (np.arange(count) + 0.5) / count


def to_coefficients(count: int) -> Float[np.ndarray, "count count"]:
    """From values at the nodes to coefficients of Chebyshev polynomials."""
    matrix = 2 / count * np.cos(np.outer(np.arange(count), angles(count)))
    matrix[0] /= 2
    return matrix


@functools.cache
def relative_error(nodes: int, reach: float) -> float:
    r"""How far the interpolated kernel may be from $e^{\sigma uw}$, over that.

    Args:
        nodes: in a cell, $p$.
        reach: $\zeta$, of cells of either side.
    """
    end = lagrange(nodes, np.array([-1.0]))[:, 0]
    error = abs(1.0 - end @ np.exp(reach * (np.cos(angles(nodes)) + 1.0)))
    return float(error * (1.0 + growth(nodes, reach)))


@functools.cache
def growth(nodes: int, reach: float) -> float:
    r"""$\max_t \sum_i |\ell_i(t)|\,e^{z(t_i - t)}$ over $|z| \le \zeta$.

    What a relative error at the nodes may grow to between them, rounding included.
    """
    t = np.linspace(-1.0, 1.0, _SEEN)
    basis = np.abs(lagrange(nodes, t))
    steps = np.cos(angles(nodes))[:, None] - t[None]
    slopes = np.linspace(0.0, reach, _SLOPES)
    return float(max((basis * np.exp(z * steps)).sum(axis=0).max() for z in slopes))


@functools.cache
def largest_reach(nodes: int, error: float) -> float:
    """The reach up to which so many nodes miss no more than `error`; 0 if none."""
    low, high = 0.0, _WIDEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if relative_error(nodes, middle) <= error:
            low = middle
        else:
            high = middle
    return low


def lagrange(nodes: int, t: Float[np.ndarray, " m"]) -> Float[np.ndarray, "nodes m"]:
    """Lagrange's polynomials of the nodes at places in [-1, 1]."""
    angle = np.arccos(np.clip(t, -1.0, 1.0))
    polynomials = np.cos(np.arange(nodes)[:, None] * angle[None])
    return to_coefficients(nodes).T @ polynomials
