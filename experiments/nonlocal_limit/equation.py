r"""The nonlocal equation of sander2022, Proposition 4, on the line, by collocation.

With $r = W_Q/W_K$ the limit velocity is $-r(\rho'/\rho)(rx)$, so $u = \log\rho$ solves
$\partial_tu(x) = r^2u''(rx) + r\,u'(rx)u'(x)$. For $0 < r < 1$ the right-hand side on
an interval around zero uses only values inside it, so polynomials at Chebyshev nodes
need no boundary condition. The method uses neither attention nor a grid. It does not
enforce the conservation of mass, so a change of mass measures the error.

Fourier modes satisfy $c_\kappa' = -\kappa^2c_{\kappa/r}$: short waves drive longer ones
and nothing damps them, so the equation is well posed for analytic densities only.
Finite differences amplify rounding errors, more so on finer meshes; polynomials of this
degree, in double precision, do not.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev
from scipy.integrate import solve_ivp

NODES = 100
HALF_WIDTH = 6.0  # half-width of the interval; mixtures have a mass of 1e-9 outside
TOLERANCE = 1e-10  # tolerance of the time integration of log-densities
GAUSS_NODES = 5  # number of quadrature nodes in each cell


class LogDensity(NamedTuple):
    """The logarithm of a density on an interval around zero.

    Attributes:
        coefficients: coefficients of the Chebyshev series of the logarithm.
        half_width: half-width of the interval.
    """

    coefficients: Float[np.ndarray, " k"]
    half_width: float

    def density(self, x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        r"""The density $\rho$."""
        return np.exp(chebyshev.chebval(x / self.half_width, self.coefficients))

    def masses(self, edges: Float[np.ndarray, " faces"]) -> Float[np.ndarray, " cells"]:
        """The masses of cells; the density is taken as zero outside the interval."""
        inside = np.clip(edges, -self.half_width, self.half_width)
        nodes, weights = np.polynomial.legendre.leggauss(GAUSS_NODES)
        half = np.diff(inside) / 2
        x = inside[:-1, None] + half[:, None] * (1 + nodes)
        return half * (self.density(x) @ weights)


def solution(
    log_density: Float[np.ndarray, " k"], ratio: float, t: float
) -> LogDensity:
    """Solves the nonlocal equation until time `t`.

    Args:
        log_density: logarithm of the initial density at the Chebyshev nodes.
        ratio: $r = W_Q/W_K$.
        t: time of the solution.
    """
    x = nodes()
    to_series = np.linalg.inv(chebyshev.chebvander(x, NODES - 1))
    derivative = _derivative(x, 1) @ to_series
    scaled = [_derivative(ratio * x, k) @ to_series for k in (1, 2)]  # at points r x

    def rate(_: float, u: np.ndarray) -> np.ndarray:
        return ratio**2 * (scaled[1] @ u) + ratio * (scaled[0] @ u) * (derivative @ u)

    trajectory = solve_ivp(
        rate, (0, t), log_density, method="DOP853", rtol=TOLERANCE, atol=TOLERANCE
    )
    return LogDensity(to_series @ trajectory.y[:, -1], HALF_WIDTH)


def nodes() -> Float[np.ndarray, " k"]:
    """Chebyshev nodes of the first kind, in units of the half-width."""
    return np.cos((np.arange(NODES) + 0.5) * np.pi / NODES)


def _derivative(x: np.ndarray, order: int) -> np.ndarray:
    """Derivatives of the Chebyshev polynomials, at `x` in units of the half-width."""
    series = chebyshev.chebder(np.eye(NODES), order) / HALF_WIDTH**order
    return chebyshev.chebval(x, series).T
