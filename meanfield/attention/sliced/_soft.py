r"""Couplings that match queries and keys along slices softly, at a temperature."""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.attention._coupling import AbstractCoupling, AbstractGaussianCoupling
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Affine
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot

from ._hard import affine_along, lengths, projectable, projections
from ._mean import evenly, weighted
from ._soft_mean import AbstractSoftMean, LineSquare, PublishedSoftMean, SoftMean


class AbstractSoftSlices(AbstractCoupling):
    r"""$\kappa_\mu = \sum_l\sigma_l\kappa_l$, softly sorted.

    Attributes:
        directions: $\theta_l$, of length one.
        near: the score on the line by which sorts are soft.
        tau: $\tau$, as in `HardSlices`.

    Examples:
        >>> from meanfield import attentions
        >>> from meanfield.attention import AbstractSoftSlices
        >>> soft = attentions["esp-soft"](jnp.eye(2), jnp.eye(2), jnp.eye(2))
        >>> isinstance(soft.coupling, AbstractSoftSlices)
        True
    """

    directions: Float[Array, "l k"]
    near: AbstractScore
    tau: Float[Array, ""] | None = None

    @abc.abstractmethod
    def mean(self, dot: Dot, queries: Points, keys: Points) -> AbstractSoftMean:
        """The field between two measures, all slices alike."""

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return self.across(score, mu, mu)

    @override
    def across(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        """Each side is sorted by itself."""
        return weighted(self.mean(projectable(score), queries, keys))

    @override
    def linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Always: each row is a mean of means times its sum, which is at most $n$.

        The sum is one if rows are divided by it. As published, of rank $r$ it has
        $w_re^{s(u_r, u)}/\sum_jw_je^{s(u_r, u_j)} \leq 1$. Of a Gaussian, the rate $r$
        of `GaussianSoftSlices` has $r s_Q s_K \leq 1$.
        """
        return jnp.ones((), bool)

    @override
    def bounded_across(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Always, for the same reasons."""
        return jnp.ones((), bool)


class SoftSlices(AbstractSoftSlices):
    r"""$\kappa_\mu = \sum_l\sigma_l\kappa_l$, softly sorted, each row with mass one.

    Source: shahbazi2025, eqs. (7), (9); rows divided as ERRATA N2'.

    Examples:
        >>> from meanfield import Points, attentions
        >>> one, mu = jnp.eye(1), Points.uniform([[0.0], [1.0], [5.0]])
        >>> for t in (10.0, 1.0, 0.01):
        ...     attention = attentions["esp-soft"](
        ...         -one, one, one, temperature=t, power=1
        ...     )
        ...     print(t, attention.field(0.0, mu)(mu.tokens).ravel())
        10.0 [1.9716 1.932  1.8384]
        1.0 [3.7745 1.8706 0.3214]
        0.01 [5. 1. 0.]
    """

    @override
    def mean(self, dot: Dot, queries: Points, keys: Points) -> SoftMean:
        slices = self.directions, evenly(self.directions)
        return SoftMean(dot, keys, *slices, queries, self.tau, self.near)


class GaussianSoftSlices(AbstractSoftSlices, AbstractGaussianCoupling):
    r"""$\kappa_\mu = \sum_l\sigma_l\kappa_l$, sorted softly by squared distances.

    Each row has mass one, so that Gaussians stay Gaussian.

    Examples:
        >>> from meanfield import attentions
        >>> two = jnp.eye(2)
        >>> type(attentions["esp-soft"](-two, two, two).coupling).__name__
        'GaussianSoftSlices'
    """

    def __check_init__(self) -> None:
        _squared(self.near)

    @override
    def mean(self, dot: Dot, queries: Points, keys: Points) -> SoftMean:
        slices = self.directions, evenly(self.directions)
        return SoftMean(dot, keys, *slices, queries, self.tau, self.near)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = \sum_l\sigma_l r_l\Sigma K^\top\theta_l\theta_l^\top Q$, $r<1/s_Qs_K$.

        With $\beta = s^2/(s^2 + t/2)$ and $w = 1 - \beta_Q + \beta_Q^2$ it is
        $r = \beta_Q\beta_K/(w s_Qs_K)$: each sort regresses towards the mean of its
        line. Velocities of tokens converge to it, each of them. ERRATA N2'.
        """
        return self.affine_across(score, mu, mu)

    @override
    def affine_across(
        self, score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian
    ) -> Affine:
        r"""As `affine`, $s_Q$ of the queries, $s_K$ and its $\Sigma$ of the keys."""
        dot, h = projectable(score), _squared(self.near).temperature / 2
        query = projections(self.directions, dot.Q, queries)  # l × r
        key = projections(self.directions, dot.K, keys)
        q2, k2 = (jnp.sum(a**2, axis=1) for a in (query, key))
        beta_query, beta_key = q2 / (q2 + h), k2 / (k2 + h)
        w = 1 - beta_query + beta_query**2
        rates = lengths(query) * lengths(key) / ((q2 + h) * (k2 + h) * w)
        shares = evenly(self.directions)
        if self.tau is not None:
            along_query = query @ (dot.Q @ queries.factor).T
            along_key = key @ (dot.K @ keys.factor).T
            products = rates * jnp.sum(along_query * along_key, axis=1)
            # Keys are matched with a variance along their slice that is not their own.
            variance = (beta_query / w) ** 2 + (1 - beta_query) / w
            excess = (beta_key * variance - 1) / (k2 + h)
            costs = excess * jnp.sum(along_key**2, axis=1) - 2 * products
            shares = jax.nn.softmax(-self.tau / dot.epsilon * costs)
        return affine_along(self.directions, dot, queries, keys, shares * rates)


class PublishedSoftSlices(AbstractSoftSlices):
    r"""$\kappa_\mu = \sum_l\sigma_l\kappa_l$, softly sorted, with the mass of the plan.

    Source: shahbazi2025, section 3.1.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.attention import PublishedSoftSlices
        >>> one, mu = jnp.eye(1), Points.uniform([[0.0], [1.0], [5.0]])
        >>> attention = attentions["esp-soft-published"](-one, one, one)
        >>> isinstance(attention.coupling, PublishedSoftSlices)
        True
        >>> print(attention.field(0.0, mu)(mu.tokens).ravel())
        [3.8519 1.8792 0.2689]
    """

    @override
    def mean(self, dot: Dot, queries: Points, keys: Points) -> PublishedSoftMean:
        slices = self.directions, evenly(self.directions)
        return PublishedSoftMean(dot, keys, *slices, queries, self.tau, self.near)


def _squared(near: AbstractScore) -> LineSquare:
    """`near`, if Gaussians stay Gaussian under its sorts.

    Raises:
        InvalidInputError: if they do not.
    """
    if not isinstance(near, LineSquare):
        raise InvalidInputError(
            "Gaussians stay Gaussian under sorts by squared distances, `LineSquare`; "
            f"got `{type(near).__name__}`."
        )
    return near
