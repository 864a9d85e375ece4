r"""Sinkhorn potentials: the $g$ that makes both marginals of $\kappa_\mu$ equal $\mu$.

With $f(x) = -\log\int e^{s(x,y) + g(y)} d\mu(y)$ rows are normalised by construction; the
potential solves the column equation $g(y) = -\log\int e^{s(x,y) + f(x)} d\mu(x)$.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.fields import Convergence
from meanfield.fixed_point import anderson
from meanfield.linalg import entropic_shrinkage
from meanfield.measures import Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Transposed


def half_step(
    score: AbstractScore, mu: Points, potential: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Minus the log-integral of `score + potential`, at the tokens themselves."""
    negated = -mu.log_integral(score, mu.tokens, potential)
    # An excluded token has no marginal to match: any finite value will do.
    return jnp.where(jnp.isneginf(mu.log_weights), 0, negated)


def full_step(
    score: AbstractScore, mu: Points, g: Float[Array, " n"]
) -> Float[Array, " n"]:
    """One alternation: rows, then columns."""
    return half_step(Transposed(score), mu, half_step(score, mu, g))


def converged_potential(
    score: AbstractScore, mu: Points, *, tolerance: float, max_iterations: int
) -> tuple[Float[Array, " n"], Convergence]:
    r"""The potential $g$, to `tolerance` in the sup of |log marginal|.

    Derivatives go through the equation, not through the iteration. Only the bilinear
    part of a quadratic score matters and only it is used. Where that part is symmetric
    positive semidefinite the averaging map $g \mapsto (g + c(g))/2$ is accelerated,
    which contracts by one half whatever the bandwidth; elsewhere the alternation is.
    """
    frozen = jax.lax.stop_gradient((score, mu))
    found = _solve(*frozen, tolerance=tolerance, max_iterations=max_iterations)
    tol = jnp.asarray(tolerance, found[1].dtype)
    return _with_derivative(score, mu, found[0]), Convergence(found[1], tol)


def _solve(
    score: AbstractScore, mu: Points, *, tolerance: float, max_iterations: int
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    if isinstance(score, AbstractQuadraticScore):
        guess = gaussian_potential(score.A, mu)
        symmetric = _symmetric_positive(score.A)
    else:
        guess = jnp.zeros_like(mu.log_weights)
        symmetric = jnp.asarray(False)

    def averaged(g: Array) -> Array:
        half = (half_step(score, mu, g) - g) / 2
        # The constant is a mode of its own; one Newton step removes it.
        counted = ~jnp.isneginf(mu.log_weights)
        return g + jnp.where(counted, half + jnp.sum(mu.weights * half), 0)

    step = lambda g: jax.lax.cond(
        symmetric, averaged, lambda g: full_step(score, mu, g), g
    )
    # |averaged(g) - g| is half of |log marginal|; ask for half to mean the same.
    limit = tolerance / 2
    found = anderson(step, guess, tolerance=limit, max_evaluations=max_iterations)
    return found.point, jnp.where(symmetric, 2, 1) * found.residual


def _with_derivative(
    score: AbstractScore, mu: Points, g: Float[Array, " n"]
) -> Float[Array, " n"]:
    r"""`g` as a differentiable function of the score and the measure.

    At the solution the alternation $T$ has $T'(g) = P^*P$ with $P$ the conditional
    expectation under the plan: self-adjoint in $L^2(\mu)$, with the constants as its
    fixed vectors. In the variable $\sqrt{w} g$, and with the constants pinned by
    their mean, $I - T'$ is symmetric positive definite and conjugate gradients apply.
    """
    counted = ~jnp.isneginf(mu.log_weights)
    root = jax.lax.stop_gradient(jnp.where(counted, jnp.sqrt(mu.weights), 1))
    pinned = jax.lax.stop_gradient(jnp.where(counted, root, 0))

    def equation(h: Array) -> Array:
        residual = h - root * full_step(score, mu, h / root)
        drift = pinned @ (h - jax.lax.stop_gradient(root * g))
        return jnp.where(counted, residual + pinned * drift, h)

    def linear_solve(matvec: object, rhs: Array) -> Array:
        cg = lambda mv, b: jax.scipy.sparse.linalg.cg(
            mv, b, tol=_cg_tolerance(b), maxiter=500
        )[0]
        return jax.lax.custom_linear_solve(matvec, rhs, cg, symmetric=True)

    solution = jax.lax.stop_gradient(root * g)
    root_of = jax.lax.custom_root(
        equation, solution, lambda _, guess: guess, linear_solve
    )
    return root_of / root


def _cg_tolerance(b: Array) -> float:
    return float(jnp.finfo(b.dtype).eps) ** 0.75


def _symmetric_positive(A: Float[Array, "d d"]) -> Array:
    scale = jnp.max(jnp.abs(A))
    slack = 10 * A.shape[0] * jnp.finfo(A.dtype).eps * scale
    symmetric = jnp.all(jnp.abs(A - A.T) <= slack)
    return symmetric & (jnp.linalg.eigvalsh((A + A.T) / 2)[0] >= -slack)


def gaussian_potential(A: Float[Array, "d d"], mu: Points) -> Float[Array, " n"]:
    r"""The potential of the Gaussian with the moments of `mu`, up to a constant.

    $g(y) = -y\cdot A\alpha - \tfrac12 z\cdot (1/h) z$ with $z = Y^\top A^\top(y-\alpha)$
    and $1/h$ the entropic shrinkage of $(Y^\top A Y)^\top$: the solution itself when `mu`
    is a Gaussian's quadrature.
    """
    alpha = mu.mean
    values, U = jnp.linalg.eigh(mu.covariance)
    Y = U * jnp.sqrt(jnp.maximum(values, 0))
    shrinkage = entropic_shrinkage((Y.T @ A @ Y).T)
    y = jnp.where(jnp.isneginf(mu.log_weights)[:, None], alpha, mu.tokens.x)
    z = (y - alpha) @ A @ Y
    return -y @ (A @ alpha) - jnp.sum((z @ shrinkage) * z, axis=1) / 2
