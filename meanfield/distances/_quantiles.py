r"""Laws on the line as quantile functions, and exact $W_2$ between them.

The squared distance is $W_2^2 = \int_0^1 (F^{-1} - G^{-1})^2 du$. The quantile function
is piecewise constant for atoms, piecewise linear for densities that are constant in
cells, and $\alpha + \sigma\Phi^{-1}$ for Gaussians. So a difference of two quantile
functions is a piecewise linear function plus a multiple of $\Phi^{-1}$. The integral of
its square has a closed form.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, ndtri
from typing_extensions import override

from meanfield.errors import UnsupportedError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points

from ._scale import power_of_two, root_error

FINE, COARSER = 52, 50  # binary digits of masses, chosen so that sums are exact
FINER = 8  # interpolated parts of each cell; the error decreases like FINER**-2


class Quantiles(NamedTuple):
    r"""Quantile function of a law: a piecewise linear part plus $\sigma\Phi^{-1}$.

    Attributes:
        cuts: the ends of the pieces, from 0 to 1.
        starts: value of the piecewise linear part at the left end of each piece.
        ends: value of the piecewise linear part at the right end of each piece.
        deviation: $\sigma$.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import line_marginals
        >>> along = line_marginals(Points.uniform([[0.0, 0.0], [1.0, 5.0]]))
        >>> law = along(np.array([0.0, 1.0]))  # of the second coordinate
        >>> print(law.cuts, law.starts, law.deviation)
        [0.  0.5 1. ] [0. 5.] 0.0
    """

    cuts: Float[np.ndarray, " cuts"]
    starts: Float[np.ndarray, " pieces"]
    ends: Float[np.ndarray, " pieces"]
    deviation: float

    def piece_ends(
        self, cuts: Float[np.ndarray, " faces"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values of the linear part at both ends of each piece of a finer partition."""
        i = np.searchsorted(self.cuts, cuts[:-1], side="right") - 1
        i = np.clip(i, 0, len(self.starts) - 1)
        low, rise = self.cuts[i], (self.ends - self.starts)[i]
        width = self.cuts[i + 1] - low
        left, right = ((u - low) / width for u in (cuts[:-1], cuts[1:]))
        return self.starts[i] + rise * left, self.starts[i] + rise * right


def line_distance(mu: Quantiles, nu: Quantiles) -> tuple[float, float]:
    """$W_2$ between two laws on the line, and its rounding error."""
    cuts = np.union1d(mu.cuts, nu.cuts)
    pairs = zip(mu.piece_ends(cuts), nu.piece_ends(cuts), strict=True)
    left, right = (a - b for a, b in pairs)
    s = mu.deviation - nu.deviation
    scale = power_of_two(left, right, np.array(s))
    square, slack = _squared_distance(cuts, left / scale, right / scale, s / scale)
    root = math.sqrt(square)
    return scale * root, scale * root_error(root, slack, slack)


def _squared_distance(
    cuts: np.ndarray, left: np.ndarray, right: np.ndarray, s: float
) -> tuple[float, float]:
    r"""$\int(\ell + s\Phi^{-1})^2du$ and its error, for a piecewise linear $\ell$.

    If $s = 0$, the integral is a sum of squares, and the error counts as zero.
    Otherwise the terms of the integral can cancel.
    """
    width, middle, rise = np.diff(cuts), (left + right) / 2, right - left
    first, linear = _normal_moments(cuts)
    flat = np.sum(width * (middle**2 + rise**2 / 12))
    cross_term = 2 * s * np.sum(middle * first + rise * linear) if s else 0.0
    slack = 8 * np.finfo(float).eps * (flat + s**2 + abs(cross_term)) if s else 0.0
    return float(max(flat + s**2 + cross_term, 0)), float(slack)


