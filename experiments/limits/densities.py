"""Densities that small bandwidths are measured on: mixtures, and one with an edge."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import ndtr

NARROW = 12.0  # deviations from all means beyond which no mass is left


class Mixture(NamedTuple):
    """A mixture of isotropic Gaussians, known with all that heat makes of it.

    Attributes:
        shares: of the parts, which sum to one.
        means: of the parts.
        deviations: of each part, along every direction.
    """

    shares: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k d"]
    deviations: Float[np.ndarray, " k"]

    def density(self, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        r"""$\rho$."""
        return self._parts(x).sum(axis=1)

    def slope(self, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        r"""$\nabla\rho/\rho$."""
        parts = self._parts(x)
        pulls = (self.means - x[:, None, :]) / self.deviations[:, None] ** 2
        return np.einsum("mk,mkd->md", parts, pulls) / parts.sum(axis=1)[:, None]

    def heated(self, variance: float) -> "Mixture":
        """Convolved with a Gaussian of this variance along every direction."""
        wider = np.sqrt(self.deviations**2 + variance)
        return self._replace(deviations=wider)

    def masses(self, edges: Float[np.ndarray, " faces"]) -> Float[np.ndarray, " cells"]:
        """Of the cells on a line."""
        z = (edges[:, None] - self.means[:, 0]) / self.deviations
        # Each from its nearer end: a difference of two numbers near one rounds.
        low, high = z[:-1], z[1:]
        cells = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        return cells @ self.shares

    def quantiles(self, n: int) -> Float[np.ndarray, "n 1"]:
        """The levels (i - ½)/n on a line."""
        below = lambda x: float(self.shares @ ndtr((x - self.means[:, 0]) / spread))
        spread, reach = self.deviations, NARROW * np.max(self.deviations)
        ends = np.min(self.means) - reach, np.max(self.means) + reach
        levels = (np.arange(n) + 0.5) / n
        place = lambda level: brentq(lambda x: below(x) - level, *ends, xtol=1e-14)
        return np.array([place(level) for level in levels])[:, None]

    def draws(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Independent draws."""
        k = rng.choice(len(self.shares), size=n, p=self.shares)
        noise = rng.standard_normal((n, self.means.shape[1]))
        return self.means[k] + self.deviations[k, None] * noise

    def _parts(self, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m k"]:
        z = (x[:, None, :] - self.means) / self.deviations[:, None]
        size = (np.sqrt(2 * np.pi) * self.deviations) ** x.shape[1]
        return self.shares / size * np.exp(-np.sum(z**2, axis=2) / 2)


TWO_PEAKS = Mixture(
    np.array([0.45, 0.55]), np.array([[-1.0], [1.1]]), np.array([0.6, 0.8])
)
SKEWED = Mixture(np.array([0.4, 0.6]), np.array([[-0.9], [0.8]]), np.array([0.8, 0.9]))
PLANE = Mixture(
    np.array([0.6, 0.4]), np.array([[-0.7, 0.2], [0.8, -0.3]]), np.array([0.62, 0.7])
)


def edged(
    x: Float[np.ndarray, " m"],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    r"""$(1-x^2)^4(1+0.6\sin 3x)$ up to a factor, and its $\rho'/\rho$, for |x| < 1."""
    wave = 1 + 0.6 * np.sin(3 * x)
    return (1 - x**2) ** 4 * wave, -8 * x / (1 - x**2) + 1.8 * np.cos(3 * x) / wave
