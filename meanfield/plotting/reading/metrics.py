"""Metrics that define clusters of tokens: Euclidean distance, or cosine seen from 0."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from meanfield._registry import Registry
from meanfield.clusters import (
    COSINE_LINK,
    SPHERE_LINK,
    cluster_radii,
    cluster_share,
    embed_directions,
)
from meanfield.plotting._figure.look import Look

from .data import Swarm


class Embedding(NamedTuple):
    """Embedded tokens (time, n, d), and the Euclidean linking radii (time,)."""

    x: np.ndarray
    radii: np.ndarray


class Metric(NamedTuple):
    """A metric of tokens; two tokens are linked if they are at most `link` apart.

    Attributes:
        name: the name of the metric in legends, such as `by distance`.
        embed: embeds tokens so that the metric becomes a Euclidean distance.
        note: returns a note on which tokens are linked.
        link: the default link; if None, the share of the RMS radius for the tokens of
            the first frame.
    """

    name: str
    embed: Callable[[Swarm, float], Embedding]
    note: Callable[[float], str]
    link: float | None = None

    def default_link(self, first: np.ndarray, weights: np.ndarray) -> float:
        """The default link, from the tokens (n, d) of the first frame."""
        return cluster_share(first, weights) if self.link is None else self.link


def _embed_euclidean(state: Swarm, link: float) -> Embedding:
    return Embedding(state.x, cluster_radii(state.x, state.weights, link))


def _euclidean_note(link: float) -> str:
    return (
        f"tokens within {100 * link:.2g} % of the RMS radius, of the frame or of "
        "the first if that is larger, are linked"
    )


def _embed_cosine(state: Swarm, link: float) -> Embedding:
    r"""Unit vectors, at the distances $\sqrt{2(1-\cos\theta)}$.

    Tokens at zero have no direction; they are embedded in one point far from the rest.
    """
    points = embed_directions(state.x)
    return Embedding(points, np.full(len(points), np.sqrt(2 * link)))


def _cosine_note(link: float) -> str:
    angle = np.degrees(np.arccos(1 - link))
    return (
        f"tokens whose cosine, seen from 0, is at least {1 - link:.6g} are linked: "
        f"angles up to {angle:.3g}°"
    )


_COSINE = Metric("by cosine", _embed_cosine, _cosine_note, COSINE_LINK)
_ON_SPHERES = _COSINE._replace(link=SPHERE_LINK)

metrics: Registry[Metric] = Registry("metric of tokens")
metrics.register("euclidean")(Metric("by distance", _embed_euclidean, _euclidean_note))
metrics.register("cosine")(_COSINE)


class Link(NamedTuple):
    """A metric, and the distance in it within which tokens are linked."""

    metric: Metric
    distance: float

    @property
    def note(self) -> str:
        """A note on which tokens are linked."""
        return self.metric.note(self.distance)

    def embed(self, state: Swarm) -> Embedding:
        """Embedded tokens, and the Euclidean linking radii."""
        return self.metric.embed(state, self.distance)


def metric_of(name: str | None, *, moves_directions: bool) -> Metric:
    """The metric called `name`; by default cosine if a run moves directions of tokens.

    The cosine metric of such a run has a closer default link.
    """
    if moves_directions and name in (None, "cosine"):
        return _ON_SPHERES
    return metrics[name or "euclidean"]


def link_of(look: Look, state: Swarm, *, moves_directions: bool) -> Link:
    """The link of the look; by default, that of the first frame of some tokens."""
    metric = metric_of(look.metric, moves_directions=moves_directions)
    return Link(metric, look.link or metric.default_link(state.x[0], state.weights))
