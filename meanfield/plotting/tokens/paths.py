"""The colours of tokens and of their paths, and the paths as segments."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_rgba_array
from matplotlib.lines import Line2D

from meanfield.plotting._figure.marks import Key
from meanfield.plotting._figure.style import CYCLE, GREY, legible
from meanfield.plotting._runs.components import component_labels
from meanfield.plotting._runs.data import Cloud, Swarm
from meanfield.plotting._runs.observables import (
    cluster_radii,
    cluster_share,
    even_frames,
)

# Paths beyond this many are a solid block: evenly spaced tokens stand for the rest.
DRAWN = 2000
# Final clusters get a colour each if at most six, of at least 2 % of the weight each,
# hold 90 % of it together.
_N_COLOURS, _HEAVY, _HELD = 6, 0.02, 0.9


class Colouring(NamedTuple):
    """Colours (n, 4) of tokens; of their paths, (time - 1, n, 4); what they mean."""

    tokens: np.ndarray
    paths: np.ndarray
    scale: ScalarMappable | None
    label: str
    handles: list[Line2D]

    @property
    def note(self) -> str:
        """What colours mean, for where no scale is drawn."""
        order = "" if self.scale is None else ", from dark to light"
        return f"colours: {self.label}{order}" if self.label else ""


class Dots(NamedTuple):
    """The tokens that a picture shows: places (time, m, d), areas, colours, a note."""

    x: np.ndarray
    sizes: np.ndarray
    colours: Colouring
    note: str

    @property
    def opacity(self) -> float:
        """The opacity at which their paths still let one another through."""
        return float(np.clip(6.0 / np.sqrt(self.x.shape[1]), 0.18, 0.85))

    @property
    def threads(self) -> np.ndarray:
        """The colours of the steps of all paths, (steps m, 4)."""
        shades = self.colours.paths.reshape(-1, 4).copy()
        shades[:, 3] = self.opacity
        return shades

    @property
    def caption(self) -> str:
        """What a picture without a legend says of them."""
        return "; ".join(filter(None, [self.note, self.colours.note]))

    def key(self, handles: list[Artist], view_note: str) -> Key:
        """What explains them in a picture with these entries, whose view has a note."""
        colours = self.colours
        meaning = "" if colours.scale else colours.note
        notes = [self.note, view_note, meaning]
        return Key(handles, colours.scale, colours.label, notes, colours.handles)


Fallback = Callable[[np.ndarray, int], Colouring]


def dots(cloud: Cloud, state: Swarm, otherwise: Fallback) -> Dots:
    """The tokens that are drawn, coloured by `colouring`; a note if not all are."""
    n = state.weights.size
    indices = even_frames(n, DRAWN)
    colours = colouring(cloud, state, otherwise)
    colours = colours._replace(
        tokens=colours.tokens[indices], paths=colours.paths[:, indices]
    )
    note = "" if indices.size == n else f"{indices.size} of {n} tokens drawn"
    sizes = _marker_sizes(state.weights[indices])
    return Dots(state.x[:, indices], sizes, colours, note)


def colouring(cloud: Cloud, state: Swarm, otherwise: Fallback) -> Colouring:
    """Colours by position if tokens have one, else by final cluster, else `otherwise`.

    Final clusters, those of the `clusters` panel, are coloured if two to six of them
    hold nearly all the weight.
    """
    steps = cloud.times.size - 1
    if state.position is not None:
        scale = ScalarMappable(Normalize(0.0, 1.0), legible("viridis"))
        return _constant(scale.to_rgba(state.position), steps, scale, "position $s$")
    labels = _final_clusters(cloud, state)
    masses = np.bincount(labels, weights=state.weights)
    order = np.argsort(-masses, kind="stable")[:_N_COLOURS]
    order = order[masses[order] >= _HEAVY]
    if order.size > 1 and masses[order].sum() >= _HELD:
        return _by_cluster(labels, masses, order, steps)
    return otherwise(cloud.times, state.weights.size)


def _final_clusters(cloud: Cloud, state: Swarm) -> np.ndarray:
    """The clusters of the last frame, in all coordinates, not in those of the page."""
    whole = state if cloud.whole is None else cloud.whole.state
    assert isinstance(whole, Swarm)
    x, weights = whole.x[[0, -1]], whole.weights
    radii = cluster_radii(x, weights, cluster_share(x[0], weights))
    return component_labels(x[-1], radii[-1])


def _constant(
    tokens: np.ndarray, steps: int, scale: ScalarMappable | None, label: str
) -> Colouring:
    """Each path in the colour of its token."""
    paths = np.broadcast_to(tokens, (steps, *tokens.shape))
    return Colouring(tokens, paths, scale, label, [])


def _by_cluster(
    labels: np.ndarray, masses: np.ndarray, order: np.ndarray, steps: int
) -> Colouring:
    palette = np.tile(to_rgba_array(GREY), (masses.size, 1))
    palette[order] = to_rgba_array(CYCLE[: order.size])
    handles = [
        Line2D([], [], color=CYCLE[i], marker="o", linestyle="", label=_share(mass))
        for i, mass in enumerate(masses[order])
    ]
    if masses.size > order.size:
        rest = Line2D([], [], color=GREY, marker="o", linestyle="", label="others")
        handles.append(rest)
    coloured = _constant(palette[labels], steps, None, "final clusters")
    return coloured._replace(handles=handles)


def _share(mass: float) -> str:
    return f"{100 * mass:.3g} % of weight"


def uniform(times: np.ndarray, n: int) -> Colouring:
    """One colour for all tokens, where time has an axis of its own."""
    return _constant(np.tile(to_rgba_array(CYCLE[0]), (n, 1)), times.size - 1, None, "")


def time_scale(times: np.ndarray) -> ScalarMappable:
    """Colours from the first time, dark, to the last, light."""
    return ScalarMappable(Normalize(times[0], times[-1]), legible("viridis"))


def by_time(times: np.ndarray, n: int) -> Colouring:
    """Paths that change colour with time."""
    scale = time_scale(times)
    middle = scale.to_rgba((times[1:] + times[:-1]) / 2).reshape(-1, 1, 4)
    paths = np.broadcast_to(middle, (times.size - 1, n, 4))
    tokens = np.tile(scale.to_rgba(times[-1:]), (n, 1))
    single = times.size == 1
    return Colouring(tokens, paths, None if single else scale, "time $t$", [])


def segments(x: np.ndarray) -> np.ndarray:
    """The steps of every path, (time - 1) n of them, each of shape (2, d)."""
    pairs = np.stack([x[:-1], x[1:]], axis=2)
    return pairs.reshape(-1, 2, x.shape[-1])


def _marker_sizes(weights: np.ndarray) -> np.ndarray:
    """Areas, in square points, proportional to weights, small for many tokens."""
    base = np.clip(250 / np.sqrt(weights.size), 4.0, 36.0)
    return base * np.clip(weights * weights.size / weights.sum(), 0.15, 8.0)
