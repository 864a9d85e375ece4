r"""Both potentials of a Sinkhorn plan $e^{s + f(x) + g(y)}$, as functions of tokens."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.errors import UnsupportedError
from meanfield.fields import Convergence
from meanfield.measures import Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Masked, transpose
from meanfield.scores.balanced_score import BalancedScore
from meanfield.scores.centring import balance_score
from meanfield.tokens import Tokens

from .potentials import half_step, solve_potential


class Scalings(eqx.Module):
    r"""Potentials $f$ and $g$ such that both marginals of $e^{s + f + g}$ are $\mu$.

    For any constant $\eta$, the pair $(f + \eta, g - \eta)$ is equivalent. For
    quadratic scores, the problem is solved in deviations from the mean, which reduces
    rounding errors; `rows` and `columns` return potentials of the original score.

    Attributes:
        original: the original score, $s$.
        score: the score that is used in the solution; it differs from `original` by a
            function of the query plus a function of the key.
        mu: the measure.
        f: the potential of the queries for `score`, at the tokens, in units of scores.
        g: the potential of the keys for `score`, at the tokens, in units of scores.
        origin: the point from which deviations in `score` are measured.
        convergence: convergence of the potentials.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import scalings
        >>> from meanfield.scores import Dot
        >>> mu, score = Points.uniform([[0.0], [1.0]]), Dot(jnp.eye(1), jnp.eye(1))
        >>> potentials = scalings(score, mu)
        >>> f, g = potentials.rows(mu.tokens), potentials.columns(mu.tokens)
        >>> plan = jnp.exp(score(mu.tokens, mu.tokens) + f[:, None] + g[None, :]) / 4
        >>> print(plan.sum(axis=0), plan.sum(axis=1))
        [0.5 0.5] [0.5 0.5]
    """

    original: AbstractScore
    score: AbstractScore
    mu: Points
    f: Float[Array, " n"]
    g: Float[Array, " n"]
    origin: Float[Array, " d"]
    convergence: Convergence

    def rows(self, tokens: Tokens) -> Float[Array, " n"]:
        r"""$f(x) = -\log\int e^{s(x, y) + g(y)}\,d\mu(y)$ at arbitrary tokens."""
        f = -self.mu.log_integral(self.score, tokens, self.g)
        return f - self.query_part(tokens)

    def columns(self, tokens: Tokens) -> Float[Array, " n"]:
        r"""$g(y) = -\log\int e^{s(x, y) + f(x)}\,d\mu(x)$ at arbitrary tokens."""
        g = -self.mu.log_integral(transpose(self.score), tokens, self.f)
        return g - self.key_part(tokens)

    def query_part(self, tokens: Tokens) -> Float[Array, " n"]:
        """The part of the difference `original - score` that depends on the query."""
        s, x = self.original, tokens.x
        if not isinstance(s, AbstractQuadraticScore):
            return jnp.zeros(tokens.n, x.dtype)
        shift = s.A.T @ self.origin
        part = s.query_terms(x) + (x - self.origin[None]) @ shift
        return part + _square(self.score, x)

    def key_part(self, tokens: Tokens) -> Float[Array, " n"]:
        """The part of the difference `original - score` that depends on the key."""
        s, y = self.original, tokens.x
        if not isinstance(s, AbstractQuadraticScore):
            return jnp.zeros(tokens.n, y.dtype)
        part = s.key_terms(y) + y @ (s.A @ self.origin)
        return part + _square(transpose(self.score), y)


def scalings(
    score: AbstractScore,
    mu: Points,
    *,
    tolerance: float | None = None,
    max_iterations: int = 1000,
) -> Scalings:
    r"""The potentials of converged Sinkhorn attention; castin2025, eqs. (2.4), (A.2).

    Args:
        score: $s$.
        mu: the tokens.
        tolerance: largest accepted |log marginal|; by default it depends on the dtype.
        max_iterations: number of passes after which the potentials count as
            unconverged.

    Raises:
        UnsupportedError: if the score is masked.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import scalings
        >>> from meanfield.scores import Dot
        >>> potentials = scalings(
        ...     Dot(jnp.eye(1), jnp.eye(1)), Points.uniform([[0.0], [1.0]])
        ... )
        >>> bool(potentials.convergence.residual < 1e-10)
        True
    """
    check_unmasked(score)
    quadratic = isinstance(score, AbstractQuadraticScore)
    balanced_score = balance_score(score, mu.mean) if quadratic else score
    g, convergence = solve_potential(
        balanced_score, mu, tolerance=tolerance, max_iterations=max_iterations
    )
    origin = jax.lax.stop_gradient(mu.mean)  # `balance_score` uses the same origin
    f = half_step(balanced_score, mu, g)
    return Scalings(score, balanced_score, mu, f, g, origin, convergence)


def _square(score: AbstractScore, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """The squared queries that a `BalancedScore` subtracts; zero for other scores."""
    if isinstance(score, BalancedScore):
        return score.square_of_queries(x)
    return jnp.zeros(len(x), x.dtype)


def check_unmasked(score: AbstractScore) -> None:
    """Raises if `score` is masked, since its marginals cannot both be normalised.

    Raises:
        UnsupportedError: if the score is masked.
    """
    if isinstance(score, Masked):
        raise UnsupportedError(
            "Sinkhorn cannot mask its scores (a causal plan with equal marginals "
            "is the identity). Wrap the attention in `Prefix` instead."
        )
