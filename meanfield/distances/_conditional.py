r"""The distance of masked attention: positions are kept."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield.errors import InvalidInputError
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Gaussian,
    Grid,
    Points,
)

from ._distance import Distance, nearest
from ._scale import root_mean_square

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

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import conditional, wasserstein
        >>> mu = Points.uniform([[0.0], [1.0]], position=[0.0, 1.0])
        >>> nu = Points.uniform([[1.0], [0.0]], position=[0.0, 1.0])  # exchanged
        >>> print(wasserstein(mu, nu).value, conditional(mu, nu).value)
        0.0 1.0
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
    value = root_mean_square(np.array([e.value for e in each]), weights)
    error = root_mean_square(np.array([e.error for e in each]), weights)
    how = ", ".join(dict.fromkeys(e.how for e in each))
    return Distance(value, error, f"conditional, {how}")


def _places(mu: AbstractMeasure) -> np.ndarray:
    return np.unique(_Positions()(mu))


def _slices(mu: AbstractMeasure, places: np.ndarray) -> list[Slice]:
    """The parts of a measure nearest to each place."""
    return _Slices((places[1:] + places[:-1]) / 2)(mu)


class _Positions(AbstractReader[np.ndarray]):
    """The positions of a measure, of each token or of each layer."""

    @override
    def of_points(self, mu: Points) -> np.ndarray:
        return self._known(mu, mu.tokens.position)

    @override
    def of_grid(self, mu: Grid) -> np.ndarray:
        return self._known(mu, mu.position)

    @override
    def of_gaussian(self, mu: Gaussian) -> np.ndarray:
        return self._known(mu, None)

    def _known(self, mu: AbstractMeasure, position: Array | None) -> np.ndarray:
        if position is None:
            raise InvalidInputError(
                f"A {type(mu).__name__} without positions has no conditional distance; "
                "use `wasserstein`, or `sliced`."
            )
        return np.asarray(position, float)


@dataclass(frozen=True)
class _Slices(AbstractReader[list[Slice]]):
    """The parts of a measure between some places."""

    middles: np.ndarray

    @override
    def of_points(self, mu: Points) -> list[Slice]:
        return [_tokens(mu, chosen) for chosen in self._parts(mu)]

    @override
    def of_grid(self, mu: Grid) -> list[Slice]:
        return [_layers(mu, chosen) for chosen in self._parts(mu)]

    @override
    def of_gaussian(self, mu: Gaussian) -> list[Slice]:
        return [Slice(1.0, mu) for _ in self._parts(mu)]

    def _parts(self, mu: AbstractMeasure) -> list[np.ndarray]:
        """Which tokens, or layers, belong to each place."""
        belongs = np.searchsorted(self.middles, _Positions()(mu))
        return [belongs == i for i in range(len(self.middles) + 1)]


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
