r"""Laws on the line by their quantile functions, and $W_2$ between them, exactly.

$W_2^2 = \int_0^1 (F^{-1} - G^{-1})^2 du$. Atoms have quantiles that are constant in
pieces, densities constant in cells have linear ones, Gaussians $\alpha +
\sigma\Phi^{-1}$: a piecewise linear part and a multiple of $\Phi^{-1}$, and so has any
difference of two. Its square is integrated in closed form.
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
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Gaussian,
    Grid,
    Points,
)

from ._scale import power_of_two, root_error

FINE, COARSER = 52, 50  # binary digits of masses, whose sums are then exact
FINER = 8  # parts of a cell, whose masses are interpolated: errors fall by its square


class Quantiles(NamedTuple):
    r"""A law on the line: its quantile function, less $\sigma\Phi^{-1}$.

    Attributes:
        cuts: between the pieces, from 0 to 1.
        starts: the value at the left end of each piece, which is linear.
        ends: the value at its right end.
        deviation: $\sigma$.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import lines
        >>> along = lines(Points.uniform([[0.0, 0.0], [1.0, 5.0]]))
        >>> law = along(np.array([0.0, 1.0]))  # of the second coordinate
        >>> print(law.cuts, law.starts, law.deviation)
        [0.  0.5 1. ] [0. 5.] 0.0
    """

    cuts: Float[np.ndarray, " cuts"]
    starts: Float[np.ndarray, " pieces"]
    ends: Float[np.ndarray, " pieces"]
    deviation: float

    def on(self, cuts: Float[np.ndarray, " faces"]) -> tuple[np.ndarray, np.ndarray]:
        """The linear part at both ends of the pieces of a finer partition."""
        i = np.searchsorted(self.cuts, cuts[:-1], side="right") - 1
        i = np.clip(i, 0, len(self.starts) - 1)
        low, rise = self.cuts[i], (self.ends - self.starts)[i]
        width = self.cuts[i + 1] - low
        left, right = ((u - low) / width for u in (cuts[:-1], cuts[1:]))
        return self.starts[i] + rise * left, self.starts[i] + rise * right


def line_distance(mu: Quantiles, nu: Quantiles) -> tuple[float, float]:
    """$W_2$ on the line, and how far rounding may put it off: see `_squared`."""
    cuts = np.union1d(mu.cuts, nu.cuts)
    pairs = zip(mu.on(cuts), nu.on(cuts), strict=True)
    left, right = (a - b for a, b in pairs)
    s = mu.deviation - nu.deviation
    scale = power_of_two(left, right, np.array(s))
    square, slack = _squared(cuts, left / scale, right / scale, s / scale)
    root = math.sqrt(square)
    return scale * root, scale * root_error(root, slack, slack)


def _squared(
    cuts: np.ndarray, left: np.ndarray, right: np.ndarray, s: float
) -> tuple[float, float]:
    r"""$\int(\ell + s\Phi^{-1})^2du$ of linear pieces $\ell$, and its rounding.

    A sum of squares and exact to rounding but for the part of $s$, whose terms cancel.
    """
    width, middle, rise = np.diff(cuts), (left + right) / 2, right - left
    first, sloped = _normal_moments(cuts)
    flat = np.sum(width * (middle**2 + rise**2 / 12))
    crossed = 2 * s * np.sum(middle * first + rise * sloped) if s else 0.0
    slack = 8 * np.finfo(float).eps * (flat + s**2 + abs(crossed)) if s else 0.0
    return float(max(flat + s**2 + crossed, 0)), float(slack)


def _normal_moments(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""$\int z\,du$ and $\int \frac{u - \bar u}{\Delta} z\,du$, $z = \Phi^{-1}(u)$.

    Over the pieces; $z\,du = -d\varphi(z)$ and $\int u z\,du = [\Phi(\sqrt2 z)/
    (2\sqrt\pi) - u\varphi(z)]$, above the median the same of $u - 1$, which keeps the
    digits of the tail. The second cancels on short pieces, and is bounded by the
    deviations of its factors.
    """
    z, width = ndtri(cuts), np.diff(cuts)
    ends = np.isinf(z)
    phi = np.where(ends, 0, np.exp(-(z**2) / 2)) / np.sqrt(2 * np.pi)
    first = -np.diff(phi)
    middle = (cuts[1:] + cuts[:-1]) / 2
    upper = middle > 0.5
    low, high = (ndtr(sign * np.sqrt(2) * z) / (2 * np.sqrt(np.pi)) for sign in (1, -1))
    below, above = np.diff(low - cuts * phi), np.diff((1 - cuts) * phi - high)
    sloped = (np.where(upper, above, below) - (middle - upper) * first) / width
    second = width - np.diff(np.where(ends, 0, z) * phi)
    variance = np.maximum(second / width - (first / width) ** 2, 0)
    most = width * np.sqrt(variance / 12)
    return first, np.clip(sloped, 0, most)


