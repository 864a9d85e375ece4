"""Softmax and L2 attention: exponential weights, normalised over the keys."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.fields import Affine
from meanfield.linalg import is_positive_definite
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import (
    AbstractQuadraticScore,
    AbstractScore,
    Dot,
    Masked,
    SquaredDistance,
    positions,
)
from meanfield.scores.centring import recentre

from ._attention import Attention, variant
from ._coupling import (
    AbstractGaussianCoupling,
    AbstractRowwise,
    TiltedMean,
    tilted_gaussian_mean,
)


class Softmax(AbstractGaussianCoupling, AbstractRowwise):
    r"""$\kappa_\mu(x, y) = e^{s(x, y)} / \int e^{s(x, z)} d\mu(z)$.

    Examples:
        >>> from meanfield import Points, Tokens
        >>> from meanfield.attention import Softmax
        >>> from meanfield.scores import Dot
        >>> mu = Points.uniform([[-1.0], [1.0]])
        >>> field = Softmax().barycentre(Dot(jnp.eye(1), jnp.eye(1)), mu)
        >>> print(field(Tokens(jnp.array([[0.5]]))), np.tanh(0.5))
        [[0.4621]] 0.46211...
    """

    @property
    @override
    def rows_sum_to_one(self) -> bool:
        return True

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> TiltedMean:
        return TiltedMean(recentre(score, _centre(score, mu)), mu)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = (I + \Sigma B)^{-1}\Sigma A$ for scores $y\cdot Ax - y\cdot By/2$.

        Source: castin2025, Lemmas 4.1 and 4.10.
        """
        B = None if isinstance(score, Dot) else score.B
        return tilted_gaussian_mean(mu, score.A, B, score.a)

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""True for tokens, and for other measures if $B$ is positive definite.

        Tokens: a mean of tokens with positive weights is no larger than the largest
        token. Other measures: a quadratic score is $-\tfrac12|y - m(x)|_B^2$ plus a
        function of $x$, with $m(x) = B^{-1}(Ax + a)$. Let $R$ be the size of $\mu$. By
        Chebyshev's inequality at least three quarters of the mass have $|y| \leq 2R$,
        and therefore $|y - m|_B \leq r = |m|_B + 2R|B|^{1/2}$. So $\int e^s \geq
        \tfrac34 e^{-r^2/2}$, and keys with $|y - m|_B = \varrho \geq 2r$ have weights
        of at most $\tfrac43 e^{-3\varrho^2/8}$. Hence $|\bar y - m|_B \leq 2r +
        \tfrac43\max\varrho e^{-3\varrho^2/8}$, which is linear in $|x|$ and $R$. For a
        singular $B$ blow-ups exist (ERRATA C11).
        """
        if isinstance(mu, Points):
            return jnp.ones((), bool)
        if isinstance(score, Dot) or not isinstance(score, AbstractQuadraticScore):
            return jnp.zeros((), bool)
        return is_positive_definite(score.B)


@variant(
    "softmax", "permutation", "orthogonal", cost=r"$n^2$, or $n$ in cells if $d \leq 5$"
)
def softmax(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Softmax attention with scores $Qx \cdot Ky/\epsilon$; castin2025, eq. (2.2)."""
    return Attention(Dot(Q, K, epsilon), Softmax(), V)


@variant(
    "l2", "permutation", "orthogonal", cost=r"$n^2$, or $n$ in cells if $d \leq 5$"
)
def l2(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Softmax with scores $-|Qx - Ky|^2/\epsilon$; castin2025, section 2.3.

    If a command sets only `A`, then $Q = A$ and $K = I$.
    The covariance of a Gaussian satisfies castin2025, eq. (4.3), with a correction: the
    second term must be the transpose of the first (ERRATA C10).

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import l2, plans
        >>> one = jnp.eye(1)
        >>> print(plans(l2(one, one, one), 0.0, Points.uniform([[0.0], [3.0]]))[0])
        [[0.9999 0.0001]
         [0.0001 0.9999]]
    """
    return Attention(SquaredDistance(Q, K, epsilon), Softmax(), V)


def _centre(score: AbstractScore, mu: Points) -> Float[Array, " d"]:
    """The origin for the keys, which is their mean unless a mask hides later tokens.

    The origin affects rounding errors only. If a mask hides later tokens, it is the
    first token by position. With the mean of all tokens, the last digits of a token's
    velocity would depend on later tokens.
    """
    if not (isinstance(score, Masked) and score.hides_later):
        return mu.mean
    is_excluded = jnp.isneginf(mu.log_weights)
    first = jnp.argmin(jnp.where(is_excluded, jnp.inf, positions(mu.tokens)))
    return mu.safe_tokens.x[first]
