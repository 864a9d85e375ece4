r"""A bound on the error of interpolating a Gaussian between Chebyshev nodes.

Between cells of half-width $h$ the kernel $g(\delta) = e^{-\delta^2/2}$ is interpolated
on both sides, by nodes $t_i$ and Lagrange polynomials $\ell_i$. The error of one side
at a distance $\delta$ is at most

$$E(\delta) = \max_t\Big|g(\delta) - \sum_i \ell_i(t)\,g(\delta + h(t_i - t))\Big|,$$

and the error of both is at most $E + TE$ with $(Tf)(\delta) = \max_t \sum_i
|\ell_i(t)|\, f(\delta + h(t_i - t))$, as the other side interpolates the error of the
first. Far from the diagonal no multiple of $g$ bounds this error, but a small multiple
of a wider Gaussian $e^{-\delta^2/2\lambda}$ does. So the error of a sum is at most the
same multiple of the sum with the wider kernel, which is computed along with it.
"""

import functools

import numpy as np
from jaxtyping import Float

from ._bound import angles, lagrange

WIDE_VARIANCE = 3.0  # variance of the wider kernel; the variance of the kernel is 1
WIDEST = 1.25  # largest half-width of a cell
_NARROWEST = 0.02
_STEPS = 256  # number of half-widths in the search, in geometric progression
_FAR, _STEP = 16.0, 0.1  # largest tabulated distance, and spacing of the distances
_SAFETY = 1.1  # safety factor for errors between the tabulated distances


@functools.cache
def error_share(nodes: int, width: float) -> float:
    """Bound on the error of the interpolated kernel, relative to the wider kernel.

    Args:
        nodes: number of nodes in a cell.
        width: half-width $h$ of a cell.
    """
    line = _Line(nodes, width)
    side_error = line.errors()
    return _SAFETY * line.ratio_to_wider(side_error + line.spread(side_error))


@functools.cache
def rounding_growth(nodes: int, width: float) -> float:
    """Bound on the terms of the interpolation, relative to the wider kernel."""
    line = _Line(nodes, width)
    return _SAFETY * line.ratio_to_wider(line.spread(line.spread(line.kernel)))


@functools.cache
def largest_width(nodes: int, share: float) -> float:
    """The largest half-width for which `error_share` is at most `share`; 0 if none."""
    ratio = (WIDEST / _NARROWEST) ** (1 / _STEPS)
    low, high = 0, _STEPS + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = error_share(nodes, _NARROWEST * ratio**middle) <= share
        low, high = (middle, high) if fits else (low, middle)
    return _NARROWEST * ratio**low if low else 0.0


class _Line:
    """Functions of the distance between two points, tabulated from 0 to `_FAR`."""

    def __init__(self, nodes: int, width: float) -> None:
        t = np.cos(np.linspace(0.0, np.pi, 4 * nodes + 1))
        self.distances = np.arange(0.0, _FAR, _STEP)
        self.kernel = np.exp(-(self.distances**2) / 2)
        self._basis = lagrange(nodes, t)
        self._steps = width * (np.cos(angles(nodes))[:, None] - t[None])

    def errors(self) -> Float[np.ndarray, " places"]:
        places = self.distances[:, None, None] + self._steps[None]
        interpolant = np.einsum("it,dit->dt", self._basis, np.exp(-(places**2) / 2))
        return np.abs(self.kernel[:, None] - interpolant).max(axis=1)

    def spread(self, f: Float[np.ndarray, " places"]) -> Float[np.ndarray, " places"]:
        places = np.abs(self.distances[:, None, None] + self._steps[None])
        values = np.interp(places, self.distances, f)
        return np.einsum("it,dit->dt", np.abs(self._basis), values).max(axis=1)

    def ratio_to_wider(self, f: Float[np.ndarray, " places"]) -> float:
        return float((f * np.exp(self.distances**2 / (2 * WIDE_VARIANCE))).max())
