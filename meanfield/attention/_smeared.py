r"""Barycentres of a Gaussian under pointwise weights: one dimension is left to sum.

For $y \sim N(\alpha, \Sigma)$ and a score $s = y\cdot u + c$, linear in the key, the
score is a number of law $N(m, \sigma^2)$, $m = \alpha\cdot u + c$, $\sigma^2 = u\cdot
\Sigma u$; by Stein's identity $E[y\,\varphi(s)] = \alpha\,E\varphi(s) + \Sigma u\,
E\varphi'(s)$, whatever the dimension and the rank.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.fields import AbstractExplicit, AbstractField
from meanfield.linalg import HIGHEST
from meanfield.measures import Gaussian
from meanfield.scores import Dot
from meanfield.tokens import Tokens

# From means and deviations of a score to the averages of a link and of its derivative.
Averages = Callable[[Array, Array], tuple[Array, Array]]

# Trapezoidal sums on a line err by exp(-2 pi w / h) for what is analytic in a strip of
# half width w: here pi for the logistic density, and any for the normal one.
_STEP = 0.5
_REACH = 37.0  # where both densities are below rounding


class LinkedGaussianMean(AbstractExplicit, AbstractField):
    r"""$x \mapsto \int y\,\varphi(s(x, y))\,d\mu(y)$ for a Gaussian $\mu$."""

    averages: Averages
    score: Dot
    mu: Gaussian

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        score, mu = self.score, self.mu
        u = jnp.matmul(tokens.x, score.A.T, precision=HIGHEST) + score.a[None, :]
        along = jnp.matmul(u, mu.factor, precision=HIGHEST)  # Yᵀu
        m = u @ mu.mean + tokens.x @ score.c + score.constant
        value, slope = self.averages(m, _root(jnp.sum(along**2, axis=1)))
        shift = jnp.matmul(along, mu.factor.T, precision=HIGHEST)  # Σu
        return value[:, None] * mu.mean[None, :] + slope[:, None] * shift


def exp_averages(m: Array, sigma: Array) -> tuple[Array, Array]:
    r"""$E e^s = e^{m + \sigma^2/2}$, twice."""
    both = jnp.exp(m + sigma**2 / 2)
    return both, both


def relu_averages(m: Array, sigma: Array) -> tuple[Array, Array]:
    r"""$E\max(s, 0) = m\Phi(m/\sigma) + \sigma\phi(m/\sigma)$, and $\Phi(m/\sigma)$."""
    ratio = jnp.where(sigma > 0, m / jnp.where(sigma > 0, sigma, 1), 40 * jnp.sign(m))
    share = norm.cdf(ratio)
    return m * share + sigma * norm.pdf(ratio), share


def sigmoid_averages(m: Array, sigma: Array) -> tuple[Array, Array]:
    r"""$E\,S(s)$ and $E\,S'(s)$ for the logistic $S$, to rounding at every width.

    For $\sigma \geq 1$ over the logistic variable $l$ of density $S'$: $E\,S(s) =
    E\,\Phi((m - l)/\sigma)$, for $S$ is its distribution; for less over the normal one.
    """
    k = jnp.arange(-_REACH, _REACH + _STEP, _STEP, dtype=m.dtype)[None, :]
    m, sigma = m[:, None], sigma[:, None]
    wide = jnp.maximum(sigma, 1)
    logistic = _STEP * jax.nn.sigmoid(k) * jax.nn.sigmoid(-k)
    normal = _STEP * norm.pdf(k)
    near = m + jnp.minimum(sigma, 1) * k
    by_logistic = (norm.cdf((m - k) / wide), norm.pdf((m - k) / wide) / wide)
    rise = jax.nn.sigmoid(near)
    by_normal = (rise, rise * jax.nn.sigmoid(-near))
    value, slope = (
        jnp.sum(jnp.where(sigma > 1, logistic * a, normal * b), axis=1)
        for a, b in zip(by_logistic, by_normal, strict=True)
    )
    return value, slope


def _root(square: Array) -> Array:
    """The square root, of slope zero at zero."""
    there = square > 0
    return jnp.where(there, jnp.sqrt(jnp.where(there, square, 1)), 0)
