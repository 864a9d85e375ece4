r"""Attention in which each weight is a function of one score, such as exp or sigmoid.

On a Gaussian, the integral reduces to one dimension. For $y \sim N(\alpha, \Sigma)$ and
a score $s = y\cdot u + c$ that is linear in the key, the score has the law
$N(m, \sigma^2)$ with $m = \alpha\cdot u + c$ and $\sigma^2 = u\cdot \Sigma u$.
Stein's identity $E[y\,\varphi(s)] = \alpha\,E\varphi(s) + \Sigma u\,E\varphi'(s)$ holds
in any dimension and for any rank.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import is_concrete
from meanfield._typing import Numbers, Scalar
from meanfield.errors import NotClosedError
from meanfield.fields import AbstractExplicit, AbstractField, Affine
from meanfield.linalg import HIGHEST
from meanfield.measures import AbstractMeasure, Gaussian, Link, Points, exponential
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot
from meanfield.tokens import Tokens

from ._attention import Attention, variant
from ._coupling import (
    AbstractBarycentre,
    AbstractClosedFormCoupling,
    AbstractGaussianCoupling,
    AbstractRowwise,
    require_dot,
)

Averages = Callable[[Array, Array], tuple[Array, Array]]
"""Maps the mean and deviation of a score to averages of a link and its derivative."""

# The trapezoidal rule of step h on the line has an error exp(-2 pi w / h) for functions
# analytic in a strip of half-width w. Here w is pi for the logistic density, and
# arbitrarily large for the normal density.
_STEP = 0.5
_REACH = 37.0  # beyond this distance both densities are below the rounding error


class Pointwise(AbstractClosedFormCoupling, AbstractRowwise):
    r"""$\kappa_\mu(x, y) = \varphi(s(x, y))$; Gaussians need not stay Gaussian.

    Attributes:
        link: $\varphi$, applied entrywise.
        averages: function that returns $E\varphi$ and $E\varphi'$ of normal scores;
            `None` if unknown.
        is_bounded: whether $\varphi$ is known to be bounded.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Pointwise
        >>> from meanfield.scores import Dot
        >>> mu = Points.uniform([[-1.0], [1.0]])
        >>> cubic = Pointwise(lambda scores: scores**3)
        >>> print(cubic.barycentre(Dot(jnp.eye(1), jnp.eye(1)), mu)(mu.tokens))
        [[-1.]
         [ 1.]]
    """

    link: Link
    averages: Averages | None = None
    is_bounded: bool = eqx.field(static=True, default=False)

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return LinkedMean(self.link, score, mu)

    @override
    def gaussian_barycentre(self, score: Dot, mu: Gaussian) -> AbstractField:
        if self.averages is None:
            raise NotClosedError(
                "This coupling has no closed form on Gaussians, since the averages of "
                "its link are not given. Use points, or set `averages`."
            )
        return LinkedGaussianMean(self.averages, score, mu)

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""True if $\varphi$ is bounded: $|\bar y| \leq \sup|\varphi|\int|y|\,d\mu$."""
        return jnp.asarray(self.is_bounded)


class AbstractCubic(AbstractRowwise):
    """A coupling with weights that grow like scores, so that velocities are cubic."""

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Always false, since the velocity is cubic in the size of the measure."""
        return jnp.zeros((), bool)

    @override
    def is_cross_bounded(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        """True if scores, and so the weights, grow at most linearly in the query."""
        return jnp.asarray(isinstance(score, Dot))


class LinkedMean(AbstractExplicit, AbstractBarycentre):
    r"""$x \mapsto \int y\, \varphi(s(x, y))\, d\mu(y)$."""

    link: Link
    score: AbstractScore
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.mu.integral(self.link, self.score, tokens, self.mu.tokens.x)

    @override
    def weights(self) -> Float[Array, "n n"]:
        scores = self.score(self.mu.tokens, self.mu.tokens)
        return self.link(scores) * self.mu.weights[None, :]


def _sigmoid(scores: Array) -> Array:
    return jax.nn.sigmoid(scores)


@variant("exp", "permutation", "orthogonal", cost="$n^2$")
def exp(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Unnormalised attention, weights $e^{Qx\cdot Ky/\epsilon}$; castin2025, 2.5."""
    return Attention(Dot(Q, K, epsilon), Pointwise(exponential, exp_averages), V)