Line = Callable[[Float[np.ndarray, " d"]], Quantiles]


def lines(mu: AbstractMeasure, digits: int = FINE) -> Line:
    r"""The law of $\theta\cdot x$, $x \sim \mu$, by $\theta$; positions are left out.

    Exact for tokens and Gaussians. Of a density on a line the masses are interpolated
    inside the cells, monotonically; of one in the plane the cells count as atoms.

    Args:
        mu: a measure.
        digits: binary ones of the masses of atoms, at most 52: their sums are exact.

    Raises:
        UnsupportedError: if `mu` is no measure, or is known by nodes alone.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.distances import lines
        >>> along = lines(Gaussian(jnp.zeros(2), jnp.diag(jnp.array([1.0, 2.0]))))
        >>> type(along(np.array([0.0, 1.0]))).__name__
        'Quantiles'
    """
    return _Lines(digits)(mu)


@dataclass(frozen=True)
class _Lines(AbstractReader[Line]):
    """The law of a measure along each direction."""

    digits: int

    @override
    def of_points(self, mu: Points) -> Line:
        x, w = np.asarray(mu.counted.x, float), np.asarray(mu.probabilities, float)
        return lambda ray: _of_atoms(x @ ray, w, self.digits)

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> Line:
        raise nodes_are_no_atoms(mu)

    @override
    def of_grid(self, mu: Grid) -> Line:
        if mu.dimension == 1:
            return lambda ray: _of_cells(mu, float(ray[0]))
        middles, masses = cells(mu)
        return lambda ray: _of_atoms(middles @ ray, masses, self.digits)

    @override
    def of_gaussian(self, mu: Gaussian) -> Line:
        mean, factor = np.asarray(mu.mean, float), np.asarray(mu.factor, float)
        return lambda ray: _normal(float(mean @ ray), factor.T @ ray)


def nodes_are_no_atoms(mu: AbstractMeasure) -> UnsupportedError:
    """The error of a distance that looks at atoms, where there are nodes instead."""
    return UnsupportedError(
        f"A {type(mu).__name__} is known by nodes for its integrals, which lie apart "
        "from its mass; use `nearest`, which bounds the distance by moments."
    )


def cells(mu: Grid) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """The middles of the cells of a grid and their shares of the mass."""
    x = np.asarray(mu.points().tokens.x, float)
    masses = np.asarray(mu.state.masses, float).reshape(-1)
    return x, masses / np.sum(masses)


def _normal(mean: float, factor: Float[np.ndarray, " r"]) -> Quantiles:
    at = np.array([mean])
    return Quantiles(np.array([0.0, 1.0]), at, at, math.hypot(*factor))


def _of_atoms(x: np.ndarray, w: np.ndarray, digits: int) -> Quantiles:
    """Masses in whole numbers: sums of equal ones are equal, in any order."""
    there = np.flatnonzero(w > 0)
    order = there[np.argsort(x[there], kind="stable")]
    masses = np.maximum(np.rint(np.ldexp(w[order], digits)), 1)
    return _pieces(masses, x[order], x[order])


def _of_cells(mu: Grid, scale: float) -> Quantiles:
    masses = np.sum(np.asarray(mu.state.masses, float), axis=0)
    xi = np.asarray(mu.edges[0], float)
    parts = np.arange((len(xi) - 1) * FINER + 1) / FINER
    finer = np.interp(parts, np.arange(len(xi)), xi)
    mounting = np.concatenate([[0.0], np.cumsum(masses)])
    unit = power_of_two(xi)
    inside = np.diff(PchipInterpolator(xi / unit, mounting)(finer / unit))
    state = mu.state
    x = float(state.origin[0]) + float(state.axes[0, 0]) * finer
    if scale * float(state.axes[0, 0]) < 0:
        x, inside = x[::-1], inside[::-1]
    return _pieces(np.maximum(inside, 0), scale * x[:-1], scale * x[1:])


def _pieces(masses: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Quantiles:
    """Pieces of given masses; those too small to move a sum of masses are left out."""
    cuts = np.concatenate([[0.0], np.cumsum(masses) / np.sum(masses)])
    cuts[-1] = 1.0
    kept = np.diff(cuts) > 0
    return Quantiles(np.append(cuts[:-1][kept], 1.0), starts[kept], ends[kept], 0.0)
