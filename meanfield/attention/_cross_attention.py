"""Cross attention: barycentres of keys at queries, for each pair of measure types."""

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
    AbstractClosedFormCoupling,
    AbstractCoupling,
    AbstractGaussianCoupling,
    AbstractRowwise,
)

READS = "Cross attention is between points, Gaussians and grids"


class ClosedForm(NamedTuple):
    """A score and a coupling that map Gaussians to Gaussians."""

    score: AbstractQuadraticScore
    coupling: AbstractGaussianCoupling

    def affine(self, queries: Gaussian, keys: Gaussian) -> Affine:
        """The affine barycentre of Gaussian keys, for Gaussian queries."""
        if isinstance(self.coupling, AbstractRowwise):
            return self.coupling.affine(self.score, keys)
        return self.coupling.cross_affine(self.score, queries, keys)


class AttentionParts(NamedTuple):
    """The parts of an attention that cross-attention needs.

    Attributes:
        score: $s$.
        coupling: the coupling.
        closed_form: function that returns the score and the coupling if they map
            Gaussians to Gaussians, and raises `NotClosedError` otherwise.
        coupling_name: function that returns the name of the coupling.
    """

    score: AbstractScore
    coupling: AbstractCoupling
    closed_form: Callable[[], ClosedForm]
    coupling_name: Callable[[], str]

    def gaussian_barycentre(self, keys: Gaussian) -> AbstractField:
        """The barycentre of Gaussian keys at any token, independent of other queries.

        Raises:
            NotClosedError: if the barycentre has no closed form, or depends on the
                other queries.
            UnsupportedError: if the coupling does not support the score.
        """
        score, coupling = self.score, self.coupling
        if isinstance(score, Masked):
            raise NotClosedError(
                "A mask compares positions, and a Gaussian has none, not even inside "
                "`Projected`. Use points."
            )
        if isinstance(coupling, AbstractClosedFormCoupling) and isinstance(score, Dot):
            with contextlib.suppress(NotClosedError):
                return coupling.gaussian_barycentre(score, keys)
        return self.closed_form().coupling.affine(self.closed_form().score, keys)


@dataclass(frozen=True)
class CrossBarycentre(AbstractReader[AbstractField]):
    """Reader that returns the barycentre of the keys for queries of any type."""

    parts: AttentionParts
    keys: AbstractMeasure
    reads = READS

    @override
    def read_points(self, mu: Points) -> AbstractField:
        return _TokenQueries(self.parts, mu)(self.keys)

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        return _GaussianQueries(self.parts, mu)(self.keys)

    @override
    def read_quadrature(self, mu: Quadrature) -> AbstractField:
        return _NodeQueries(self.parts, mu)(self.keys)


@dataclass(frozen=True)
class _TokenQueries(AbstractReader[AbstractField]):
    """Reader that returns the barycentre at tokens for keys of any type."""

    parts: AttentionParts
    queries: Points
    reads = READS

    @override
    def read_points(self, mu: Points) -> AbstractField:
        return self.parts.coupling.cross_barycentre(self.parts.score, self.queries, mu)

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        if not isinstance(self.parts.coupling, AbstractRowwise):
            raise UnsupportedError(
                f"The weights of `{self.parts.coupling_name()}` attention depend on "
                "all queries, so tokens cannot attend to a Gaussian. Give the context "
                "as tokens, or use a Gaussian for the queries too."
            )
        return self.parts.gaussian_barycentre(mu)


@dataclass(frozen=True)
class _GaussianQueries(AbstractReader[AbstractField]):
    """Reader that returns the affine barycentre of the keys, which must be Gaussian."""

    parts: AttentionParts
    queries: Gaussian
    reads = READS

    @override
    def read_points(self, mu: Points) -> AbstractField:
        raise NotClosedError(
            "A Gaussian that attends to tokens does not stay Gaussian; use points, "
            "`projected`, or a Gaussian context."
        )

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        return self.parts.closed_form().affine(self.queries, mu)


@dataclass(frozen=True)
class _NodeQueries(AbstractReader[AbstractField]):
    """Reader that returns the barycentre of any keys for a projected Gaussian."""

    parts: AttentionParts
    queries: Quadrature
    reads = READS

    @override
    def read_points(self, mu: Points) -> AbstractField:
        return self.parts.coupling.cross_barycentre(
            self.parts.score, self.queries.points, mu
        )

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        """The closed form if there is one; otherwise the sum over quadrature nodes."""
        if isinstance(self.parts.coupling, AbstractRowwise):
            with contextlib.suppress(NotClosedError, UnsupportedError):
                return self.parts.gaussian_barycentre(mu)
        else:
            with contextlib.suppress(NotClosedError, UnsupportedError):
                return self.parts.closed_form().affine(self.queries.gaussian, mu)
        return self.read_points(_copy_nodes(self.queries, mu).points)


def _copy_nodes(quadrature: Quadrature, mu: Gaussian) -> Quadrature:
    """Quadrature of `mu` with the nodes of another quadrature.

    Sharing the nodes lets one error estimate cover both quadratures.

    Raises:
        UnsupportedError: if the factor of `mu` has more columns than the nodes.
    """
    missing = quadrature.z.shape[1] - mu.factor.shape[1]
    if missing < 0:
        raise UnsupportedError(
            "A projected Gaussian cannot attend to a Gaussian of higher rank, for "
            "which it has no quadrature nodes. Give the context as tokens."
        )
    factor = jnp.pad(mu.factor, ((0, 0), (0, missing)))
    return Quadrature(Gaussian(mu.mean, factor), quadrature.z, quadrature.weights)


@dataclass(frozen=True)
class CrossBound(AbstractReader[Bool[Array, ""]]):
    """Whether the barycentre of the keys grows at most linearly in the query."""

    score: AbstractScore
    coupling: AbstractCoupling
    reads = READS

    @override
    def read_points(self, mu: Points) -> Bool[Array, ""]:
        return self.coupling.is_cross_bounded(self.score, mu)

    @override
    def read_gaussian(self, mu: Gaussian) -> Bool[Array, ""]:
        """Whether the bound is proven for Gaussian keys.

        For a rowwise coupling the answer is the same as for tokens. The mean of a link
        over Gaussian keys is bounded if the link is bounded, and grows at most linearly
        if the link does. The mean of tilted Gaussian keys is affine in the query.
        """
        if not isinstance(self.coupling, AbstractRowwise):
            return self.coupling.is_cross_bounded(self.score, mu)
        token = Points(Tokens(mu.mean[None, :]), jnp.zeros(1, mu.mean.dtype))
        return self.read_points(token)


def rowwise_barycentre(
    score: AbstractScore, coupling: AbstractCoupling, keys: Points
) -> AbstractField:
    """The barycentre of keys for queries that are not among them.

    Raises:
        UnsupportedError: if the weights of one query depend on other queries.
    """
    if not isinstance(coupling, AbstractRowwise):
        raise UnsupportedError(
            f"`{type(coupling).__name__}` attention has rows that depend on each "
            "other, and does not move zonal densities: use points."
        )
    return coupling.barycentre(score, keys)
