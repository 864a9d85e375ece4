r"""Couplings that match queries and keys along slices by soft sorts."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.attention._coupling import AbstractCoupling, AbstractGaussianCoupling
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Affine
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore

from ._hard import lengths, projections, require_dot_score, slice_affine
from ._mean import equal_shares, reweight
from ._soft_mean import AbstractSoftMean, LineSquare, PublishedSoftMean, SoftMean


class AbstractSoftSlices(AbstractCoupling):
    r"""$\kappa_\mu = \sum_l\sigma_l\kappa_l$, with a soft sort on each slice.

    Attributes:
        directions: $\theta_l$, of length one.
        line_score: the score on the line whose softmax is the soft sort.
        tau: $\tau$, as in `HardSlices`.
        mean_type: how rows are divided.

    Examples:
        >>> from meanfield import attentions
        >>> from meanfield.attention import AbstractSoftSlices
        >>> soft = attentions["esp-soft"](jnp.eye(2), jnp.eye(2), jnp.eye(2))
        >>> isinstance(soft.coupling, AbstractSoftSlices)
        True
    """

    directions: Float[Array, "l k"]
    line_score: AbstractScore
    tau: Float[Array, ""] | None = None
    mean_type: ClassVar[type[AbstractSoftMean]]

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return self.cross_barycentre(score, mu, mu)

    @override
    def cross_barycentre(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        """The barycentre of the plans between softly sorted queries and keys."""
        dot = require_dot_score(score)
        slices = self.directions, equal_shares(self.directions)
        mean = self.mean_type(dot, keys, *slices, queries, self.tau, self.line_score)
        return reweight(mean.match())

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Always true: $\bar y$ is a mean of means, times a row sum of at most $n$.

        The sum is one in the variants that divide rows by their sums. In the published
        variant, each rank $r$ adds
        $w_re^{s(u_r, u)}/\sum_jw_je^{s(u_r, u_j)} \leq 1$ to the sum. For a Gaussian,
        the rate $r$ of `GaussianSoftSlices` satisfies $r s_Q s_K \leq 1$.
        """
        return jnp.ones((), bool)

    @override
    def is_cross_bounded(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Always true, for the same reasons as `is_linearly_bounded`."""
        return jnp.ones((), bool)


class SoftSlices(AbstractSoftSlices):
    r"""$\kappa_\mu = \sum_l\sigma_l\kappa_l$, with soft sorts and rows of mass one.

    Source: shahbazi2025, eqs. (7) and (9), but with rows divided by their sums (ERRATA
    N2').

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

    mean_type = SoftMean


class GaussianSoftSlices(AbstractSoftSlices, AbstractGaussianCoupling):
    r"""$\kappa_\mu = \sum_l\sigma_l\kappa_l$, with soft sorts by squared distances.

    Each row has mass one, so that Gaussians stay Gaussian.

    Examples:
        >>> from meanfield import attentions
        >>> two = jnp.eye(2)
        >>> type(attentions["esp-soft"](-two, two, two).coupling).__name__
        'GaussianSoftSlices'
    """

    mean_type = SoftMean

    def __check_init__(self) -> None:
        _require_square(self.line_score)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = \sum_l\sigma_l r_l\Sigma K^\top\theta_l\theta_l^\top Q$, $r<1/s_Qs_K$.

        Here $r = \beta_Q\beta_K/(w s_Qs_K)$ with $\beta = s^2/(s^2 + t/2)$ and $w = 1 -
        \beta_Q + \beta_Q^2$, since each soft sort regresses towards the mean on its
        slice. As $n \to \infty$, the velocity of each token converges to this map.
        Source: ERRATA N2'.
        """
        return self.cross_affine(score, mu, mu)

    @override
    def cross_affine(
        self, score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian
    ) -> Affine:
        r"""Like `affine`, with $s_Q$ from queries, and $s_K$ and $\Sigma$ from keys."""
        dot, h = (
            require_dot_score(score),
            _require_square(self.line_score).temperature / 2,
        )
        query = projections(self.directions, dot.Q, queries)  # of shape slices × rank
        key = projections(self.directions, dot.K, keys)
        q2, k2 = (jnp.sum(a**2, axis=1) for a in (query, key))
        beta_query, beta_key = q2 / (q2 + h), k2 / (k2 + h)
        w = 1 - beta_query + beta_query**2
        rates = lengths(query) * lengths(key) / ((q2 + h) * (k2 + h) * w)
        shares = equal_shares(self.directions)
        if self.tau is not None:
            S_query = query @ (dot.Q @ queries.factor).T
            S_key = key @ (dot.K @ keys.factor).T
            products = rates * jnp.sum(S_query * S_key, axis=1)
            # Soft sorts change the variance of the matched keys along the slice.
            variance = (beta_query / w) ** 2 + (1 - beta_query) / w
            excess = (beta_key * variance - 1) / (k2 + h)
            costs = excess * jnp.sum(S_key**2, axis=1) - 2 * products
            shares = jax.nn.softmax(-self.tau / dot.epsilon * costs)
        return slice_affine(self.directions, dot, queries, keys, shares * rates)


class PublishedSoftSlices(AbstractSoftSlices):
    r"""$\kappa_\mu = \sum_l\sigma_l\kappa_l$, with soft sorts and rows of any mass.

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

    mean_type = PublishedSoftMean


def _require_square(line_score: AbstractScore) -> LineSquare:
    """Returns `line_score` if it is a `LineSquare`: then Gaussians stay Gaussian.

    Raises:
        InvalidInputError: if it is not a `LineSquare`.
    """
    if not isinstance(line_score, LineSquare):
        raise InvalidInputError(
            "`line_score` must be a `LineSquare`, since soft sorting maps Gaussians to "
            f"Gaussians only with this score; got `{type(line_score).__name__}`."
        )
    return line_score
