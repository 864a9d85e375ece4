r"""Both potentials of a Sinkhorn plan $e^{s + f(x) + g(y)}$, at any tokens."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.errors import UnsupportedError
from meanfield.fields import Convergence
from meanfield.measures import Points
from meanfield.scores import (
    AbstractQuadraticScore,
    AbstractScore,
    Masked,
    transposed,
)
from meanfield.scores.balanced import Balanced
from meanfield.scores.centring import balanced
from meanfield.tokens import Tokens

from .potentials import converged_potential, half_step


class Scalings(eqx.Module):
    r"""$f$ and $g$ with both marginals of $e^{s + f + g}$ equal to $\mu$.

    Determined up to $(f + \eta, g - \eta)$. Quadratic scores are solved for in
    deviations from the mean, with less rounding; `rows` and `columns` speak of the
    score that was asked for.

    Attributes:
        given: the score that was asked for, $s$.
        score: the one solved for; the difference is a sum of functions of one token.
        mu: the measure.
        f: the potential of queries for `score`, at the tokens, in units of scores.
        g: the potential of keys for `score`, likewise.
        origin: what `score` measures states from.
        convergence: how well they were solved for.

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

    given: AbstractScore
    score: AbstractScore
    mu: Points
    f: Float[Array, " n"]
    g: Float[Array, " n"]
    origin: Float[Array, " d"]
    convergence: Convergence

    def rows(self, tokens: Tokens) -> Float[Array, " n"]:
        r"""$f(x) = -\log\int e^{s(x, y) + g(y)}\,d\mu(y)$ at any tokens."""
        f = -self.mu.log_integral(self.score, tokens, self.g)
        return f - self.query_part(tokens)

    def columns(self, tokens: Tokens) -> Float[Array, " n"]:
        r"""$g(y) = -\log\int e^{s(x, y) + f(x)}\,d\mu(x)$ at any tokens."""
        g = -self.mu.log_integral(transposed(self.score), tokens, self.f)
        return g - self.key_part(tokens)

    def query_part(self, tokens: Tokens) -> Float[Array, " n"]:
        """What `given` has more than `score` that depends on the query."""
        s, x = self.given, tokens.x
        if not isinstance(s, AbstractQuadraticScore):
            return jnp.zeros(tokens.n, x.dtype)
        shift = s.A.T @ self.origin
        part = s.of_queries(x) + (x - self.origin[None]) @ shift
        return part + _square(self.score, x)

    def key_part(self, tokens: Tokens) -> Float[Array, " n"]:
        """What `given` has more than `score` that depends on the key."""
        s, y = self.given, tokens.x
        if not isinstance(s, AbstractQuadraticScore):
            return jnp.zeros(tokens.n, y.dtype)
        part = s.of_keys(y) + y @ (s.A @ self.origin)
        return part + _square(transposed(self.score), y)


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
        tolerance: on the sup of |log marginal|; `None` scales with the dtype.
        max_iterations: passes after which they report themselves unconverged.

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
    refuse_masked(score)
    quadratic = isinstance(score, AbstractQuadraticScore)
    solved = balanced(score, mu.mean) if quadratic else score
    g, convergence = converged_potential(
        solved, mu, tolerance=tolerance, max_iterations=max_iterations
    )
    origin = jax.lax.stop_gradient(mu.mean)  # as `centred` takes it
    f = half_step(solved, mu, g)
    return Scalings(score, solved, mu, f, g, origin, convergence)


def _square(score: AbstractScore, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """What a bilinear score has more than its squared distance, of the queries."""
    if isinstance(score, Balanced):
        return score.square_of_queries(x)
    return jnp.zeros(len(x), x.dtype)


def refuse_masked(score: AbstractScore) -> None:
    """Sinkhorn normalises both marginals, which a mask does not allow.

    Raises:
        UnsupportedError: if the score is masked.
    """
    if isinstance(score, Masked):
        raise UnsupportedError(
            "Sinkhorn cannot mask its scores (a causal plan with equal marginals "
            "is the identity); wrap the attention in `Prefix` instead."
        )
