r"""The distance of masked attention: positions are kept."""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, Grid, Points

from ._distance import Distance, nearest

APART = 0.05  # of the mass, by which the laws of the position may differ


class Slice(NamedTuple):
    """A measure at one place: its share of the mass, and itself."""

    mass: float
    measure: AbstractMeasure


def conditional(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    r"""$(\int W_2^2(\mu(\cdot|s), \nu(\cdot|s))\,d\theta(s))^{1/2}$.

    castin2025, Definition 3.2, for measures that share the law $\theta$ of their
    positions. Where one knows fewer positions than the other, as a grid of layers, the
    tokens of the other count at the nearest of them.

    Raises:
        InvalidInputError: if a measure has no positions, or their laws differ by more
            than 5 % of the mass.
    """
    places = min(_places(mu), _places(nu), key=len)
    first, second = _slices(mu, places), _slices(nu, places)
    pairs = list(zip(first, second, strict=True))
    gap = sum(abs(a.mass - b.mass) for a, b in pairs) / 2
    if gap > APART:
        raise InvalidInputError(
            "The two measures must have one law of positions; theirs differ by "
            f"{100 * gap:.3g} % of the mass."
        )
    shared = [(a, b) for a, b in pairs if min(a.mass, b.mass) > 0]
    each = [nearest(a.measure, b.measure) for a, b in shared]
    weights = np.array([(a.mass + b.mass) / 2 for a, b in shared])
    weights = weights / np.sum(weights)
    value = math.sqrt(float(weights @ np.array([e.value**2 for e in each])))
    error = math.sqrt(float(weights @ np.array([e.error**2 for e in each])))
    return Distance(value, error, f"conditional, {each[0].how}")


def _places(mu: AbstractMeasure) -> np.ndarray:
    position = mu.tokens.position if isinstance(mu, Points) else None
    position = mu.position if isinstance(mu, Grid) else position
    if position is None:
        raise InvalidInputError(
            f"A {type(mu).__name__} without positions has no conditional distance."
        )
    return np.unique(np.asarray(position, float))


def _slices(mu: AbstractMeasure, places: np.ndarray) -> list[Slice]:
    """The parts of a measure nearest to each place."""
    middles = (places[1:] + places[:-1]) / 2
    if isinstance(mu, Grid):
        belongs = np.searchsorted(middles, np.asarray(mu.position, float))
        return [_layers(mu, belongs == i) for i in range(len(places))]
    assert isinstance(mu, Points)
    belongs = np.searchsorted(middles, np.asarray(mu.tokens.position, float))
    return [_tokens(mu, belongs == i) for i in range(len(places))]


def _tokens(mu: Points, chosen: np.ndarray) -> Slice:
    w = np.asarray(mu.probabilities, float)[chosen]
    if np.sum(w) == 0:
        return Slice(0.0, mu)
    x = np.asarray(mu.counted.x)[chosen]
    return Slice(float(np.sum(w)), Points.weighted(x, w.astype(x.dtype)))


def _layers(mu: Grid, chosen: np.ndarray) -> Slice:
    masses = np.sum(np.asarray(mu.state.masses)[chosen], axis=0, keepdims=True)
    share = float(np.sum(masses) / np.sum(np.asarray(mu.state.masses)))
    state = mu.state._replace(masses=jnp.asarray(masses))
    return Slice(share, Grid(state, mu.edges, None, mu.box, mu.probe))
