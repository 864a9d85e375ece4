"""Colour scales and axis limits of densities."""

from typing import NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.style import density_map
from meanfield.plotting.reading.density import Density, peaks, quantiles, ratio

# The view spans the quantiles `_TAILS` of each coordinate, plus the margin `_MARGIN`.
# It is the whole box if the box is at most `_WHOLE` times as wide as these quantiles.
_TAILS, _MARGIN, _WHOLE = (1e-4, 1 - 1e-4), 0.15, 2.2
# A colour scale is linear if the peaks of all frames differ by a factor of at most
# `_LINEAR`; otherwise it is logarithmic and covers at most `_DECADES` decades.
_LINEAR, _DECADES = 30.0, 4.0
# All frames have the same axis limits if their extents differ by a factor of at most
# `_ONE_SCALE`.
_ONE_SCALE = 4.0


class Extent(NamedTuple):
    """Lower and upper limits of the coordinates, each of shape (frame, d)."""

    low: np.ndarray
    high: np.ndarray

    def common(self) -> "Extent":
        """The smallest extent that contains all frames, repeated for each frame."""
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        shape = self.low.shape
        return Extent(np.broadcast_to(low, shape), np.broadcast_to(high, shape))

    def to_square(self) -> "Extent":
        """The extent enlarged to the same width along each coordinate."""
        half = (self.high - self.low).max(axis=1, keepdims=True) / 2
        centre = (self.high + self.low) / 2
        return Extent(centre - half, centre + half)


def scale(density: np.ndarray, look: Look) -> ScalarMappable:
    """The colour scale of a density, linear or logarithmic."""
    return ScalarMappable(_norm(density), density_map(look))


def _norm(density: np.ndarray) -> Normalize:
    """A linear scale from zero, or a logarithmic one if the peaks differ much."""
    tops = peaks(density)
    if ratio(tops) <= _LINEAR:
        return Normalize(0, float(tops.max()))
    floor = max(tops.min() * 1e-2, tops.max() * 10.0**-_DECADES)
    return LogNorm(float(floor), float(tops.max()))


def bulk(density: Density) -> Extent:
    """The extent of nearly all mass, or of the box if the box is not much larger."""
    corners = [box_corners(density, i) for i in range(len(density.times))]
    outer = np.stack([(c.min(axis=0), c.max(axis=0)) for c in corners])
    low, high = np.swapaxes(_tails(density), 0, 1)
    margin = _MARGIN * (high - low)
    whole = outer[:, 1] - outer[:, 0] <= _WHOLE * (high - low)
    low = np.where(whole, outer[:, 0], np.maximum(low - margin, outer[:, 0]))
    high = np.where(whole, outer[:, 1], np.minimum(high + margin, outer[:, 1]))
    return Extent(low, high)


def _tails(density: Density) -> np.ndarray:
    """The outer quantiles of each coordinate, (time, 2, d)."""
    levels = np.array(_TAILS)
    if density.dimension == 1:
        return quantiles(density, levels)[..., None]
    law = density.state_marginal()
    tails = []
    for i in range(len(law.times)):
        x = law.places(i, *law.middles).reshape(-1, law.dimension)
        weights = {"weights": law.mass[i].ravel(), "method": "inverted_cdf"}
        tails.append([np.quantile(x[:, k], levels, **weights) for k in (0, 1)])
    return np.swapaxes(np.array(tails), 1, 2)


def box_corners(density: Density, frame: int) -> np.ndarray:
    """The ends of the box, or its corners in cyclic order: (k, d)."""
    ends = [edges[[0, -1]] for edges in density.edges]
    corners = density.places(frame, *ends)
    if density.dimension == 1:
        return corners
    return corners.reshape(4, 2)[[0, 1, 3, 2]]


def map_view(run: Density, scale_note: str) -> tuple[Density, Extent, list[str]]:
    """The run to draw, its axis limits in each frame, and notes.

    Args:
        run: the run; in two dimensions, it is summed over the positions of tokens.
        scale_note: the note to use if axis limits differ between frames.
    """
    notes = []
    if run.dimension == 2 and run.position is not None:
        notes.append(f"the law of the state, summed over {run.position.size} positions")
        run = run.state_marginal()
    view = bulk(run).to_square() if run.dimension == 2 else bulk(run)
    if ratio((view.high - view.low).max(axis=1)) <= _ONE_SCALE:
        return run, view.common(), notes
    return run, view, [*notes, scale_note]


def mass_note(density: Density) -> str:
    """A note on the mass that has left the box, if it is at least 0.01 %."""
    outflow = float(density.outflow[-1])
    total = outflow + float(density.mass[-1].sum())
    if outflow <= 1e-4 * total:
        return ""
    return f"{100 * outflow / total:.2g} % of the mass has left the box"
