r"""Mesh width and number of tokens that Sinkhorn attention requires, by bandwidth."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from experiments.heat_limit.constants import UNIT_HEAT, cell_centres
from experiments.limits.densities import TWO_PEAKS
from experiments.limits.dynamics import batched_velocities, velocities
from experiments.limits.fits import (
    Estimate,
    PowerLaw,
    crossing_point,
    fit_powers,
    least_squares,
)
from meanfield.measures import Points

HALF_WIDTH = 8.0  # half-width of a box at whose ends the density is negligible
REFERENCE_CELLS = 640  # number of cells of the reference mesh, of width 0.025
TOLERANCE = 1e-2  # largest relative error of velocities on an acceptable mesh
WIDTHS = np.geomspace(0.5, 5, 26)  # cell widths in units of √ε


class MeshErrors(NamedTuple):
    r"""Relative errors of velocities in $L^2(\mu)$, by bandwidth and mesh.

    Attributes:
        epsilons: bandwidths.
        widths: cell widths at each bandwidth.
        errors: errors by bandwidth and cell width, against the reference mesh.
        coarsest: cell width at which the error is `TOLERANCE`, at each bandwidth.
        law: power law that relates these widths to the bandwidth.
    """

    epsilons: Float[np.ndarray, " k"]
    widths: Float[np.ndarray, "k widths"]
    errors: Float[np.ndarray, "k widths"]
    coarsest: Float[np.ndarray, " k"]
    law: PowerLaw


def measure_meshes(epsilons: Float[np.ndarray, " k"]) -> MeshErrors:
    """Errors of velocities for a two-peaked density represented by weighted points."""
    widths = np.sqrt(epsilons)[:, None] * WIDTHS
    n = int(2 * HALF_WIDTH / np.min(widths)) + 1
    x = widths[..., None] * (np.arange(n) - n // 2 + 1 / 3)  # not symmetric around 0
    w = TWO_PEAKS.density(x.reshape(-1, 1)).reshape(x.shape)
    w /= np.sum(w, axis=-1, keepdims=True)
    bandwidths = np.repeat(epsilons, len(WIDTHS))
    cases = x.reshape(-1, n, 1), w.reshape(-1, n), bandwidths
    values = batched_velocities(UNIT_HEAT, *cases).values.reshape(x.shape)
    splines = reference_velocities(epsilons)
    exact = np.stack([v(y) for v, y in zip(splines, x, strict=True)])
    errors = _relative_errors(values, exact, w)
    rows = zip(widths, errors, strict=True)
    coarsest = np.array([crossing_point(*row, TOLERANCE) for row in rows])
    law = fit_powers(coarsest, epsilons)
    return MeshErrors(epsilons, widths, errors, coarsest, law)


class CloudConstants(NamedTuple):
    r"""The constant $c$ of clouds of tokens, by bandwidth and number of tokens.

    Attributes:
        epsilons: bandwidths.
        numbers: numbers of tokens.
        density: $c$ of the density itself, by bandwidth.
        quantiles: $c$ of tokens at quantiles, by bandwidth and number.
        draws: mean $c$ of independent tokens, by bandwidth and number.
        standard_errors: standard errors of these means.
        errors: errors in $L^2$ of the velocities of independent tokens, relative to
            the velocities of the density.
    """

    epsilons: Float[np.ndarray, " k"]
    numbers: Float[np.ndarray, " m"]
    density: Float[np.ndarray, " k"]
    quantiles: Float[np.ndarray, "k m"]
    draws: Float[np.ndarray, "k m"]
    standard_errors: Float[np.ndarray, "k m"]
    errors: Float[np.ndarray, "k m"]

    def law(self, values: Float[np.ndarray, "k m"]) -> PowerLaw:
        """Power law in the number of tokens and the bandwidth, fitted to `values`."""
        n, e = np.meshgrid(self.numbers, self.epsilons)
        return fit_powers(values.ravel(), n.ravel(), e.ravel())

    @property
    def limit(self) -> Estimate:
        r"""$c$ of independent tokens in the limit $n \to \infty$, $\epsilon \to 0$.

        It is the constant term in a fit of $c + a\epsilon + bu + b'u^2$. Here $u =
        1/n\sqrt\epsilon$ is the order of the weight with which tokens attend to
        themselves.
        """
        n, e = np.meshgrid(self.numbers, self.epsilons)
        u = 1 / (n * np.sqrt(e))
        columns = np.stack([np.ones_like(u), e, u, u**2], axis=-1).reshape(-1, 4)
        data = self.draws.ravel(), self.standard_errors.ravel()
        values, errors = least_squares(columns, *data)
        return Estimate(float(values[0]), float(errors[0]))


def measure_clouds(
    epsilons: Float[np.ndarray, " k"],
    numbers: Float[np.ndarray, " m"],
    draws: Float[np.ndarray, " m"],
    seed: int,
) -> CloudConstants:
    """Constants for a two-peaked density represented by tokens of equal weight.

    Args:
        epsilons: bandwidths.
        numbers: numbers of tokens.
        draws: number of independent clouds for each number of tokens.
        seed: seed of the draws.
    """
    rng, exact = np.random.default_rng(seed), reference_velocities(epsilons)
    pairs = zip(numbers, draws, strict=True)
    columns = [_measure_number(epsilons, int(n), int(k), rng, exact) for n, k in pairs]
    quantiles, means, standard_errors, errors = (
        np.stack(part, axis=1) for part in zip(*columns, strict=True)
    )
    y = cell_centres(HALF_WIDTH, REFERENCE_CELLS)
    w = TWO_PEAKS.density(y[:, None])
    w /= np.sum(w)
    density = np.array([w @ ((y - w @ y) * v(y)) for v in exact])
    return CloudConstants(
        epsilons, numbers, density, quantiles, means, standard_errors, errors
    )


def reference_velocities(epsilons: Float[np.ndarray, " k"]) -> list[CubicSpline]:
    """Velocities of a two-peaked density, as a spline for each bandwidth."""
    x = cell_centres(HALF_WIDTH, REFERENCE_CELLS)[:, None]
    mu = Points.weighted(x, TWO_PEAKS.density(x))
    values = velocities(UNIT_HEAT, mu, epsilons, x).values[..., 0]
    return [CubicSpline(x[:, 0], v) for v in values]


def _measure_number(
    epsilons: np.ndarray,
    n: int,
    draws: int,
    rng: np.random.Generator,
    exact: list[CubicSpline],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Constants of clouds of `n` tokens at each bandwidth.

    Returns:
        $c$ of quantiles, mean $c$ of random tokens, its standard error, and the
        relative error of the velocities of random tokens.
    """
    k, first = len(epsilons), TWO_PEAKS.quantiles(n)
    rows = [[first, *(TWO_PEAKS.draws(n, rng) for _ in range(draws))] for _ in exact]
    x = np.concatenate([np.stack(row) for row in rows])
    w, bandwidths = np.full(x.shape[:2], 1 / n), np.repeat(epsilons, draws + 1)
    v = batched_velocities(UNIT_HEAT, x, w, bandwidths).values
    v = v.reshape(k, draws + 1, n)
    x = x.reshape(v.shape)
    c = np.mean((x - np.mean(x, axis=-1, keepdims=True)) * v, axis=-1)
    limits = np.stack([spline(y) for spline, y in zip(exact, x, strict=True)])
    flat = (part[:, 1:].reshape(k, -1) for part in (v, limits, np.ones_like(v)))
    error = np.std(c[:, 1:], axis=1, ddof=1) / np.sqrt(draws)
    return c[:, 0], np.mean(c[:, 1:], axis=1), error, _relative_errors(*flat)


def _relative_errors(
    values: np.ndarray, exact: np.ndarray, w: np.ndarray
) -> np.ndarray:
    """Root mean square of the errors, divided by the root mean square of the values."""
    square = np.sum(w * (values - exact) ** 2, axis=-1)
    return np.sqrt(square / np.sum(w * exact**2, axis=-1))