@variant("sigmoid", "permutation", "orthogonal", cost="$n^2$")
def sigmoid(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Sigmoid attention, $1/(1 + e^{-Qx\cdot Ky/\epsilon})$; castin2025, 2.5."""
    coupling = Pointwise(_sigmoid, sigmoid_averages, is_bounded=True)
    return Attention(Dot(Q, K, epsilon), coupling, V)


class LinkedGaussianMean(AbstractExplicit, AbstractField):
    r"""$x \mapsto \int y\,\varphi(s(x, y))\,d\mu(y)$ for a Gaussian $\mu$."""

    averages: Averages
    score: Dot
    mu: Gaussian

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        score, mu = self.score, self.mu
        u = jnp.matmul(tokens.x, score.A.T, precision=HIGHEST) + score.a[None, :]
        projections = jnp.matmul(u, mu.factor, precision=HIGHEST)  # Yᵀu
        m = u @ mu.mean + tokens.x @ score.c + score.constant
        value, derivative = self.averages(
            m, _safe_sqrt(jnp.sum(projections**2, axis=1))
        )
        shift = jnp.matmul(projections, mu.factor.T, precision=HIGHEST)  # Σu
        return value[:, None] * mu.mean[None, :] + derivative[:, None] * shift


def exp_averages(m: Array, sigma: Array) -> tuple[Array, Array]:
    r"""Averages $E e^s = e^{m + \sigma^2/2}$ of the exponential and its derivative."""
    average = jnp.exp(m + sigma**2 / 2)
    return average, average


def relu_averages(m: Array, sigma: Array) -> tuple[Array, Array]:
    r"""$E\max(s, 0) = m\Phi(m/\sigma) + \sigma\phi(m/\sigma)$ and $P(s > 0)$."""
    ratio = jnp.where(sigma > 0, m / jnp.where(sigma > 0, sigma, 1), 40 * jnp.sign(m))
    share = norm.cdf(ratio)
    return m * share + sigma * norm.pdf(ratio), share


def sigmoid_averages(m: Array, sigma: Array) -> tuple[Array, Array]:
    r"""$E\,S(s)$ and $E\,S'(s)$ for the logistic function $S$, accurate to rounding.

    For $\sigma > 1$ the trapezoidal rule is applied to a logistic variable $l$ with
    density $S'$: $E\,S(s) = E\,\Phi((m - l)/\sigma)$, since $S$ is the distribution
    function of $l$. For smaller $\sigma$ it is applied to the normal variable.
    """
    k = jnp.arange(-_REACH, _REACH + _STEP, _STEP, dtype=m.dtype)[None, :]
    m, sigma = m[:, None], sigma[:, None]
    wide = jnp.maximum(sigma, 1)
    logistic = _STEP * jax.nn.sigmoid(k) * jax.nn.sigmoid(-k)
    normal = _STEP * norm.pdf(k)
    nodes = m + jnp.minimum(sigma, 1) * k
    logistic_terms = (norm.cdf((m - k) / wide), norm.pdf((m - k) / wide) / wide)
    rise = jax.nn.sigmoid(nodes)
    normal_terms = (rise, rise * jax.nn.sigmoid(-nodes))
    value, derivative = (
        jnp.sum(jnp.where(sigma > 1, logistic * a, normal * b), axis=1)
        for a, b in zip(logistic_terms, normal_terms, strict=True)
    )
    return value, derivative


def _safe_sqrt(square: Array) -> Array:
    """Square root whose derivative at zero is set to zero."""
    is_positive = square > 0
    return jnp.where(is_positive, jnp.sqrt(jnp.where(is_positive, square, 1)), 0)


class Relu(AbstractGaussianCoupling, AbstractClosedFormCoupling, AbstractCubic):
    r"""$\kappa_\mu(x, y) = \max(s(x, y), 0)$.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.attention import Relu
        >>> from meanfield.scores import Dot
        >>> mu = Gaussian(jnp.zeros(1), jnp.array([[2.0]]))
        >>> print(Relu().affine(Dot(jnp.eye(1), jnp.eye(1)), mu).linear)  # ΣA/2
        [[2.]]
    """

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return LinkedMean(jax.nn.relu, score, mu)

    @override
    def gaussian_barycentre(self, score: Dot, mu: Gaussian) -> AbstractField:
        return LinkedGaussianMean(relu_averages, score, mu)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = \tfrac12 \Sigma A$, for mean zero and no biases.

        By the symmetry $y \to -y$, this is exactly half the barycentre of linear
        attention; castin2025, section 2.5, overlooks this case (ERRATA C3, N4). A flow
        keeps the mean zero, so it suffices to check the initial measure. For traced
        values the result is NaN if the mean or a bias is not zero.

        Raises:
            NotClosedError: if the mean or a bias is not zero.
        """
        dot = require_dot(score, "relu")
        parts = (mu.mean, dot.query_bias, dot.key_bias)
        if any(is_concrete(part) and np.any(np.asarray(part)) for part in parts):
            raise NotClosedError(
                "ReLU attention keeps a Gaussian Gaussian only if its mean is zero and "
                "the scores have no bias. Use mean 0, points, or `projected`."
            )
        linear = mu.covariance @ dot.A / 2
        zero = jnp.all(jnp.concatenate(parts) == 0)
        return Affine(linear, jnp.where(zero, jnp.zeros_like(mu.mean), jnp.nan))


@variant("relu", "permutation", "orthogonal", cost="$n^2$")
def relu(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""ReLU attention with weights $\max(Qx\cdot Ky, 0)/\epsilon$; castin2025, 2.5."""
    return Attention(Dot(Q, K, epsilon), Relu(), V)
