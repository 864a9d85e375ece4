r"""How fine a mesh, and how many tokens, a bandwidth asks for."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from experiments.heat_limit.routes import ONE, middles
from experiments.limits.densities import TWO_PEAKS
from experiments.limits.dynamics import velocities, velocities_of_each
from experiments.limits.fits import Estimate, Powers, crossing, least_squares, powers
from meanfield.measures import Points

FAR = 8.0  # half of a box at whose ends no velocity counts
FINE = 640  # tokens on a mesh that stands for the density: h = 0.025
WASTED = 1e-2  # an error of the velocity, over the velocity, that asks for a finer mesh
STEPS = np.geomspace(0.5, 5, 26)  # cells in units of √ε


class Meshes(NamedTuple):
    r"""Errors of velocities by bandwidth and mesh, in $L^2(\mu)$ and over the velocity.

    Attributes:
        epsilons: bandwidths.
        widths: of the cells, by bandwidth.
        errors: by bandwidth and width, against a mesh fine enough.
        coarsest: the width at which the error is `WASTED`, by bandwidth.
        law: the power of the bandwidth that these follow.
    """

    epsilons: Float[np.ndarray, " k"]
    widths: Float[np.ndarray, "k widths"]
    errors: Float[np.ndarray, "k widths"]
    coarsest: Float[np.ndarray, " k"]
    law: Powers


def by_mesh(epsilons: Float[np.ndarray, " k"]) -> Meshes:
    """Two peaks as weighted tokens at the middles of ever wider cells."""
    widths = np.sqrt(epsilons)[:, None] * STEPS
    n = int(2 * FAR / np.min(widths)) + 1
    x = widths[..., None] * (np.arange(n) - n // 2 + 1 / 3)  # not symmetric
    w = TWO_PEAKS.density(x.reshape(-1, 1)).reshape(x.shape)
    w /= np.sum(w, axis=-1, keepdims=True)
    bandwidths = np.repeat(epsilons, len(STEPS))
    cases = x.reshape(-1, n, 1), w.reshape(-1, n), bandwidths
    values = velocities_of_each(ONE, *cases).values.reshape(x.shape)
    exact = np.stack([v(y) for v, y in zip(splines(epsilons), x, strict=True)])
    errors = _relative(values, exact, w)
    rows = zip(widths, errors, strict=True)
    coarsest = np.array([crossing(*row, WASTED) for row in rows])
    return Meshes(epsilons, widths, errors, coarsest, powers(coarsest, epsilons))


class Clouds(NamedTuple):
    r"""Rates of n tokens, by bandwidth and number.

    Attributes:
        epsilons: bandwidths.
        numbers: of tokens.
        density: $c$ of the density itself, by bandwidth.
        quantiles: $c$ of tokens at quantiles, by bandwidth and number.
        draws: mean $c$ of independent draws, likewise.
        standard_errors: of these means.
        errors: of velocities of all draws in $L^2$, over those of the density.
    """

    epsilons: Float[np.ndarray, " k"]
    numbers: Float[np.ndarray, " m"]
    density: Float[np.ndarray, " k"]
    quantiles: Float[np.ndarray, "k m"]
    draws: Float[np.ndarray, "k m"]
    standard_errors: Float[np.ndarray, "k m"]
    errors: Float[np.ndarray, "k m"]

    def law(self, lost: Float[np.ndarray, "k m"]) -> Powers:
        """The powers of number and bandwidth that something follows."""
        n, e = np.meshgrid(self.numbers, self.epsilons)
        return powers(lost.ravel(), n.ravel(), e.ravel())

    @property
    def limit(self) -> Estimate:
        r"""$c$ of the draws where $n \to \infty$ and $\epsilon \to 0$.

        By $c + a\epsilon + bu + b'u^2$, $u = 1/n\sqrt\epsilon$: a token sees itself,
        with a weight of that size.
        """
        n, e = np.meshgrid(self.numbers, self.epsilons)
        u = 1 / (n * np.sqrt(e))
        columns = np.stack([np.ones_like(u), e, u, u**2], axis=-1).reshape(-1, 4)
        data = self.draws.ravel(), self.standard_errors.ravel()
        values, errors = least_squares(columns, *data)
        return Estimate(float(values[0]), float(errors[0]))


def by_number(
    epsilons: Float[np.ndarray, " k"],
    numbers: Float[np.ndarray, " m"],
    draws: Float[np.ndarray, " m"],
    seed: int,
) -> Clouds:
    """Two peaks as tokens of equal weight: quantiles, and so many draws by number."""
    rng, exact = np.random.default_rng(seed), splines(epsilons)
    pairs = zip(numbers, draws, strict=True)
    columns = [_of_number(epsilons, int(n), int(k), rng, exact) for n, k in pairs]
    quantiles, means, spreads, errors = (
        np.stack(part, axis=1) for part in zip(*columns, strict=True)
    )
    y = middles(FAR, FINE)
    w = TWO_PEAKS.density(y[:, None])
    w /= np.sum(w)
    density = np.array([w @ ((y - w @ y) * v(y)) for v in exact])
    return Clouds(epsilons, numbers, density, quantiles, means, spreads, errors)


def splines(epsilons: Float[np.ndarray, " k"]) -> list[CubicSpline]:
    """Velocities of the density, by bandwidth."""
    x = middles(FAR, FINE)[:, None]
    mu = Points.weighted(x, TWO_PEAKS.density(x))
    values = velocities(ONE, mu, epsilons, x).values[..., 0]
    return [CubicSpline(x[:, 0], v) for v in values]


def _of_number(
    epsilons: np.ndarray,
    n: int,
    draws: int,
    rng: np.random.Generator,
    exact: list[CubicSpline],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of quantiles c; of draws its mean, standard error, and the velocities' error."""
    k, first = len(epsilons), TWO_PEAKS.quantiles(n)
    rows = [[first, *(TWO_PEAKS.draws(n, rng) for _ in range(draws))] for _ in exact]
    x = np.concatenate([np.stack(row) for row in rows])
    w, bandwidths = np.full(x.shape[:2], 1 / n), np.repeat(epsilons, draws + 1)
    v = velocities_of_each(ONE, x, w, bandwidths).values.reshape(k, draws + 1, n)
    x = x.reshape(v.shape)
    c = np.mean((x - np.mean(x, axis=-1, keepdims=True)) * v, axis=-1)
    limits = np.stack([of(y) for of, y in zip(exact, x, strict=True)])
    flat = (part[:, 1:].reshape(k, -1) for part in (v, limits, np.ones_like(v)))
    error = np.std(c[:, 1:], axis=1, ddof=1) / np.sqrt(draws)
    return c[:, 0], np.mean(c[:, 1:], axis=1), error, _relative(*flat)


def _relative(values: np.ndarray, exact: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The root mean square of what they differ by, over that of the second."""
    square = np.sum(w * (values - exact) ** 2, axis=-1)
    return np.sqrt(square / np.sum(w * exact**2, axis=-1))
