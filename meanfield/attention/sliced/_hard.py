r"""The coupling that matches queries and keys by their ranks along slices."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.attention._coupling import AbstractGaussianCoupling
from meanfield.dynamics import Discontinuous
from meanfield.errors import UnsupportedError
from meanfield.fields import AbstractField, Affine
from meanfield.linalg import HIGHEST
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot, Masked

from ._mean import HardMean, equal_shares, reweight

# Approximate rounding error of a projection after a few hundred steps, in units of eps
# times the size of its terms.
ROUNDINGS = 32


class HardSlices(AbstractGaussianCoupling, Discontinuous):
    r"""$\kappa_\mu\,\mu\otimes\mu = \sum_l\sigma_l\gamma_l$, a mean of plans on slices.

    The plan $\gamma_l$ is the lifted optimal plan between the projections
    $\theta_l\cdot Qx$ and $\theta_l\cdot Ky$; both its marginals are $\mu$. Its weight
    is $\sigma_l \propto e^{-\tau D_l/\epsilon}$ with $D_l = \int|Qx - Ky|^2 d\gamma_l$.
    Source: shahbazi2025, eqs. (5), (8)–(10). The sign of $\tau$ in Algorithm 1 of that
    paper is a misprint (ERRATA H3).

    Attributes:
        directions: $\theta_l$, of length one.
        tau: $\tau$; `None` means zero, and saves the computation of costs.

    Examples:
        >>> from meanfield import Points, attentions
        >>> one = jnp.eye(1)
        >>> mu = Points.uniform([[0.0], [1.0], [5.0]])
        >>> esp = attentions["esp"](-one, one, one)  # the smallest query is that of 5
        >>> print(esp.field(0.0, mu)(mu.tokens).ravel())
        [5. 1. 0.]
    """

    directions: Float[Array, "l k"]
    tau: Float[Array, ""] | None = None

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return self.cross_barycentre(score, mu, mu)

    @override
    def cross_barycentre(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        r"""The barycentre of the plans between queries and keys, weighted by cost."""
        dot, even = require_dot_score(score), equal_shares(self.directions)
        mean = HardMean(dot, keys, self.directions, even, queries, self.tau)
        return reweight(mean)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = \sum_l\sigma_l\Sigma K^\top\theta_l\theta_l^\top Q/(s_{Q,l}s_{K,l})$.

        Here $s_{Q,l}^2 = \theta_l\cdot Q\Sigma Q^\top\theta_l$, likewise for $K$, and
        $b = \alpha - L\alpha$. This describes the law of $n$ tokens as $n \to \infty$:
        their covariance evolves as if $\bar y(x) = Lx + b$. It does not describe single
        tokens: on each slice a token has one partner, and however large $n$ is,
        partners scatter about their conditional mean. If $\theta^\top Q$ is a positive
        multiple of $\theta^\top K$, as for $Q = K$, each token is its own partner, and
        the formula does not hold. Source: ERRATA N2.
        """
        return self.cross_affine(score, mu, mu)

    @override
    def cross_affine(
        self, score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian
    ) -> Affine:
        r"""Like `affine`, with $s_Q$ from queries, and $s_K$ and $\Sigma$ from keys.

        On each slice the plan is the increasing map between two normal laws.
        """
        dot = require_dot_score(score)
        query = projections(self.directions, dot.Q, queries)  # of shape slices × rank
        key = projections(self.directions, dot.K, keys)
        s_query, s_key = (lengths(rows) for rows in (query, key))
        spread = s_query * s_key
        unit = jnp.where(spread > 0, spread, 1)
        images = dot.Q @ queries.factor, dot.K @ keys.factor
        shares = self._shares(dot, images, query, key, unit)
        rates = jnp.where(spread > 0, shares / unit, 0)
        return slice_affine(self.directions, dot, queries, keys, rates)

    def _shares(
        self,
        dot: Dot,
        images: tuple[Array, Array],
        query: Array,
        key: Array,
        spread: Array,
    ) -> Float[Array, " l"]:
        r"""Weights of the slices for the costs $-2\theta^\top S_QS_K\theta/(s_Qs_K)$.

        Here $S_Q = Q\Sigma Q^\top$, and likewise for $K$. The costs omit the terms
        $|(Q-K)\alpha|^2 + \mathrm{tr}S_Q + \mathrm{tr}S_K$ of $D_l$, which are equal
        for all slices. Source: ERRATA N2.
        """
        if self.tau is None:
            return equal_shares(self.directions)
        S_query, S_key = query @ images[0].T, key @ images[1].T
        correlation = jnp.sum(S_query * S_key, axis=1) / spread
        return jax.nn.softmax(2 * self.tau / dot.epsilon * correlation)

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Always true: $\bar y$ is a mean of tokens, or of conditional means.

        For a Gaussian $|\bar y| \leq |\mu|$ in $L^2(\mu)$: each slice contributes
        $E[y\,|\,\theta\cdot Ky = t]$, and if $x$ has the law $\mu$, then $t$ has the
        law of $\theta\cdot Ky$.
        """
        return jnp.ones((), bool)

    @override
    def is_cross_bounded(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Always true, for the same reasons as `is_linearly_bounded`."""
        return jnp.ones((), bool)


