r"""The nonlocal equation of sander2022, Proposition 4, on the line, by collocation.

With $r = W_Q/W_K$ the limit velocity is $-r(\rho'/\rho)(rx)$: $u = \log\rho$ follows
$\partial_tu(x) = r^2u''(rx) + r\,u'(rx)u'(x)$. For $0 < r < 1$ an interval around zero
reads nothing beyond its ends: polynomials at Chebyshev nodes need no boundary condition
there. No attention, no grid and no mass enter, so that mass tells the error.

Short waves drive longer ones, $c_\kappa' = -\kappa^2c_{\kappa/r}$, and nothing damps
them: the equation is one for analytic densities. Finite differences amplify their own
errors the more the finer they are; polynomials have few enough, in double precision.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev
from scipy.integrate import solve_ivp

NODES = 100
HALF_WIDTH = 6.0  # of the interval, beyond which mixtures here have 1e-9 of their mass
TOLERANCE = 1e-10  # of the logarithm of the density
GAUSS = 5  # nodes in a cell


class LogDensity(NamedTuple):
    """The logarithm of a density on an interval around zero.

    Attributes:
        coefficients: of its Chebyshev series.
        half_width: of the interval.
    """

    coefficients: Float[np.ndarray, " k"]
    half_width: float

    def density(self, x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        r"""$\rho$."""
        return np.exp(chebyshev.chebval(x / self.half_width, self.coefficients))

    def masses(self, edges: Float[np.ndarray, " faces"]) -> Float[np.ndarray, " cells"]:
        """Of cells, none of it beyond the interval."""
        inside = np.clip(edges, -self.half_width, self.half_width)
        nodes, weights = np.polynomial.legendre.leggauss(GAUSS)
        half = np.diff(inside) / 2
        x = inside[:-1, None] + half[:, None] * (1 + nodes)
        return half * (self.density(x) @ weights)


def solution(
    log_density: Float[np.ndarray, " k"], ratio: float, t: float
) -> LogDensity:
    """The density at time `t`, from its logarithm at the Chebyshev nodes at time 0."""
    places = nodes()
    to_series = np.linalg.inv(chebyshev.chebvander(places, NODES - 1))
    here = _derivative(places, 1) @ to_series
    there = [_derivative(ratio * places, k) @ to_series for k in (1, 2)]

    def rate(_: float, u: np.ndarray) -> np.ndarray:
        return ratio**2 * (there[1] @ u) + ratio * (there[0] @ u) * (here @ u)

    solution_over_time = solve_ivp(
        rate,
        (0, t),
        log_density,
        method="DOP853",
        rtol=TOLERANCE,
        atol=TOLERANCE,
    )
    return LogDensity(to_series @ solution_over_time.y[:, -1], HALF_WIDTH)


def nodes() -> Float[np.ndarray, " k"]:
    """Chebyshev nodes of the first kind, in units of the half-width."""
    return np.cos((np.arange(NODES) + 0.5) * np.pi / NODES)


def _derivative(places: np.ndarray, order: int) -> np.ndarray:
    """Of Chebyshev polynomials by $x$, at places in units of the half-width."""
    series = chebyshev.chebder(np.eye(NODES), order) / HALF_WIDTH**order
    return chebyshev.chebval(places, series).T
