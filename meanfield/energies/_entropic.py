r"""Entropic transport where potentials do not know it: small clouds, unsolved plans."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._array import is_concrete, or_nan
from meanfield.errors import SimulationFailed
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens


def is_small(mu: Points, nu: Points, epsilon: Float[Array, ""]) -> Bool[Array, ""]:
    r"""Whether scores $s$ are below $u^{1/4}$, where $u$ is what rounds.

    There the error of `leading_order`, $s^2$, is that of the potentials, $u/s^2$.
    """
    away = [jnp.max(jnp.abs(_centred(measure).tokens.x)) for measure in (mu, nu)]
    score = mu.dimension * jnp.maximum(*away) ** 2 / epsilon
    return score < jnp.finfo(score.dtype).eps ** (1 / 4)


def leading_order(
    mu: Points, nu: Points, epsilon: Float[Array, ""]
) -> Float[Array, ""]:
    r"""A Sinkhorn divergence of scores near zero, over $\epsilon$, its means apart.

    $\tfrac14|\Sigma - T|^2/\epsilon^2 + \tfrac1{12}|\Theta - \Theta'|^2/\epsilon^3$
    with third central moments $\Theta$, as sums of $(x\cdot y)^3$. Derivation: the dual
    expanded in scores. Potentials, logarithms of integrals near one, lack the digits.
    """
    one = jnp.eye(mu.dimension, dtype=mu.tokens.x.dtype)
    p, q = _centred(mu), _centred(nu)
    cubes = lambda a, b: mean_over(
        a, b.integral(_cube, Dot(one, one, epsilon), a.tokens, _ones(b))[:, 0]
    )
    third = cubes(p, p) - 2 * cubes(p, q) + cubes(q, q)
    second = jnp.sum(((mu.covariance - nu.covariance) / epsilon) ** 2)
    return second / 4 + third / 12


def _cube(score: Array) -> Array:
    return score**3


def _ones(mu: Points) -> Float[Array, "n 1"]:
    return jnp.ones((mu.tokens.n, 1), mu.tokens.x.dtype)


def _centred(mu: Points) -> Points:
    excluded = jnp.isneginf(mu.log_weights)[:, None]
    x = jnp.where(excluded, 0, mu.tokens.x - mu.mean[None, :])
    return Points(Tokens(x), mu.log_weights)


def mean_over(mu: Points, values: Float[Array, " n"]) -> Float[Array, ""]:
    """The integral of values at tokens, those excluded left out."""
    return jnp.sum(jnp.where(jnp.isneginf(mu.log_weights), 0, mu.weights * values))


def converged_value(
    value: Array, residual: Float[Array, ""], passes: int
) -> Float[Array, ""]:
    r"""A value known to its residual times the range of costs; NaN beyond $\sqrt u$.

    Raises:
        SimulationFailed: outside `jit`, where numbers are known.
    """
    most = jnp.finfo(residual.dtype).eps ** 0.5
    if is_concrete(residual) and not residual <= most:
        raise SimulationFailed(
            f"The marginals of entropic transport are off by {float(residual):.2g}, of "
            f"their logarithms, after {passes} passes: the `epsilon` (`bandwidth`) of "
            "a Sinkhorn divergence is too small for these tokens; use a larger one."
        )
    return or_nan(residual <= most, value)
