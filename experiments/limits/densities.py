"""Densities for limits of small bandwidths: mixtures, and a density on an interval."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import ndtr

MAX_DEVIATIONS = 12.0  # beyond this many standard deviations, masses round to zero


class Mixture(NamedTuple):
    """Mixture of isotropic Gaussians, whose heat flow is known in closed form.

    Attributes:
        shares: masses of the components, which sum to one.
        means: means of the components.
        deviations: standard deviations of the components.
    """

    shares: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k d"]
    deviations: Float[np.ndarray, " k"]

    def density(self, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        r"""The density $\rho$."""
        return self._component_densities(x).sum(axis=1)

    def log_gradient(self, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        r"""The gradient of the logarithm of the density, $\nabla\rho/\rho$."""
        components = self._component_densities(x)
        gradients = (self.means - x[:, None, :]) / self.deviations[:, None] ** 2
        sums = components.sum(axis=1)[:, None]
        return np.einsum("mk,mkd->md", components, gradients) / sums

    def heated(self, variance: float) -> "Mixture":
        """The mixture convolved with an isotropic Gaussian of variance `variance`."""
        wider = np.sqrt(self.deviations**2 + variance)
        return self._replace(deviations=wider)

    def masses(self, edges: Float[np.ndarray, " faces"]) -> Float[np.ndarray, " cells"]:
        """The masses of the cells between `edges`, for a mixture on the line."""
        z = (edges[:, None] - self.means[:, 0]) / self.deviations
        # Above the mean, upper tails are subtracted, since ndtr is close to one there.
        low, high = z[:-1], z[1:]
        cells = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        return cells @ self.shares

    def quantiles(self, n: int) -> Float[np.ndarray, "n 1"]:
        """The `n` quantiles at the levels (i - ½)/n of a mixture on the line."""
        z = lambda x: (x - self.means[:, 0]) / self.deviations
        cdf = lambda x: float(self.shares @ ndtr(z(x)))
        half_width = MAX_DEVIATIONS * np.max(self.deviations)
        ends = np.min(self.means) - half_width, np.max(self.means) + half_width
        levels = (np.arange(n) + 0.5) / n
        quantile = lambda level: brentq(lambda x: cdf(x) - level, *ends, xtol=1e-14)
        return np.array([quantile(level) for level in levels])[:, None]

    def draws(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Draws `n` independent points from the mixture."""
        k = rng.choice(len(self.shares), size=n, p=self.shares)
        noise = rng.standard_normal((n, self.means.shape[1]))
        return self.means[k] + self.deviations[k, None] * noise

    def _component_densities(
        self, x: Float[np.ndarray, "m d"]
    ) -> Float[np.ndarray, "m k"]:
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


def density_with_edges(
    x: Float[np.ndarray, " m"],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    r"""Density $\rho \propto (1-x^2)^4(1+0.6\sin 3x)$ on (-1, 1), and $\rho'/\rho$."""
    wave = 1 + 0.6 * np.sin(3 * x)
    return (1 - x**2) ** 4 * wave, -8 * x / (1 - x**2) + 1.8 * np.cos(3 * x) / wave
