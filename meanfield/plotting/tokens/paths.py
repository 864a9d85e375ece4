"""The tokens that a picture shows, with areas and colours, and their paths."""

from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist

from meanfield.plotting._figure.marks import Key, Shades
from meanfield.plotting._figure.style import is_dark
from meanfield.plotting.reading.data import Cloud, Swarm
from meanfield.plotting.reading.observables import even_frames

from .colours import (
    Colouring,
    Rule,
    check_no_colours,
    colour_by_start,
    colouring,
    single_colour,
    uniform_colour,
)

# At most `MAX_PATHS` tokens, evenly spaced, are drawn; more paths would merge into one
# solid area.
MAX_PATHS = 2000
# Paths of tokens have at least the opacity `_FAINT` on light backgrounds, and `_LIT` on
# dark ones.
_FAINT, _LIT = 0.18, 0.5
# Areas of dots are proportional to weights. Weights below `_SMALL` or above `_LARGE`
# times the mean weight are clipped to these limits. Relative differences below `_EQUAL`
# are rounding errors.
_SMALL, _LARGE, _EQUAL = 0.15, 8.0, 1e-6


class Dots(NamedTuple):
    """The tokens of a picture: places (time, m, d), areas, colours, and a note."""

    x: np.ndarray
    sizes: np.ndarray
    colours: Colouring
    note: str

    @property
    def opacity(self) -> float:
        """The opacity of paths, lower for more tokens."""
        least = _LIT if is_dark() else _FAINT
        return float(np.clip(6.0 / np.sqrt(self.x.shape[1]), least, 0.85))

    @property
    def path_colours(self) -> np.ndarray:
        """The colours of the steps of all paths, (steps * m, 4)."""
        shades = self.colours.paths.reshape(-1, 4).copy()
        shades[:, 3] = self.opacity
        return shades

    @property
    def entries(self) -> list[Artist]:
        """The legend entries of the colours in a movie."""
        colours = self.colours
        if colours.scale is None:
            return [*colours.handles]
        ends = (float(end or 0.0) for end in colours.scale.get_clim())
        low, high = (f"{end:.2g}".replace("-", "−") for end in ends)
        return [Shades(colours.scale, f"{colours.label}: {low} to {high}")]

    @property
    def caption(self) -> str:
        """The note on the tokens and their colours in a movie."""
        return "; ".join(filter(None, [self.note, self.colours.note]))

    def key(self, handles: list[Artist], view_note: str) -> Key:
        """The key of a picture with these legend entries and a note on its view."""
        colours = self.colours
        notes = [self.note, view_note, colours.note]
        return Key(handles, colours.scale, colours.label, notes, colours.handles)


def dots(cloud: Cloud, state: Swarm, otherwise: Rule) -> Dots:
    """The tokens to draw, coloured by `colouring`; a note says if some are left out."""
    n = state.weights.size
    indices = even_frames(n, MAX_PATHS)
    colours = colouring(cloud, state, otherwise)
    colours = colours._replace(
        tokens=colours.tokens[indices], paths=colours.paths[:, indices]
    )
    part = "" if indices.size == n else f"{indices.size} of {n} tokens drawn"
    weights = state.weights[indices]
    note = "; ".join(filter(None, [part, _areas_note(weights)]))
    base = np.clip(250 / np.sqrt(weights.size), 4.0, 36.0)  # smaller for many tokens
    areas = base * np.clip(weights * weights.size / weights.sum(), _SMALL, _LARGE)
    return Dots(state.x[:, indices], areas, colours, note)


def moving_dots(cloud: Cloud) -> Dots:
    """The tokens of a movie; for a Gaussian, its mean.

    In the plane and in space, the default colours show where tokens start, so that the
    eye can follow them.
    """
    if isinstance(cloud.state, Swarm):
        otherwise = uniform_colour if cloud.dimension == 1 else colour_by_start
        return dots(cloud, cloud.state, otherwise)
    check_no_colours(cloud)
    mean = cloud.state.mean[:, None, :]
    return Dots(mean, np.array([24.0]), single_colour(cloud.times, 1), "")


def segments(x: np.ndarray) -> np.ndarray:
    """The steps of all paths as segments, ((time - 1) * n, 2, d)."""
    pairs = np.stack([x[:-1], x[1:]], axis=2)
    return pairs.reshape(-1, 2, x.shape[-1])


def _areas_note(weights: np.ndarray) -> str:
    """A note that areas show weights, within limits; empty if weights are equal."""
    shares = weights * weights.size / weights.sum()
    if np.ptp(shares) <= _EQUAL:
        return ""
    if shares.min() >= _SMALL and shares.max() <= _LARGE:
        return "areas: weights"
    return f"areas: weights, from {_SMALL:g} to {_LARGE:g} times their mean"
