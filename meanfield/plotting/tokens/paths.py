"""The tokens that a picture shows, and their paths as segments."""

from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist

from meanfield.plotting._figure.marks import Key, Shades
from meanfield.plotting._figure.style import on_dark
from meanfield.plotting.reading.data import Cloud, Swarm
from meanfield.plotting.reading.observables import even_frames

from .colours import (
    Colouring,
    Rule,
    by_start,
    colouring,
    refuse_colours,
    single,
    uniform,
)

# Paths beyond this many are a solid block: evenly spaced tokens stand for the rest.
DRAWN = 2000
# The opacity of one path among many, on paper and on dark, where it is sooner lost.
_FAINT, _LIT = 0.18, 0.5
# Areas of dots follow weights between these shares of the mean weight; shares that
# differ by no more than rounding are equal.
_SMALL, _LARGE, _EQUAL = 0.15, 8.0, 1e-6


class Dots(NamedTuple):
    """The tokens that a picture shows: places (time, m, d), areas, colours, a note."""

    x: np.ndarray
    sizes: np.ndarray
    colours: Colouring
    note: str

    @property
    def opacity(self) -> float:
        """The opacity at which their paths still let one another through."""
        least = _LIT if on_dark() else _FAINT
        return float(np.clip(6.0 / np.sqrt(self.x.shape[1]), least, 0.85))

    @property
    def threads(self) -> np.ndarray:
        """The colours of the steps of all paths, (steps m, 4)."""
        shades = self.colours.paths.reshape(-1, 4).copy()
        shades[:, 3] = self.opacity
        return shades

    @property
    def entries(self) -> list[Artist]:
        """What explains the colours in the legend of a movie."""
        colours = self.colours
        if colours.scale is None:
            return [*colours.handles]
        ends = (float(end or 0.0) for end in colours.scale.get_clim())
        low, high = (f"{end:.2g}".replace("-", "−") for end in ends)
        return [Shades(colours.scale, f"{colours.label}: {low} to {high}")]

    @property
    def caption(self) -> str:
        """What the small print of a movie says of them."""
        meaning = "" if self.colours.scale else self.colours.note
        return "; ".join(filter(None, [self.note, meaning]))

    def key(self, handles: list[Artist], view_note: str) -> Key:
        """What explains them in a picture with these entries, whose view has a note."""
        colours = self.colours
        meaning = "" if colours.scale else colours.note
        notes = [self.note, view_note, meaning]
        return Key(handles, colours.scale, colours.label, notes, colours.handles)


def dots(cloud: Cloud, state: Swarm, otherwise: Rule) -> Dots:
    """The tokens that are drawn, coloured by `colouring`; a note if not all are."""
    n = state.weights.size
    indices = even_frames(n, DRAWN)
    colours = colouring(cloud, state, otherwise)
    colours = colours._replace(
        tokens=colours.tokens[indices], paths=colours.paths[:, indices]
    )
    part = "" if indices.size == n else f"{indices.size} of {n} tokens drawn"
    weights = state.weights[indices]
    note = "; ".join(filter(None, [part, _areas_note(weights)]))
    return Dots(state.x[:, indices], _marker_sizes(weights), colours, note)


def moving_dots(cloud: Cloud) -> Dots:
    """The tokens that a movie shows; of a Gaussian its mean.

    Where time has no axis, colours by the start let the eye follow them.
    """
    if isinstance(cloud.state, Swarm):
        otherwise = uniform if cloud.dimension == 1 else by_start
        return dots(cloud, cloud.state, otherwise)
    refuse_colours(cloud)
    mean = cloud.state.mean[:, None, :]
    return Dots(mean, np.array([24.0]), single(cloud.times, 1), "")


def segments(x: np.ndarray) -> np.ndarray:
    """The steps of every path, (time - 1) n of them, each of shape (2, d)."""
    pairs = np.stack([x[:-1], x[1:]], axis=2)
    return pairs.reshape(-1, 2, x.shape[-1])


def _marker_sizes(weights: np.ndarray) -> np.ndarray:
    """Areas, in square points, proportional to weights, small for many tokens."""
    base = np.clip(250 / np.sqrt(weights.size), 4.0, 36.0)
    return base * np.clip(weights * weights.size / weights.sum(), _SMALL, _LARGE)


def _areas_note(weights: np.ndarray) -> str:
    """That areas show weights, where these differ; and how far."""
    shares = weights * weights.size / weights.sum()
    if np.ptp(shares) <= _EQUAL:
        return ""
    if shares.min() >= _SMALL and shares.max() <= _LARGE:
        return "areas: weights"
    return f"areas: weights, from {_SMALL:g} to {_LARGE:g} times their mean"