def _normal_moments(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""$\int z\,du$ and $\int \frac{u - \bar u}{\Delta} z\,du$ for $z = \Phi^{-1}(u)$.

    Both integrals are over each piece, which has the centre $\bar u$ and the width
    $\Delta$. They follow from $z\,du = -d\varphi(z)$ and $\int u z\,du =
    [\Phi(\sqrt2 z)/(2\sqrt\pi) - u\varphi(z)]$; above the median, $u - 1$ replaces $u$,
    which keeps the digits of the tail. The second integral suffers from cancellation on
    short pieces, so it is clipped to the product of the deviations of its factors.
    """
    z, width = ndtri(cuts), np.diff(cuts)
    ends = np.isinf(z)
    phi = np.where(ends, 0, np.exp(-(z**2) / 2)) / np.sqrt(2 * np.pi)
    first = -np.diff(phi)
    middle = (cuts[1:] + cuts[:-1]) / 2
    upper = middle > 0.5
    low, high = (ndtr(sign * np.sqrt(2) * z) / (2 * np.sqrt(np.pi)) for sign in (1, -1))
    lower_tail, upper_tail = np.diff(low - cuts * phi), np.diff((1 - cuts) * phi - high)
    linear = (
        np.where(upper, upper_tail, lower_tail) - (middle - upper) * first
    ) / width
    second = width - np.diff(np.where(ends, 0, z) * phi)
    variance = np.maximum(second / width - (first / width) ** 2, 0)
    bound = width * np.sqrt(variance / 12)
    return first, np.clip(linear, 0, bound)


LineMarginals = Callable[[Float[np.ndarray, " d"]], Quantiles]


def line_marginals(mu: AbstractMeasure, digits: int = FINE) -> LineMarginals:
    r"""The law of $\theta\cdot x$ for $x \sim \mu$, as a function of $\theta$.

    Positions are ignored. The law is exact for tokens and Gaussians. For a density on
    the line, masses are interpolated monotonically inside the cells. For a density in
    the plane, each cell becomes an atom.

    Args:
        mu: a measure.
        digits: number of binary digits to which masses of atoms are rounded, at most
            52, so that sums of masses are exact.

    Raises:
        UnsupportedError: if `mu` is not a measure, or is represented by nodes only.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.distances import line_marginals
        >>> mu = Gaussian(jnp.zeros(2), jnp.diag(jnp.array([1.0, 2.0])))
        >>> along = line_marginals(mu)
        >>> type(along(np.array([0.0, 1.0]))).__name__
        'Quantiles'
    """
    return _LineReader(digits)(mu)


@dataclass(frozen=True)
class _LineReader(AbstractReader[LineMarginals]):
    """Reader that returns the law of a measure along each direction."""

    digits: int

    @override
    def read_points(self, mu: Points) -> LineMarginals:
        x, w = np.asarray(mu.safe_tokens.x, float), np.asarray(mu.probabilities, float)
        return lambda ray: _atom_quantiles(x @ ray, w, self.digits)

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> LineMarginals:
        raise missing_atoms_error(mu)

    @override
    def read_grid(self, mu: Grid) -> LineMarginals:
        if mu.dimension == 1:
            return lambda ray: _cell_quantiles(mu, float(ray[0]))
        middles, masses = cells(mu)
        return lambda ray: _atom_quantiles(middles @ ray, masses, self.digits)

    @override
    def read_gaussian(self, mu: Gaussian) -> LineMarginals:
        mean, factor = np.asarray(mu.mean, float), np.asarray(mu.factor, float)
        return lambda ray: _normal(float(mean @ ray), factor.T @ ray)


def missing_atoms_error(mu: AbstractMeasure) -> UnsupportedError:
    """The error raised for a measure that has quadrature nodes instead of atoms."""
    return UnsupportedError(
        f"The quadrature nodes of a {type(mu).__name__} are not atoms of its mass. Use "
        "`best_distance`, which bounds the distance by moments."
    )


def cells(mu: Grid) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """Centres of the cells of a grid, and the share of the mass in each cell."""
    x = np.asarray(mu.points().tokens.x, float)
    masses = np.asarray(mu.state.masses, float).reshape(-1)
    return x, masses / np.sum(masses)


def _normal(mean: float, factor: Float[np.ndarray, " r"]) -> Quantiles:
    location = np.array([mean])
    return Quantiles(np.array([0.0, 1.0]), location, location, math.hypot(*factor))


def _atom_quantiles(x: np.ndarray, w: np.ndarray, digits: int) -> Quantiles:
    """Quantile function of atoms. With integer masses, sums do not depend on order."""
    support = np.flatnonzero(w > 0)
    order = support[np.argsort(x[support], kind="stable")]
    masses = np.maximum(np.rint(np.ldexp(w[order], digits)), 1)
    return _pieces(masses, x[order], x[order])


def _cell_quantiles(mu: Grid, scale: float) -> Quantiles:
    masses = np.sum(np.asarray(mu.state.masses, float), axis=0)
    xi = np.asarray(mu.edges[0], float)
    parts = np.arange((len(xi) - 1) * FINER + 1) / FINER
    finer = np.interp(parts, np.arange(len(xi)), xi)
    mounting = np.concatenate([[0.0], np.cumsum(masses)])
    unit = power_of_two(xi)
    fine_masses = np.diff(PchipInterpolator(xi / unit, mounting)(finer / unit))
    state = mu.state
    x = float(state.origin[0]) + float(state.axes[0, 0]) * finer
    if scale * float(state.axes[0, 0]) < 0:
        x, fine_masses = x[::-1], fine_masses[::-1]
    return _pieces(np.maximum(fine_masses, 0), scale * x[:-1], scale * x[1:])


def _pieces(masses: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Quantiles:
    """Pieces with given masses; masses too small to change their sum are left out."""
    cuts = np.concatenate([[0.0], np.cumsum(masses) / np.sum(masses)])
    cuts[-1] = 1.0
    is_nonempty = np.diff(cuts) > 0
    return Quantiles(
        np.append(cuts[:-1][is_nonempty], 1.0),
        starts[is_nonempty],
        ends[is_nonempty],
        0.0,
    )
