"""Linear attention and the first-order expansion of softmax attention."""

import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.fields import AbstractExplicit, AbstractField, Affine
from meanfield.measures import Gaussian, Points, Power
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot
from meanfield.tokens import Tokens

from ._attention import Attention, variant
from ._coupling import AbstractBarycentre, AbstractGaussianCoupling, require_dot
from .pointwise import AbstractCubic, LinkedMean


class Linear(AbstractGaussianCoupling, AbstractCubic):
    r"""$\kappa_\mu(x, y) = s(x, y)$, with neither exponential nor normalisation.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.attention import Linear
        >>> from meanfield.scores import Dot
        >>> mu = Gaussian(jnp.array([2.0]), jnp.array([[1.0]]))
        >>> print(Linear().affine(Dot(jnp.eye(1), jnp.eye(1)), mu).linear)  # Σ + αα
        [[5.]]
    """

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return LinkedMean(Power(1), score, mu)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = (\Sigma + \alpha\alpha^\top) A$ and $b = 0$, plus terms from biases.

        Source: castin2025, section 2.2, $\Gamma^{\mathrm{lin}}$ on a Gaussian.
        """
        dot = require_dot(score, "linear")
        second = mu.covariance + jnp.outer(mu.mean, mu.mean)
        linear = second @ dot.A + jnp.outer(mu.mean, dot.c)
        return Affine(linear, second @ dot.a + dot.constant * mu.mean)


class LinearExpansion(AbstractGaussianCoupling, AbstractCubic):
    r"""$\kappa_\mu(x, y) = 1 + s(x, y) - \int s(x, z)\,d\mu(z)$.

    This is softmax to first order in the scores. Pairs that a mask excludes are left
    out of all integrals, and the remaining weights are renormalised.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import LinearExpansion
        >>> from meanfield.scores import Dot
        >>> mu = Points.uniform([[-1.0], [1.0]])
        >>> print(
        ...     LinearExpansion().barycentre(Dot(jnp.eye(1), jnp.eye(1)), mu)(mu.tokens)
        ... )
        [[-1.]
         [ 1.]]
    """

    @property
    @override
    def rows_sum_to_one(self) -> bool:
        return True

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return ExpansionField(score, mu)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = \Sigma A$, $b = \alpha + \Sigma a$.

        Source: castin2025, section 2.2, $\Gamma^{\mathrm{lin},\epsilon}$, with a
        correction: its last sum must be over $x_\ell\cdot Ax$ (ERRATA C1).
        """
        dot = require_dot(score, "linear-expansion")
        Sigma = mu.covariance
        return Affine(Sigma @ dot.A, mu.mean + Sigma @ dot.a)


class ExpansionField(AbstractExplicit, AbstractBarycentre):
    r"""$\bar y + \int y\,s\,d\mu - \bar y \int s\,d\mu$, over all visible keys."""

    score: AbstractScore
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        x = self.mu.safe_tokens.x
        # The choice of the origin affects only the rounding of the result.
        origin = self.mu.mean[None, :]
        values = jnp.concatenate([jnp.ones_like(x[:, :1]), x - origin], axis=1)
        zeroth = self.mu.integral(Power(0), self.score, tokens, values)
        first = self.mu.integral(Power(1), self.score, tokens, values)
        mass = jnp.where(zeroth[:, :1] == 0, 1, zeroth[:, :1])
        mean, score = zeroth[:, 1:] / mass, first[:, :1] / mass
        barycentre = origin + mean + first[:, 1:] / mass - score * mean
        return jnp.where(zeroth[:, :1] == 0, 0, barycentre)

    @override
    def weights(self) -> Float[Array, "n n"]:
        scores, w = self.score(self.mu.tokens, self.mu.tokens), self.mu.weights
        return (1 + scores - scores @ w[:, None]) * w[None, :]


@variant("linear", "permutation", "orthogonal", cost="$n d^2$")
def linear(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Linear attention with weights $Qx \cdot Ky/\epsilon$; castin2025, 2.2."""
    return Attention(Dot(Q, K, epsilon), Linear(), V)


@variant("linear-expansion", "permutation", "orthogonal", cost="$n d^2$")
def linear_expansion(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0
) -> Attention:
    r"""First-order expansion $\Gamma^{\mathrm{lin},\epsilon}$ of softmax attention.

    The scores are $\epsilon\,Qx \cdot Ky$, and the value matrix is $V/\epsilon$. As
    $\epsilon \to 0$, it differs from softmax with $(\epsilon Q, K, V/\epsilon)$ by an
    error of order $\epsilon$, not $o(\epsilon)$ as in castin2025, section 2.2 (ERRATA
    C1).
    """
    bandwidth = Dot(Q, K, epsilon).epsilon  # raises unless `epsilon` is positive
    attention = Attention(Dot(Q, K, 1 / bandwidth), LinearExpansion(), V)
    return Attention(attention.score, attention.coupling, attention.value / bandwidth)
