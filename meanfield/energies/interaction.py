r"""The interaction energy $\tfrac12\iint e^{s(x,y)}\,d\mu(x)\,d\mu(y)$."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._lapack import eigvalsh
from meanfield._typing import Numbers, Scalar
from meanfield.errors import NotClosedError
from meanfield.fields import AbstractExplicit
from meanfield.linalg import psd_sqrt
from meanfield.measures import Gaussian, Points
from meanfield.scores import (
    AbstractQuadraticScore,
    AbstractScore,
    Dot,
    SquaredDistance,
    transpose,
)
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, energy_of_attention
from ._variation import AbstractVariation


class Interaction(AbstractEnergy):
    r"""$E(\mu) = \tfrac12\iint e^{s(x,y)}\,d\mu(x)\,d\mu(y)$, for any score.

    The first variation is $\tfrac12\int (e^{s(x,y)} + e^{s(y,x)})\,d\mu(y)$, with no
    constant added. For a `Dot` score with symmetric $A$, the gradient flow is
    unnormalised attention with $V = -A$. In a `TwistedMetric` it is softmax attention.

    Source: castin2025, section 5.4; sander2022, section 4, $\mathcal F^0$.

    Attributes:
        score: $s$, symmetric or not.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.energies import Interaction
        >>> from meanfield.scores import Dot
        >>> energy = Interaction(Dot(jnp.eye(1), jnp.eye(1)))
        >>> print(energy(Points.uniform([[-1.0], [1.0]])), np.cosh(1) / 2)
        0.77154... 0.77154...
    """

    score: AbstractScore

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        rows = mu.log_integral(self.score, mu.safe_tokens)
        value = jnp.exp(jax.nn.logsumexp(rows + mu.log_weights)) / 2
        if mu.zero_weights is None:
            return value
        largest = jnp.log(jnp.finfo(rows.dtype).max) / 2  # finite, so that 0·exp is 0
        return value + mu.zero_weights @ jnp.exp(jnp.minimum(rows, largest)) / 2

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        r"""The closed form for quadratic scores; $+\infty$ if the integral diverges.

        For a `Dot` score without biases it is $\tfrac12\det(I - A\Sigma A^\top
        \Sigma)^{-1/2} \exp(\tfrac12\alpha\cdot[(A + \Sigma^{-1})^\top(\Sigma^{-1} -
        A\Sigma A^\top)^{-1}(A + \Sigma^{-1}) - \Sigma^{-1}]\alpha)$, and finite where
        $\Sigma^{-1} \succ A\Sigma A^\top$. Source: castin2025, section 5.4, without the
        printed absolute value of the determinant (ERRATA C21).

        Raises:
            NotClosedError: if the score is not quadratic.
        """
        score = _require_quadratic(self.score)
        if isinstance(score, SquaredDistance):
            Q, K = score.Q, score.K
            spread = Q @ covariance @ Q.T + K @ covariance @ K.T
            return jnp.exp(_log_distance(((Q - K) @ mean)[None], spread, score)[0]) / 2
        return jnp.exp(_log_double(score, mean, covariance)) / 2

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return PointsVariation(self.score, mu)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        if isinstance(self.score, SquaredDistance):
            return DistanceVariation(self.score, mu)
        return GaussianVariation(_require_quadratic(self.score), mu)


class PointsVariation(AbstractExplicit, AbstractVariation):
    """The first variation of an interaction energy at weighted tokens."""

    score: AbstractScore
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        query_logs = self.mu.log_integral(self.score, tokens)
        key_logs = self.mu.log_integral(transpose(self.score), tokens)
        return (jnp.exp(query_logs) + jnp.exp(key_logs)) / 2


class DistanceVariation(AbstractExplicit, AbstractVariation):
    """The first variation of an interaction at a Gaussian, for `SquaredDistance`."""

    score: SquaredDistance
    mu: Gaussian

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        Q, K, Y = self.score.Q, self.score.K, self.mu.factor
        log_mean = lambda x, y: _log_distance(
            tokens.x @ x.T - (y @ self.mu.mean)[None, :], y @ Y @ (y @ Y).T, self.score
        )
        return (jnp.exp(log_mean(Q, K)) + jnp.exp(log_mean(K, Q))) / 2


class GaussianVariation(AbstractExplicit, AbstractVariation):
    """The first variation of an interaction at a Gaussian, for a quadratic score."""

    score: AbstractQuadraticScore
    mu: Gaussian

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        s, x = self.score, tokens.x
        query_logs = _log_single(self.mu, s.B, x @ s.A.T + s.a[None, :])
        key_logs = _log_single(self.mu, s.C, x @ s.A + s.c[None, :])
        query_terms, key_terms = s.query_terms(x), s.key_terms(x) + s.constant
        return (jnp.exp(query_logs + query_terms) + jnp.exp(key_logs + key_terms)) / 2


def _log_distance(
    means: Float[Array, "n k"], spread: Float[Array, "k k"], score: SquaredDistance
) -> Float[Array, " n"]:
    r"""$\log\int e^{-|u|^2/\epsilon}\,dN(m, S)(u)$ for each mean $m$.

    It is $-\tfrac12\log\det G - \tfrac1\epsilon m\cdot G^{-1}m$ with
    $G = I + 2S/\epsilon$. The formula for general scores would lose digits, since its
    terms are of the size of $|S|/\epsilon$ and cancel.
    """
    G = jnp.eye(spread.shape[0], dtype=spread.dtype) + 2 * spread / score.epsilon
    far = jnp.sum(means * jnp.linalg.solve(G, means.T).T, axis=1)
    return -far / score.epsilon - jnp.linalg.slogdet(G)[1] / 2


def _log_single(
    mu: Gaussian, B: Float[Array, "d d"], coefficients: Float[Array, "n d"]
) -> Float[Array, " n"]:
    r"""$\log\int e^{y\cdot u - \frac12 y\cdot By}\,d\mu(y)$ for each coefficient $u$.

    With $y = \alpha + Yw$, $G = I + Y^\top BY$ and $p = Y^\top(u - B\alpha)$, it is
    $u\cdot\alpha - \tfrac12\alpha\cdot B\alpha - \tfrac12\log\det G +
    \tfrac12 p\cdot G^{-1}p$. It is $+\infty$ unless $G \succ 0$.
    """
    alpha, Y = mu.mean, mu.factor
    gram = jnp.eye(Y.shape[1], dtype=Y.dtype) + Y.T @ B @ Y
    p = (coefficients - (B @ alpha)[None, :]) @ Y
    root = jnp.linalg.cholesky(gram)
    half = jax.scipy.linalg.solve_triangular(root, p.T, lower=True)
    log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(root)))
    value = coefficients @ alpha - alpha @ B @ alpha / 2
    value = value + (jnp.sum(half**2, axis=0) - log_det) / 2
    return jnp.where(jnp.isnan(log_det), jnp.inf, value)


def _log_double(
    score: AbstractQuadraticScore,
    mean: Float[Array, " d"],
    covariance: Float[Array, "d d"],
) -> Float[Array, ""]:
    r"""$\log\iint e^{s}\,dN\,dN$, which is smooth even at a singular $\Sigma$.

    Pairs $z = (x, y)$ have the mean $m = (\alpha, \alpha)$ and the covariance $D =
    \mathrm{diag}(\Sigma, \Sigma)$. Their score is $e + p\cdot z - \tfrac12 z\cdot Nz$
    with $N = ((C, -A^\top), (-A, B))$ and $p = (c, a)$. The integral is
    $e^{s(m)}\det(I + DN)^{-1/2}\exp(\tfrac12 q\cdot(I + DN)^{-1}Dq)$ with $q = p -
    Nm$, and finite where $I + D^{1/2}ND^{1/2} \succ 0$.
    """
    N = jnp.block([[score.C, -score.A.T], [-score.A, score.B]])
    D = jax.scipy.linalg.block_diag(covariance, covariance)
    m = jnp.concatenate([mean, mean])
    p = jnp.concatenate([score.c, score.a])
    system = jnp.eye(len(m), dtype=m.dtype) + D @ N
    q = p - N @ m
    mean_score = score.constant + p @ m - m @ N @ m / 2
    log_det = jnp.linalg.slogdet(system)[1]
    value = mean_score + (q @ jnp.linalg.solve(system, D @ q) - log_det) / 2
    return jnp.where(_is_integrable(N, covariance), value, jnp.inf)


def _is_integrable(N: Float[Array, "p p"], covariance: Float[Array, "d d"]) -> Array:
    root = psd_sqrt(jax.lax.stop_gradient(covariance))
    roots = jax.scipy.linalg.block_diag(root, root)
    inner = roots @ jax.lax.stop_gradient(N) @ roots
    return eigvalsh(inner)[0] > -1


def _require_quadratic(score: AbstractScore) -> AbstractQuadraticScore:
    if not isinstance(score, AbstractQuadraticScore):
        raise NotClosedError(
            f"An interaction with a `{type(score).__name__}` score has no closed form "
            "on a Gaussian. Use a quadratic score (`Dot`, `SquaredDistance`), or "
            "points."
        )
    return score


@energy_of_attention("interaction", "softmax", "exp")
def interaction(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0
) -> Interaction:
    r"""Half the mean of the exponential of $Qx \cdot Ky/\epsilon$ over all pairs."""
    del V
    return Interaction(Dot(Q, K, epsilon))


@energy_of_attention("interaction-l2", "l2")
def interaction_l2(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0
) -> Interaction:
    r"""Half the mean of the exponential of $-|Qx - Ky|^2/\epsilon$ over all pairs."""
    del V
    return Interaction(SquaredDistance(Q, K, epsilon))
