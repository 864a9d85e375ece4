r"""Sinkhorn potentials, for which both marginals of $\kappa_\mu$ are $\mu$.

The potential $f(x) = -\log\int e^{s(x,y) + g(y)} d\mu(y)$ normalises the rows. The
potential $g$ solves the equation of the columns,
$g(y) = -\log\int e^{s(x,y) + f(x)} d\mu(x)$.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox.internal import unvmap_any
from jaxtyping import Array, Bool, Float

from meanfield._derivatives import custom_derivative
from meanfield._lapack import eigvalsh
from meanfield._programs import compile_once
from meanfield.fields import Convergence
from meanfield.linalg import (
    eigh,
    entropic_shrinkage,
    solve_positive,
    sqrt_one_plus_four,
)
from meanfield.measures import (
    AbstractPlannedReduction,
    Points,
    use_exact_sums,
    use_unchecked_cells,
)
from meanfield.scores import AbstractQuadraticScore, AbstractScore
from meanfield.scores.balanced_score import BalancedScore
from meanfield.scores.differences import choose_by_rounding, size_of_scores

from ._annealing import Steps, solve_in_stages
from ._newton import plain_alternation
from ._steps import full_step, half_step, has_weight, interpolation_error

# In the worst of 600 plans, the error of velocities was 1.4 times the error of the log
# marginals. The potentials are therefore solved to an eighth of the tolerance.
POTENTIALS = 8
# The smallest log marginals that can be reached are between 0.3 and 1 times the
# rounding error of the largest score.
ROUNDINGS = 2
_NO_DERIVATIVE = (
    "The derivative of Sinkhorn potentials did not converge: conjugate gradients "
    "missed their tolerance after 500 iterations. Raise `epsilon`."
)


@compile_once
def solve_potential(
    score: AbstractScore,
    mu: Points,
    queries: Points | None = None,
    *,
    tolerance: float | None,
    max_iterations: int,
    guess: Float[Array, " n"] | None = None,
) -> tuple[Float[Array, " n"], Convergence]:
    r"""The potential $g$, for which each |log marginal| is at most `tolerance`.

    If `tolerance` is `None`, it is the largest of three numbers: $\epsilon^{2/3}$ of
    the dtype, the rounding error of the scores (at most $\epsilon^{1/3}$), and the
    accuracy of interpolated sums. Larger rounding errors are reported as a residual.

    Derivatives follow from the equation for $g$, not from the iteration. Quadratic
    scores must be centred, that is, bilinear in deviations from the mean. If `A` is
    symmetric positive semidefinite, the iteration is accelerated averaging,
    $g \mapsto (g + c(g))/2$, which contracts by one half at any bandwidth; otherwise it
    is accelerated alternation. If the iteration stalls, Newton's method follows: for
    the full score if steps were averaged or the residual is small, otherwise for a
    decreasing bandwidth. If all Newton steps are too long, plain alternation follows.
    Each pass over rows and columns counts as one of `max_iterations`; one further pass
    may be needed to compute the residual.

    If `queries` is a measure other than `mu`, it must have the same mass. The result is
    then the potential of the keys for the plan between the two measures, which is found
    by alternation for any `A`.

    The iteration starts from `guess`, by default the potential of Gaussians.
    """
    constants = jax.lax.stop_gradient((score, mu, queries, guess))
    g, convergence = _solve(*constants, tolerance=tolerance, limit=max_iterations)
    return _add_derivative(score, mu, g, queries), convergence


def _solve(
    score: AbstractScore,
    mu: Points,
    queries: Points | None,
    guess: Float[Array, " n"] | None,
    *,
    tolerance: float | None,
    limit: int,
) -> tuple[Float[Array, " n"], Convergence]:
    pair = mu, queries
    mu, queries = use_unchecked_cells(pair)
    begin, symmetric = _guess(score, mu, queries)
    begin = begin if guess is None else guess
    target = (
        _tolerance(score, mu, queries, begin)
        if tolerance is None
        else jnp.asarray(tolerance)
    )
    steps = Steps(score, mu, symmetric, queries)
    goal = {"tolerance": target, "limit": limit}
    solution = solve_in_stages(steps, begin, **goal)
    solution = plain_alternation(score, mu, solution, queries=queries, **goal)
    sum_error = interpolation_error(score, *pair, solution.point)
    rounding = _rounding(score, *pair, solution.point)
    residual = jnp.maximum(solution.residual, jnp.maximum(sum_error, rounding))
    target, g = target.astype(residual.dtype), solution.point
    if mu.zero_weights is not None:  # excluded tokens have no marginal to solve for
        g = jnp.where(has_weight(mu), g, full_step(score, mu, g, queries))
    return g, Convergence(residual, target, solution.evaluations)


def _guess(
    score: AbstractScore, mu: Points, queries: Points | None
) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
    """Initial potential, and whether the averaging map can be used."""
    if not isinstance(score, AbstractQuadraticScore):
        return jnp.zeros_like(mu.log_weights), jnp.zeros((), bool)
    guess = gaussian_potential(score, mu, queries)
    if queries is not None:
        return guess, jnp.zeros((), bool)
    return guess, _is_semidefinite(score.A)


def _tolerance(
    score: AbstractScore, mu: Points, queries: Points | None, guess: Float[Array, " n"]
) -> Float[Array, ""]:
    eps = jnp.finfo(guess.dtype).eps
    size = jnp.maximum(jnp.max(jnp.abs(guess)), _largest(score, mu, queries))
    # A rounding error above the upper bound does not raise the tolerance; instead it is
    # reported as part of the residual.
    tolerance = jnp.clip(ROUNDINGS * eps * size, eps ** (2 / 3), eps ** (1 / 3))
    how = mu.reduction
    share = (
        how.tolerance / POTENTIALS if isinstance(how, AbstractPlannedReduction) else 0.0
    )
    return jnp.maximum(tolerance, share)


def _largest(
    score: AbstractScore, mu: Points, queries: Points | None
) -> Float[Array, ""]:
    """Largest absolute inner product with the longest query or key vector.

    The result is 0 if scores are not inner products, or are computed from differences.
    """
    if not isinstance(score, AbstractQuadraticScore):
        return jnp.zeros((), mu.log_weights.dtype)
    query_points = mu if queries is None else queries
    parts = score.factors(query_points.safe_tokens, mu.safe_tokens)
    longest = lambda rows: rows[jnp.argmax(jnp.sum(rows**2, axis=1))]
    query_bound = jnp.max(jnp.abs(parts.query @ longest(parts.key)))
    key_bound = jnp.max(jnp.abs(parts.key @ longest(parts.query)))
    largest = jnp.maximum(query_bound, key_bound)
    if not isinstance(score, BalancedScore):
        return largest
    size = size_of_scores(parts.key, parts.query.T, parts.key_term)
    zero = lambda: jnp.zeros_like(largest)
    return choose_by_rounding(size, len(score.N), zero, lambda: largest)


def _rounding(
    score: AbstractScore, mu: Points, queries: Points | None, g: Float[Array, " n"]
) -> Float[Array, ""]:
    """Rounding error of both potentials, or 0 if it is too small to matter.

    The marginals do not show this error: they may be exact for rounded scores.
    """
    zero = jnp.zeros((), g.dtype)
    if not isinstance(score, BalancedScore):
        return zero
    eps = jnp.finfo(g.dtype).eps
    query_points = mu if queries is None else queries
    squares = (
        score.square_of_queries(query_points.safe_tokens.x),
        score.square_of_keys(mu.safe_tokens.x),
    )
    largest = sum(map(jnp.max, squares), zero)

    def rounding() -> Float[Array, ""]:
        f = half_step(score, use_exact_sums(mu), g, queries)
        error = 2 * eps * (jnp.max(jnp.abs(f)) + jnp.max(jnp.abs(g)))
        return jnp.where(error > eps ** (1 / 3), error, 0)

    is_large = unvmap_any(2 * eps * largest > eps ** (1 / 3))
    return jax.lax.cond(is_large, rounding, lambda: zero)


def _add_derivative(
    score: AbstractScore, mu: Points, g: Float[Array, " n"], queries: Points | None
) -> Float[Array, " n"]:
    r"""`g` as a differentiable function of the score and the measures.

    At the solution the alternation $T$ has the derivative $T'(g) = P^*P$, where $P$ is
    the conditional expectation under the plan. This derivative is self-adjoint in
    $L^2(\mu)$ and fixes the constants. In the variable $\sqrt{w} g$, and with the mean
    of $g$ prescribed, $I - T'$ is symmetric positive definite, so conjugate gradients
    apply.
    """
    arrays, rest = eqx.partition((score, mu, queries), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def equation(h: Array, solution: Array, *leaves: Array) -> Array:
        whole = jax.tree.unflatten(structure, leaves)
        score, mu, queries = eqx.combine(whole, rest)
        has_mass, root = has_weight(mu), _roots(mu)
        pin = jnp.where(has_mass, root, 0)
        residual = h - root * full_step(score, mu, h / root, queries)
        drift = pin @ (h - solution)
        return jnp.where(has_mass, residual + pin * drift, h)

    def rule(h: Array, primals: tuple, tangents: tuple) -> Array:
        residual = lambda *parameters: equation(h, *parameters)
        _, tangent = eqx.filter_jvp(residual, primals, tangents)
        _, matvec = jax.linearize(lambda h: equation(h, *primals), h)
        return jax.lax.custom_linear_solve(matvec, -tangent, _solve_cg, symmetric=True)

    root = _roots(mu)
    solution = jax.lax.stop_gradient(root * g)
    return (
        custom_derivative(rule)(lambda solution, *_: solution)(solution, *leaves) / root
    )


def _roots(mu: Points) -> Float[Array, " n"]:
    # Derivatives are also taken through these square roots of the weights, so that the
    # linear operator for second derivatives is symmetric.
    least = jnp.log(jnp.finfo(mu.log_weights.dtype).tiny)  # makes roots safe divisors
    logs = jnp.where(has_weight(mu), jnp.maximum(mu.log_weights, least), 0)
    return jnp.exp(logs / 2)


def _solve_cg(matvec: Callable[[Array], Array], b: Array) -> Array:
    """Solution by conjugate gradients; raises if they do not converge."""
    rtol = float(jnp.finfo(b.dtype).eps) ** 0.75
    x, _ = jax.scipy.sparse.linalg.cg(matvec, b, tol=rtol, maxiter=500)
    has_failed = jnp.linalg.norm(matvec(x) - b) > rtol**0.5 * jnp.linalg.norm(b)
    return x * eqx.error_if(jnp.ones((), x.dtype), has_failed, _NO_DERIVATIVE)


def _is_semidefinite(A: Float[Array, "d d"]) -> Array:
    scale = jnp.max(jnp.abs(A))
    slack = 10 * A.shape[0] * jnp.finfo(A.dtype).eps * scale
    symmetric = jnp.all(jnp.abs(A - A.T) <= slack)
    smallest = eigvalsh(jax.lax.stop_gradient(A + A.T) / 2)[0]
    return symmetric & (smallest >= -slack)


def gaussian_potential(
    score: AbstractQuadraticScore, mu: Points, queries: Points | None = None
) -> Float[Array, " n"]:
    r"""The potential of Gaussians with the moments of the tokens, up to a constant.

    It is $g(y) = -y\cdot (A\alpha_X + a) - \tfrac12 z\cdot (1/h) z$ with
    $z = X^\top A^\top(y-\alpha)$, where $1/h$ is the entropic shrinkage of
    $(Y^\top A X)^\top$. Here $\alpha$ and $YY^\top$ are the mean and the covariance of
    `mu`, and $\alpha_X$ and $XX^\top$ are those of the queries. If both measures are
    quadratures of Gaussians, this is the exact potential.
    """
    A, Y = score.A, _root_of_covariance(mu)
    query_points, X = (
        (mu, Y) if queries is None else (queries, _root_of_covariance(queries))
    )
    shrinkage = entropic_shrinkage((Y.T @ A @ X).T)
    y = mu.safe_tokens.x
    z = (y - mu.mean[None, :]) @ A @ X
    bilinear = -jnp.sum((z @ shrinkage) * z, axis=1) / 2
    if not isinstance(score, BalancedScore):
        return bilinear - y @ (A @ query_points.mean + score.a)
    potential = bilinear + score.square_of_keys(y)
    is_one = jnp.all(score.M == score.N) & (queries is None)
    return jnp.where(is_one, _potential_of_distance(score, mu), potential)


def _potential_of_distance(score: BalancedScore, mu: Points) -> Float[Array, " n"]:
    r"""The potential $\tfrac12 u\cdot(H + S)^{-1}u$ of images $u$ with covariance $S$.

    Here $H = \tfrac12(I + (I + 4S^2)^{1/2})$, so that $H^2 - S^2 = H$. This is the
    potential of a Gaussian that attends to itself, if $N = M$. If it were computed from
    the bilinear score, it would suffer from cancellation with the squares.
    """
    u = jnp.sqrt(score.scale) * (mu.safe_tokens.x - mu.mean[None]) @ score.N.T
    S = score.scale * score.N @ mu.covariance @ score.N.T
    H = (jnp.eye(len(S), dtype=S.dtype) + sqrt_one_plus_four(S)) / 2
    return jnp.sum(u * solve_positive(H + S, u.T).T, axis=1) / 2


def _root_of_covariance(mu: Points) -> Float[Array, "d d"]:
    values, U = eigh(jax.lax.stop_gradient(mu.covariance))
    return U * jnp.sqrt(jnp.maximum(values, 0))[None, :]
