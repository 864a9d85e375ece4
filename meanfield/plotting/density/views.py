"""How densities are brought to the page: colours, limits, and frames to show."""

from typing import NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.style import density_map
from meanfield.plotting.reading.density import Density, peaks, quantiles, ratio

# What is shown lies between these quantiles of each coordinate, widened by the margin;
# the whole box is, if it is at most so many times as wide.
_TAILS, _MARGIN, _WHOLE = (1e-4, 1 - 1e-4), 0.15, 2.2
# Peaks that differ by more get a logarithmic scale, which reaches so far down.
_LINEAR, _DECADES = 30.0, 4.0
# Extents that differ by more are not shown on one scale.
_ONE_SCALE = 4.0


class Extent(NamedTuple):
    """Lowest and highest coordinates, (frame, d) each."""

    low: np.ndarray
    high: np.ndarray

    def common(self) -> "Extent":
        """The same for every frame: what holds them all."""
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        shape = self.low.shape
        return Extent(np.broadcast_to(low, shape), np.broadcast_to(high, shape))

    def squared(self) -> "Extent":
        """As wide along each coordinate."""
        half = (self.high - self.low).max(axis=1, keepdims=True) / 2
        centre = (self.high + self.low) / 2
        return Extent(centre - half, centre + half)


def scale(density: np.ndarray, look: Look) -> ScalarMappable:
    """The colours of a density, on the scale that suits it."""
    return ScalarMappable(_norm(density), density_map(look))


def _norm(density: np.ndarray) -> Normalize:
    """A linear scale from zero, or a logarithmic one where peaks span decades."""
    tops = peaks(density)
    if ratio(tops) <= _LINEAR:
        return Normalize(0, float(tops.max()))
    floor = max(tops.min() * 1e-2, tops.max() * 10.0**-_DECADES)
    return LogNorm(float(floor), float(tops.max()))


def bulk(density: Density) -> Extent:
    """What holds nearly all of the mass, or the whole box if that is not much more."""
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
    law = density.of_state()
    tails = []
    for i in range(len(law.times)):
        x = law.places(i, *law.middles).reshape(-1, law.dimension)
        tails.append([_weighted(x[:, k], law.mass[i].ravel(), levels) for k in (0, 1)])
    return np.swapaxes(np.array(tails), 1, 2)


def _weighted(x: np.ndarray, mass: np.ndarray, levels: np.ndarray) -> np.ndarray:
    order = np.argsort(x)
    summed = np.cumsum(mass[order])
    held = np.searchsorted(summed, levels * summed[-1])
    return x[order][np.minimum(held, len(x) - 1)]


def box_corners(density: Density, frame: int) -> np.ndarray:
    """The ends of the box, or its corners in turn: (k, d)."""
    ends = [edges[[0, -1]] for edges in density.edges]
    corners = density.places(frame, *ends)
    if density.dimension == 1:
        return corners
    return corners.reshape(4, 2)[[0, 1, 3, 2]]


def framed(run: Density, apart: str) -> tuple[Density, Extent, list[str]]:
    """A run as maps show it, what is seen of each frame, and notes.

    Args:
        run: whose positions are summed over in the plane.
        apart: the note where the frames are not shown on one scale.
    """
    notes = []
    if run.dimension == 2 and run.position is not None:
        notes.append(f"the law of the state, summed over {run.position.size} positions")
        run = run.of_state()
    view = bulk(run).squared() if run.dimension == 2 else bulk(run)
    if ratio((view.high - view.low).max(axis=1)) <= _ONE_SCALE:
        return run, view.common(), notes
    return run, view, [*notes, apart]


def mass_note(density: Density) -> str:
    """How much of the mass has left, where that is enough to be seen."""
    gone = float(density.outflow[-1])
    total = gone + float(density.mass[-1].sum())
    if gone <= 1e-4 * total:
        return ""
    return f"{100 * gone / total:.2g} % of the mass has left the box"
