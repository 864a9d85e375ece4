"""Barycentres of one measure for the tokens of another: cross attention, by kinds."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool
from typing_extensions import override

from meanfield.errors import NotClosedError, UnsupportedError
from meanfield.fields import AbstractField, Affine
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Gaussian,
    Points,
    Quadrature,
)
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot, Masked
from meanfield.tokens import Tokens

from ._coupling import (
    AbstractCoupling,
    AbstractGaussianCoupling,
    AbstractRowwise,
    AbstractSmearedCoupling,
)

READS = "Cross attention is between points, Gaussians and grids"


class Closed(NamedTuple):
    """A score and a coupling that keep Gaussians Gaussian."""

    score: AbstractQuadraticScore
    coupling: AbstractGaussianCoupling

    def affine(self, queries: Gaussian, keys: Gaussian) -> Affine:
        """The barycentre of Gaussian keys for Gaussian queries."""
        if isinstance(self.coupling, AbstractRowwise):
            return self.coupling.affine(self.score, keys)
        return self.coupling.affine_across(self.score, queries, keys)


class Parts(NamedTuple):
    """What an attention is made of, for the readers of this module.

    Attributes:
        score: $s$.
        coupling: of scores.
        closed: both, if they keep Gaussians Gaussian; else it raises what says so.
        called: the name of the coupling.
    """

    score: AbstractScore
    coupling: AbstractCoupling
    closed: Callable[[], Closed]
    called: Callable[[], str]

    def known(self, keys: Gaussian) -> AbstractField:
        """The barycentre of a Gaussian at any tokens, whoever the other queries are.

        Raises:
            NotClosedError: if that of this one is not known, or depends on the others.
            UnsupportedError: as another error of the same kind.
        """
        score, coupling = self.score, self.coupling
        if isinstance(score, Masked):
            raise NotClosedError(
                "A mask compares positions, and a Gaussian has none, projected or not. "
                "Use points."
            )
        if isinstance(coupling, AbstractSmearedCoupling) and isinstance(score, Dot):
            with contextlib.suppress(NotClosedError):
                return coupling.smeared(score, keys)
        return self.closed().coupling.affine(self.closed().score, keys)


@dataclass(frozen=True)
class Crossing(AbstractReader[AbstractField]):
    """The barycentre of keys, for queries of each kind."""

    parts: Parts
    keys: AbstractMeasure
    reads = READS

    @override
    def of_points(self, mu: Points) -> AbstractField:
        return _ForTokens(self.parts, mu)(self.keys)

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        return _ForGaussian(self.parts, mu)(self.keys)

    @override
    def of_quadrature(self, mu: Quadrature) -> AbstractField:
        return _ForNodes(self.parts, mu)(self.keys)


@dataclass(frozen=True)
class _ForTokens(AbstractReader[AbstractField]):
    """Of keys of each kind, for tokens."""

    parts: Parts
    queries: Points
    reads = READS

    @override
    def of_points(self, mu: Points) -> AbstractField:
        return self.parts.coupling.across(self.parts.score, self.queries, mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        if not isinstance(self.parts.coupling, AbstractRowwise):
            raise UnsupportedError(
                f"`{self.parts.called()}` attention weighs the laws of queries and of "
                "keys, and has no closed form for tokens that look at a Gaussian: give "
                "the context as tokens, or move a Gaussian."
            )
        return self.parts.known(mu)


@dataclass(frozen=True)
class _ForGaussian(AbstractReader[AbstractField]):
    """Of keys of each kind, for a Gaussian that is to stay one."""

    parts: Parts
    queries: Gaussian
    reads = READS

    @override
    def of_points(self, mu: Points) -> AbstractField:
        raise NotClosedError(
            "A Gaussian that attends to tokens does not stay one; use points, "
            "`projected`, or a context that is Gaussian."
        )

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        return self.parts.closed().affine(self.queries, mu)


@dataclass(frozen=True)
class _ForNodes(AbstractReader[AbstractField]):
    """Of keys of each kind, for a Gaussian that is projected."""

    parts: Parts
    queries: Quadrature
    reads = READS

    @override
    def of_points(self, mu: Points) -> AbstractField:
        return self.parts.coupling.across(self.parts.score, self.queries.points, mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        """In closed form where there is one; else of the nodes of both."""
        if isinstance(self.parts.coupling, AbstractRowwise):
            with contextlib.suppress(NotClosedError, UnsupportedError):
                return self.parts.known(mu)
        else:
            with contextlib.suppress(NotClosedError, UnsupportedError):
                return self.parts.closed().affine(self.queries.gaussian, mu)
        return self.of_points(_nodes_as(self.queries, mu).points)


def _nodes_as(other: Quadrature, mu: Gaussian) -> Quadrature:
    """A Gaussian with the nodes of another: whoever doubts those doubts these.

    Raises:
        UnsupportedError: if it has more columns in its factor.
    """
    missing = other.z.shape[1] - mu.factor.shape[1]
    if missing < 0:
        raise UnsupportedError(
            "The projection of a Gaussian of low rank has no nodes for a context of "
            "higher rank; give the context as tokens."
        )
    factor = jnp.pad(mu.factor, ((0, 0), (0, missing)))
    return Quadrature(Gaussian(mu.mean, factor), other.z, other.weights)


@dataclass(frozen=True)
class BoundAcross(AbstractReader[Bool[Array, ""]]):
    """Whether the barycentre of keys grows at most linearly in the query."""

    score: AbstractScore
    coupling: AbstractCoupling
    reads = READS

    @override
    def of_points(self, mu: Points) -> Bool[Array, ""]:
        return self.coupling.bounded_across(self.score, mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> Bool[Array, ""]:
        """Where rows stand alone, as of tokens: smeared or affine, no less linear.

        A mean of links over Gaussian keys is bounded, or linear, as each link is; that
        of tilted keys is affine.
        """
        if not isinstance(self.coupling, AbstractRowwise):
            return self.coupling.bounded_across(self.score, mu)
        token = Points(Tokens(mu.mean[None, :]), jnp.zeros(1, mu.mean.dtype))
        return self.of_points(token)
