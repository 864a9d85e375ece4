r"""What interpolation of a Gaussian between Chebyshev nodes misses, at most.

Between cells of half-width $h$ the kernel $g(\delta) = e^{-\delta^2/2}$ is interpolated
on either side, by nodes $t_i$ and Lagrange's polynomials $\ell_i$. What one side misses
at a distance $\delta$ is at most

$$E(\delta) = \max_t\Big|g(\delta) - \sum_i \ell_i(t)\,g(\delta + h(t_i - t))\Big|,$$

and both together $E + TE$ with $(Tf)(\delta) = \max_t \sum_i |\ell_i(t)|\,
f(\delta + h(t_i - t))$, since the other side interpolates what this one missed. Far
from the diagonal that is more than any multiple of $g$, but never more than a small one
of a wider Gaussian, $e^{-\delta^2/2\lambda}$: so a sum misses no more than that share
of the same sum with the wider kernel, which is found along with it.
"""

import functools

import numpy as np
from jaxtyping import Float

from ._bound import angles, lagrange

WIDER = 3.0  # times the variance: of the kernel by which errors are measured
WIDEST = 1.25  # half-width of a cell that is looked for, at most
_NARROWEST = 0.02
_STEPS = 256  # half-widths that are tried, in equal ratios
_FAR, _STEP = 16.0, 0.1  # distances at which errors are found: to where, how close
_BETWEEN = 1.1  # times what is found at such places: between them it may be more


@functools.cache
def missed_share(nodes: int, width: float) -> float:
    """How far the interpolated kernel is from its own, over the wider one, at most.

    Args:
        nodes: in a cell, $p$.
        width: half of a cell's, $h$.
    """
    line = _Line(nodes, width)
    one = line.missed()
    return _BETWEEN * line.over_wider(one + line.spread(one))


@functools.cache
def rounding_growth(nodes: int, width: float) -> float:
    """How much larger than the wider kernel terms are that interpolation adds up."""
    line = _Line(nodes, width)
    return _BETWEEN * line.over_wider(line.spread(line.spread(line.kernel)))


@functools.cache
def largest_width(nodes: int, share: float) -> float:
    """The largest half-width with which so many nodes miss no more; 0 if none."""
    ratio = (WIDEST / _NARROWEST) ** (1 / _STEPS)
    low, high = 0, _STEPS + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = missed_share(nodes, _NARROWEST * ratio**middle) <= share
        low, high = (middle, high) if fits else (low, middle)
    return _NARROWEST * ratio**low if low else 0.0


class _Line:
    """Functions of the distance of two points, at places from 0 to `_FAR`."""

    def __init__(self, nodes: int, width: float) -> None:
        t = np.cos(np.linspace(0.0, np.pi, 4 * nodes + 1))
        self.distances = np.arange(0.0, _FAR, _STEP)
        self.kernel = np.exp(-(self.distances**2) / 2)
        self._basis = lagrange(nodes, t)
        self._steps = width * (np.cos(angles(nodes))[:, None] - t[None])

    def missed(self) -> Float[np.ndarray, " places"]:
        moved = self.distances[:, None, None] + self._steps[None]
        found = np.einsum("it,dit->dt", self._basis, np.exp(-(moved**2) / 2))
        return np.abs(self.kernel[:, None] - found).max(axis=1)

    def spread(self, f: Float[np.ndarray, " places"]) -> Float[np.ndarray, " places"]:
        moved = np.abs(self.distances[:, None, None] + self._steps[None])
        values = np.interp(moved, self.distances, f)
        return np.einsum("it,dit->dt", np.abs(self._basis), values).max(axis=1)

    def over_wider(self, f: Float[np.ndarray, " places"]) -> float:
        return float((f * np.exp(self.distances**2 / (2 * WIDER))).max())
