r"""Entropic transport where potentials are inaccurate, for example for small clouds."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._array import is_concrete, or_nan
from meanfield.errors import SimulationError
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens


def is_small(mu: Points, nu: Points, epsilon: Float[Array, ""]) -> Bool[Array, ""]:
    r"""Whether scores $s$ are below $u^{1/4}$, where $u$ is the unit roundoff.

    For scores of this size, the error $s^2$ of `leading_order` equals the error $u/s^2$
    of the potentials.
    """
    radii = [jnp.max(jnp.abs(_centre_points(measure).tokens.x)) for measure in (mu, nu)]
    score = mu.dimension * jnp.maximum(*radii) ** 2 / epsilon
    return score < jnp.finfo(score.dtype).eps ** (1 / 4)


def leading_order(
    mu: Points, nu: Points, epsilon: Float[Array, ""]
) -> Float[Array, ""]:
    r"""Sinkhorn divergence divided by $\epsilon$, to leading order, for zero means.

    It is $\tfrac14|\Sigma - T|^2/\epsilon^2 + \tfrac1{12}|\Theta -
    \Theta'|^2/\epsilon^3$ with third central moments $\Theta$, which are computed as
    sums of $(x\cdot y)^3$. Derivation: an expansion of the dual problem in scores. The
    potentials are too inaccurate for small scores, since they are logarithms of
    integrals near one.
    """
    identity = jnp.eye(mu.dimension, dtype=mu.tokens.x.dtype)
    p, q = _centre_points(mu), _centre_points(nu)
    score = Dot(identity, identity, epsilon)
    cubes = lambda a, b: mean_over(
        a, b.integral(_cube, score, a.tokens, jnp.ones_like(b.tokens.x[:, :1]))[:, 0]
    )
    third = cubes(p, p) - 2 * cubes(p, q) + cubes(q, q)
    second = jnp.sum(((mu.covariance - nu.covariance) / epsilon) ** 2)
    return second / 4 + third / 12


def _cube(score: Array) -> Array:
    return score**3


def _centre_points(mu: Points) -> Points:
    is_excluded = jnp.isneginf(mu.log_weights)[:, None]
    x = jnp.where(is_excluded, 0, mu.tokens.x - mu.mean[None, :])
    return Points(Tokens(x), mu.log_weights)


def mean_over(mu: Points, values: Float[Array, " n"]) -> Float[Array, ""]:
    """The integral of `values` over a measure, without its excluded tokens."""
    return jnp.sum(jnp.where(jnp.isneginf(mu.log_weights), 0, mu.weights * values))


def require_converged(
    value: Array, residual: Float[Array, ""], passes: int
) -> Float[Array, ""]:
    r"""Returns `value` if the residual is at most $\sqrt u$, and NaN otherwise.

    The error of the value is the residual times the range of the costs.

    Raises:
        SimulationError: outside `jit`, if the residual is larger.
    """
    limit = jnp.finfo(residual.dtype).eps ** 0.5
    if is_concrete(residual) and not residual <= limit:
        raise SimulationError(
            f"The log marginals of entropic transport are off by {float(residual):.2g} "
            f"after {passes} passes. Use a larger `epsilon` (the option `bandwidth`) "
            "for the Sinkhorn divergence of these tokens."
        )
    return or_nan(residual <= limit, value)
