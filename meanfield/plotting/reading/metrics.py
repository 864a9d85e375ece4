"""Metrics that define clusters of tokens: Euclidean distance, or cosine seen from 0."""

import abc
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from meanfield._registry import Registry
from meanfield.clusters import (
    COSINE_LINK,
    SPHERE_LINK,
    cluster_radii,
    cluster_share,
    embed_directions,
)

from .data import Swarm


class Embedding(NamedTuple):
    """Embedded tokens (time, n, d), and the Euclidean linking radii (time,)."""

    x: np.ndarray
    radii: np.ndarray


class AbstractMetric(abc.ABC):
    """A metric of tokens; two tokens are linked if they are at most `link` apart."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the metric in legends, such as `by distance`."""

    @abc.abstractmethod
    def default_link(self, first: np.ndarray, weights: np.ndarray) -> float:
        """The default link, from the tokens (n, d) of the first frame."""

    @abc.abstractmethod
    def embed(self, state: Swarm, link: float) -> Embedding:
        """Embed tokens so that the metric becomes a Euclidean distance."""

    @abc.abstractmethod
    def note(self, link: float) -> str:
        """A note on which tokens are linked."""


class _Euclidean(AbstractMetric):
    @property
    @override
    def name(self) -> str:
        return "by distance"

    @override
    def default_link(self, first: np.ndarray, weights: np.ndarray) -> float:
        return cluster_share(first, weights)

    @override
    def embed(self, state: Swarm, link: float) -> Embedding:
        return Embedding(state.x, cluster_radii(state.x, state.weights, link))

    @override
    def note(self, link: float) -> str:
        return (
            f"tokens within {100 * link:.2g} % of the RMS radius, of the frame or of "
            "the first if that is larger, are linked"
        )


class _Cosine(AbstractMetric):
    r"""Cosine metric, as Euclidean distances $\sqrt{2(1-\cos\theta)}$ of unit vectors.

    Tokens at zero have no direction; they are embedded in one point far from the rest.
    """

    def __init__(self, link: float) -> None:
        self._link = link

    @property
    @override
    def name(self) -> str:
        return "by cosine"

    @override
    def default_link(self, first: np.ndarray, weights: np.ndarray) -> float:
        return self._link

    @override
    def embed(self, state: Swarm, link: float) -> Embedding:
        points = embed_directions(state.x)
        return Embedding(points, np.full(len(points), np.sqrt(2 * link)))

    @override
    def note(self, link: float) -> str:
        angle = np.degrees(np.arccos(1 - link))
        return (
            f"tokens whose cosine, seen from 0, is at least {1 - link:.6g} are linked: "
            f"angles up to {angle:.3g}°"
        )


metrics: Registry[AbstractMetric] = Registry("metric of tokens")
metrics.register("euclidean")(_Euclidean())
metrics.register("cosine")(_Cosine(COSINE_LINK))


_ON_SPHERES = _Cosine(SPHERE_LINK)


def metric_of(name: str | None, *, moves_directions: bool) -> AbstractMetric:
    """The metric called `name`; by default cosine if a run moves directions of tokens.

    The cosine metric of such a run has a closer default link.
    """
    if moves_directions and name in (None, "cosine"):
        return _ON_SPHERES
    return metrics[name or "euclidean"]
