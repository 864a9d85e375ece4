"""In what tokens of one cluster are near: their places, or their directions from 0."""

import abc
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from meanfield._registry import Registry
from meanfield.clusters import cluster_radii, cluster_share

from .data import Swarm

# By default tokens are linked whose cosine is at least 0.9: an angle of 26 degrees.
COSINE_LINK = 0.1
_FAR = 3.0  # from all unit vectors, of which two are no more than 2 apart


class Linked(NamedTuple):
    """Tokens (time, n, d) as clusters see them, and the radii (time,) of links."""

    x: np.ndarray
    radii: np.ndarray


class AbstractMetric(abc.ABC):
    """What is measured between two tokens, of which a `link` is the most."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """By what tokens are linked, for a curve among others."""

    @abc.abstractmethod
    def default_link(self, first: np.ndarray, weights: np.ndarray) -> float:
        """The link for tokens (n, d) that begin so, if nobody chooses one."""

    @abc.abstractmethod
    def linked(self, state: Swarm, link: float) -> Linked:
        """What to link, by Euclidean distances, and within which radii."""

    @abc.abstractmethod
    def note(self, link: float) -> str:
        """Small print on who is linked."""


class _Euclidean(AbstractMetric):
    @property
    @override
    def name(self) -> str:
        return "by distance"

    @override
    def default_link(self, first: np.ndarray, weights: np.ndarray) -> float:
        return cluster_share(first, weights)

    @override
    def linked(self, state: Swarm, link: float) -> Linked:
        return Linked(state.x, cluster_radii(state.x, state.weights, link))

    @override
    def note(self, link: float) -> str:
        return (
            f"tokens within {100 * link:.2g} % of the RMS radius, of the frame or of "
            "the first if that is larger, are linked"
        )


class _Cosine(AbstractMetric):
    r"""Unit vectors are $\sqrt{2(1-\cos\theta)}$ apart; zeros lie beyond, together."""

    @property
    @override
    def name(self) -> str:
        return "by cosine"

    @override
    def default_link(self, first: np.ndarray, weights: np.ndarray) -> float:
        return COSINE_LINK

    @override
    def linked(self, state: Swarm, link: float) -> Linked:
        # Divided by the largest entry first, whose square would underflow where small.
        largest = np.abs(state.x).max(axis=-1, keepdims=True)
        scaled = state.x / np.where(largest > 0, largest, 1.0)
        lengths = np.linalg.norm(scaled, axis=-1, keepdims=True)
        directions = scaled / np.where(lengths > 0, lengths, 1.0)
        beyond = np.where(largest == 0, _FAR, 0.0)
        seen = np.concatenate([directions, beyond], axis=-1)
        return Linked(seen, np.full(len(state.x), np.sqrt(2 * link)))

    @override
    def note(self, link: float) -> str:
        angle = np.degrees(np.arccos(1 - link))
        return (
            f"tokens whose cosine, seen from 0, is at least {1 - link:.3g} are linked: "
            f"angles up to {angle:.0f}°"
        )


metrics: Registry[AbstractMetric] = Registry("metric of tokens")
metrics.register("euclidean")(_Euclidean())
metrics.register("cosine")(_Cosine())
EUCLIDEAN = "euclidean"
