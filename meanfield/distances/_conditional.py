r"""Wasserstein distance over plans that move no mass between positions."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points

from ._distance import Distance, best_distance
from ._scale import root_mean_square

MAX_LAW_GAP = 0.05  # laws of positions may differ by at most this share of the mass


class Slice(NamedTuple):
    """The part of a measure at one position: its share of the mass, and its law."""

    mass: float
    measure: AbstractMeasure


def conditional_wasserstein(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    r"""The distance $(\int W_2^2(\mu(\cdot|s), \nu(\cdot|s))\,d\theta(s))^{1/2}$.

    Both measures must have the same law $\theta$ of positions $s$. If one measure has
    fewer positions, such as the layers of a grid, tokens of the other measure are
    assigned to the nearest of these positions. Source: castin2025, Definition 3.2.

    Raises:
        InvalidInputError: if a measure has no positions, or the laws of positions
            differ by more than 5 % of the mass.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import conditional_wasserstein, wasserstein
        >>> mu = Points.uniform([[0.0], [1.0]], position=[0.0, 1.0])
        >>> nu = Points.uniform([[1.0], [0.0]], position=[0.0, 1.0])  # exchanged
        >>> print(wasserstein(mu, nu).value, conditional_wasserstein(mu, nu).value)
        0.0 1.0
    """
    places = min(_places(mu), _places(nu), key=len)
    first, second = _slices(mu, places), _slices(nu, places)
    pairs = list(zip(first, second, strict=True))
    gap = sum(abs(a.mass - b.mass) for a, b in pairs) / 2
    if gap > MAX_LAW_GAP:
        raise InvalidInputError(
            "The two measures must have the same law of positions; got laws that "
            f"differ by {100 * gap:.3g} % of the mass."
        )
    common_pairs = [(a, b) for a, b in pairs if min(a.mass, b.mass) > 0]
    distances = [best_distance(a.measure, b.measure) for a, b in common_pairs]
    weights = np.array([(a.mass + b.mass) / 2 for a, b in common_pairs])
    weights = weights / np.sum(weights)
    value = root_mean_square(np.array([e.value for e in distances]), weights)
    error = root_mean_square(np.array([e.error for e in distances]), weights)
    method = ", ".join(dict.fromkeys(e.method for e in distances))
    return Distance(value, error, f"conditional, {method}")


def _places(mu: AbstractMeasure) -> np.ndarray:
    return np.unique(_Positions()(mu))


def _slices(mu: AbstractMeasure, places: np.ndarray) -> list[Slice]:
    """Parts of a measure, each with the mass that is nearest to one position."""
    return _Slices((places[1:] + places[:-1]) / 2)(mu)


class _Positions(AbstractReader[np.ndarray]):
    """Reader that returns the positions of all tokens, or of all layers of a grid."""

    @override
    def read_points(self, mu: Points) -> np.ndarray:
        return self._require_positions(mu, mu.tokens.position)

    @override
    def read_grid(self, mu: Grid) -> np.ndarray:
        return self._require_positions(mu, mu.position)

    @override
    def read_gaussian(self, mu: Gaussian) -> np.ndarray:
        return self._require_positions(mu, None)

    def _require_positions(
        self, mu: AbstractMeasure, position: Array | None
    ) -> np.ndarray:
        if position is None:
            raise InvalidInputError(
                "The conditional distance needs positions; got a "
                f"{type(mu).__name__} without any. Use `wasserstein`, or "
                "`sliced_wasserstein`."
            )
        return np.asarray(position, float)


@dataclass(frozen=True)
class _Slices(AbstractReader[list[Slice]]):
    """Reader that divides a measure by position, at the midpoints in `middles`."""

    middles: np.ndarray

    @override
    def read_points(self, mu: Points) -> list[Slice]:
        return [_tokens(mu, selection) for selection in self._parts(mu)]

    @override
    def read_grid(self, mu: Grid) -> list[Slice]:
        return [_layers(mu, selection) for selection in self._parts(mu)]

    @override
    def read_gaussian(self, mu: Gaussian) -> list[Slice]:
        return [Slice(1.0, mu) for _ in self._parts(mu)]

    def _parts(self, mu: AbstractMeasure) -> list[np.ndarray]:
        """For each part, a mask of the tokens or layers that belong to it."""
        belongs = np.searchsorted(self.middles, _Positions()(mu))
        return [belongs == i for i in range(len(self.middles) + 1)]


def _tokens(mu: Points, selection: np.ndarray) -> Slice:
    w = np.asarray(mu.probabilities, float)[selection]
    if np.sum(w) == 0:
        return Slice(0.0, mu)
    x = np.asarray(mu.safe_tokens.x)[selection]
    return Slice(float(np.sum(w)), Points.weighted(x, w.astype(x.dtype)))


def _layers(mu: Grid, selection: np.ndarray) -> Slice:
    masses = np.sum(np.asarray(mu.state.masses)[selection], axis=0, keepdims=True)
    share = float(np.sum(masses) / np.sum(np.asarray(mu.state.masses)))
    state = mu.state._replace(masses=jnp.asarray(masses))
    return Slice(share, Grid(state, mu.edges, None, mu.box, mu.probe))