def slice_affine(
    directions: Float[Array, "l k"],
    dot: Dot,
    queries: Gaussian,
    keys: Gaussian,
    rates: Float[Array, " l"],
) -> Affine:
    r"""The affine field of slices with the rates $r_l$.

    It is $\alpha_K + \sum_l r_l\Sigma_KK^\top\theta_l\theta_l\cdot Q(x - \alpha_Q)$.
    """
    key = directions @ dot.K @ keys.factor
    columns = jnp.matmul(keys.factor, (rates[:, None] * key).T, precision=HIGHEST)
    linear = jnp.matmul(columns, directions @ dot.Q, precision=HIGHEST)
    return Affine(linear, keys.mean - linear @ queries.mean)


def projections(
    directions: Float[Array, "l k"], matrix: Float[Array, "k d"], mu: Gaussian
) -> Float[Array, "l r"]:
    r"""The rows $\theta_l^\top QY$ or $\theta_l^\top KY$, one for each slice.

    A row that consists of rounding errors is set to zero. If it were kept, division by
    its length would make it of order one.
    """
    rows = directions @ matrix @ mu.factor
    terms = jnp.abs(directions) @ jnp.abs(matrix) @ jnp.abs(mu.factor)
    rounding = ROUNDINGS * jnp.finfo(rows.dtype).eps * jnp.linalg.norm(terms, axis=1)
    is_significant = jnp.sum(rows**2, axis=1) > jax.lax.stop_gradient(rounding) ** 2
    return jnp.where(is_significant[:, None], rows, 0)


def lengths(rows: Float[Array, "l r"]) -> Float[Array, " l"]:
    """Lengths of the rows; the derivative of a zero length is set to zero."""
    squares = jnp.sum(rows**2, axis=1)
    is_positive = squares > 0
    return jnp.where(is_positive, jnp.sqrt(jnp.where(is_positive, squares, 1)), 0)


def require_dot_score(score: AbstractScore) -> Dot:
    """Returns `score` if it is a `Dot`, whose queries and keys can be projected.

    Raises:
        UnsupportedError: unless `score` is a `Dot`.
    """
    if isinstance(score, Masked):
        raise UnsupportedError(
            "Sliced transport ranks all tokens, so it does not support masked scores. "
            "Wrap the attention in `Prefix` instead."
        )
    if not isinstance(score, Dot):
        raise UnsupportedError(
            "Sliced transport projects queries and keys, so it needs a `Dot` score; "
            f"got `{type(score).__name__}`."
        )
    return score
