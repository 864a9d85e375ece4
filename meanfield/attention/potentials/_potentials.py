r"""Sinkhorn potentials: the $g$ that makes both marginals of $\kappa_\mu$ equal $\mu$.

With $f(x) = -\log\int e^{s(x,y) + g(y)} d\mu(y)$ rows are normalised by construction;
the potential solves the column equation $g(y) = -\log\int e^{s(x,y) + f(x)} d\mu(x)$.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox.internal import unvmap_any
from jaxtyping import Array, Bool, Float

from meanfield._derivatives import ruled
from meanfield._programs import compile_once
from meanfield.fields import Convergence
from meanfield.linalg import entropic_shrinkage, solve_positive, sqrt_one_plus_four
from meanfield.measures import AbstractPlanned, Points, exactly, unchecked
from meanfield.scores import AbstractQuadraticScore, AbstractScore
from meanfield.scores.balanced import Balanced
from meanfield.scores.differences import size_of_scores, unless_rounded_away

from ._annealing import Steps, solve_in_stages
from ._newton import alternated_plainly
from ._steps import counts, full_step, half_step, interpolation_error

# A velocity may miss its tolerance by 1.4 times where log-marginals are that far off:
# the worst of 600 plans. So they are asked for to an eighth of it.
POTENTIALS = 8
# What is left of a log-marginal at the largest score is 0.3 to 1 roundings of it.
ROUNDINGS = 2
_NO_DERIVATIVE = (
    "The derivative of Sinkhorn potentials was not found: its conjugate gradients "
    "missed their tolerance after 500 iterations. Raise `epsilon`."
)


@compile_once
def converged_potential(
    score: AbstractScore,
    mu: Points,
    queries: Points | None = None,
    *,
    tolerance: float | None,
    max_iterations: int,
    guess: Float[Array, " n"] | None = None,
) -> tuple[Float[Array, " n"], Convergence]:
    r"""The potential $g$, to `tolerance` in the sup of |log marginal|.

    `None` asks for $\epsilon^{2/3}$ of the dtype, or for the rounding of scores as
    large as these, up to $\epsilon^{1/3}$, whichever is more; and no more than
    interpolated sums can give. Rounding beyond that is reported as a residual.

    Derivatives go through the equation, not through the iteration. A quadratic score
    comes centred, bilinear in deviations from the mean: the rest does not matter. Where
    `A` is symmetric positive semidefinite the averaging map $g \mapsto (g + c(g))/2$ is
    accelerated, which contracts by one half whatever the bandwidth; elsewhere the
    alternation is. Where that stalls, Newton's method ends it: at once from nearby,
    else along an annealed bandwidth; or plain alternation where all its steps are too
    long. A pass over rows and columns counts once in `max_iterations`, whatever it
    serves; one more may measure what was reached.

    Where `queries` are another measure, of the same mass, the plan is one between the
    two, and its potential of keys is found: by alternation, whatever `A` is.

    It is found from `guess` on, or from the potential of Gaussians.
    """
    frozen = jax.lax.stop_gradient((score, mu, queries, guess))
    g, convergence = _solve(*frozen, tolerance=tolerance, limit=max_iterations)
    return _with_derivative(score, mu, g, queries), convergence


def _solve(
    score: AbstractScore,
    mu: Points,
    queries: Points | None,
    guess: Float[Array, " n"] | None,
    *,
    tolerance: float | None,
    limit: int,
) -> tuple[Float[Array, " n"], Convergence]:
    checked = mu, queries
    mu, queries = unchecked(checked)
    begin, symmetric = _guess(score, mu, queries)
    begin = begin if guess is None else guess
    asked = (
        _tolerance(score, mu, queries, begin)
        if tolerance is None
        else jnp.asarray(tolerance)
    )
    steps = Steps(score, mu, symmetric, queries)
    goal = {"tolerance": asked, "limit": limit}
    found = solve_in_stages(steps, begin, **goal)
    found = alternated_plainly(score, mu, found, queries=queries, **goal)
    missed = interpolation_error(score, *checked, found.point)
    rounding = _rounding(score, *checked, found.point)
    residual = jnp.maximum(found.residual, jnp.maximum(missed, rounding))
    asked, g = asked.astype(residual.dtype), found.point
    if mu.zero_weights is not None:  # no marginal told what excluded tokens tend to
        g = jnp.where(counts(mu), g, full_step(score, mu, g, queries))
    return g, Convergence(residual, asked, found.evaluations)


def _guess(
    score: AbstractScore, mu: Points, queries: Points | None
) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
    """A potential to begin with, and whether averaging finds the way from there."""
    if not isinstance(score, AbstractQuadraticScore):
        return jnp.zeros_like(mu.log_weights), jnp.zeros((), bool)
    guess = gaussian_potential(score, mu, queries)
    if queries is not None:
        return guess, jnp.zeros((), bool)
    return guess, _symmetric_positive(score.A)


def _tolerance(
    score: AbstractScore, mu: Points, queries: Points | None, guess: Float[Array, " n"]
) -> Float[Array, ""]:
    eps = jnp.finfo(guess.dtype).eps
    size = jnp.maximum(jnp.max(jnp.abs(guess)), _largest(score, mu, queries))
    # Scores that round off more than the upper bound are lost.
    asked = jnp.clip(ROUNDINGS * eps * size, eps ** (2 / 3), eps ** (1 / 3))
    how = mu.reduction
    share = how.tolerance / POTENTIALS if isinstance(how, AbstractPlanned) else 0.0
    return jnp.maximum(asked, share)


def _largest(
    score: AbstractScore, mu: Points, queries: Points | None
) -> Float[Array, ""]:
    """About the largest score, and never more: those of the longest vectors.

    0 where scores are no inner products, and where differences give them.
    """
    if not isinstance(score, AbstractQuadraticScore):
        return jnp.zeros((), mu.log_weights.dtype)
    at = mu if queries is None else queries
    parts = score.factors(at.counted, mu.counted)
    longest = lambda rows: rows[jnp.argmax(jnp.sum(rows**2, axis=1))]
    of_queries = jnp.max(jnp.abs(parts.query @ longest(parts.key)))
    of_keys = jnp.max(jnp.abs(parts.key @ longest(parts.query)))
    largest = jnp.maximum(of_queries, of_keys)
    if not isinstance(score, Balanced):
        return largest
    size = size_of_scores(parts.key, parts.query.T, parts.of_key)
    none = lambda: jnp.zeros_like(largest)
    return unless_rounded_away(size, len(score.N), none, lambda: largest)


def _rounding(
    score: AbstractScore, mu: Points, queries: Points | None, g: Float[Array, " n"]
) -> Float[Array, ""]:
    """The rounding of both potentials, where they are so large that it is no small one.

    No marginal shows it: of rounded scores they may all be right.
    """
    none = jnp.zeros((), g.dtype)
    if not isinstance(score, Balanced):
        return none
    eps = jnp.finfo(g.dtype).eps
    at = mu if queries is None else queries
    squares = score.square_of_queries(at.counted.x), score.square_of_keys(mu.counted.x)
    largest = sum(map(jnp.max, squares), none)

    def rounding() -> Float[Array, ""]:
        f = half_step(score, exactly(mu), g, queries)
        lost = 2 * eps * (jnp.max(jnp.abs(f)) + jnp.max(jnp.abs(g)))
        return jnp.where(lost > eps ** (1 / 3), lost, 0)

    is_large = unvmap_any(2 * eps * largest > eps ** (1 / 3))
    return jax.lax.cond(is_large, rounding, lambda: none)


def _with_derivative(
    score: AbstractScore,
    mu: Points,
    g: Float[Array, " n"],
    queries: Points | None,
) -> Float[Array, " n"]:
    r"""`g` as a differentiable function of the score and the measures.

    At the solution the alternation $T$ has $T'(g) = P^*P$ with $P$ the conditional
    expectation under the plan: self-adjoint in $L^2(\mu)$, with the constants as its
    fixed vectors. In the variable $\sqrt{w} g$, and with the constants pinned by
    their mean, $I - T'$ is symmetric positive definite and conjugate gradients apply.
    """
    arrays, rest = eqx.partition((score, mu, queries), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def equation(h: Array, solution: Array, *leaves: Array) -> Array:
        whole = jax.tree.unflatten(structure, leaves)
        score, mu, queries = eqx.combine(whole, rest)
        counted, root = counts(mu), _roots(mu)
        pinned = jnp.where(counted, root, 0)
        residual = h - root * full_step(score, mu, h / root, queries)
        drift = pinned @ (h - solution)
        return jnp.where(counted, residual + pinned * drift, h)

    def rule(h: Array, primals: tuple, tangents: tuple) -> Array:
        at_solution = lambda *parameters: equation(h, *parameters)
        _, moved = eqx.filter_jvp(at_solution, primals, tangents)
        _, matvec = jax.linearize(lambda h: equation(h, *primals), h)
        return jax.lax.custom_linear_solve(matvec, -moved, _checked_cg, symmetric=True)

    root = _roots(mu)
    solution = jax.lax.stop_gradient(root * g)
    return ruled(rule)(lambda solution, *_: solution)(solution, *leaves) / root


def _roots(mu: Points) -> Float[Array, " n"]:
    # Differentiable too: the operator must stay symmetric for second derivatives.
    least = jnp.log(jnp.finfo(mu.log_weights.dtype).tiny)  # none is zero, to divide by
    logs = jnp.where(counts(mu), jnp.maximum(mu.log_weights, least), 0)
    return jnp.exp(logs / 2)


def _checked_cg(matvec: Callable[[Array], Array], b: Array) -> Array:
    """Conjugate gradients, which raise where they fail."""
    asked = float(jnp.finfo(b.dtype).eps) ** 0.75
    x, _ = jax.scipy.sparse.linalg.cg(matvec, b, tol=asked, maxiter=500)
    missed = jnp.linalg.norm(matvec(x) - b) > asked**0.5 * jnp.linalg.norm(b)
    return x * eqx.error_if(jnp.ones((), x.dtype), missed, _NO_DERIVATIVE)


def _symmetric_positive(A: Float[Array, "d d"]) -> Array:
    scale = jnp.max(jnp.abs(A))
    slack = 10 * A.shape[0] * jnp.finfo(A.dtype).eps * scale
    symmetric = jnp.all(jnp.abs(A - A.T) <= slack)
    return symmetric & (jnp.linalg.eigvalsh((A + A.T) / 2)[0] >= -slack)


def gaussian_potential(
    score: AbstractQuadraticScore, mu: Points, queries: Points | None = None
) -> Float[Array, " n"]:
    r"""The potential of Gaussians with the moments of the tokens, up to a constant.

    $g(y) = -y\cdot (A\alpha_X + a) - \tfrac12 z\cdot (1/h) z$ with
    $z = X^\top A^\top(y-\alpha)$ and $1/h$ the entropic shrinkage of
    $(Y^\top A X)^\top$, where $YY^\top$ is the covariance of `mu` and $XX^\top$, about
    $\alpha_X$, that of the queries: the solution itself when both are quadratures of
    Gaussians.
    """
    A, Y = score.A, _root_of_covariance(mu)
    at, X = (mu, Y) if queries is None else (queries, _root_of_covariance(queries))
    shrinkage = entropic_shrinkage((Y.T @ A @ X).T)
    y = mu.counted.x
    z = (y - mu.mean[None, :]) @ A @ X
    bilinear = -jnp.sum((z @ shrinkage) * z, axis=1) / 2
    if not isinstance(score, Balanced):
        return bilinear - y @ (A @ at.mean + score.a)
    other = bilinear + score.square_of_keys(y)
    is_one = jnp.all(score.M == score.N) & (queries is None)
    return jnp.where(is_one, _potential_of_distance(score, mu), other)


def _potential_of_distance(score: Balanced, mu: Points) -> Float[Array, " n"]:
    r"""$\tfrac12 u\cdot(H + S)^{-1}u$ of images $u$ with the covariance $S$.

    With $H = \tfrac12(I + (I + 4S^2)^{1/2})$: the potential of one Gaussian for
    $N = M$. That of the bilinear score cancels with its square: $H^2 - S^2 = H$.
    """
    u = jnp.sqrt(score.scale) * (mu.counted.x - mu.mean[None]) @ score.N.T
    S = score.scale * score.N @ mu.covariance @ score.N.T
    H = (jnp.eye(len(S), dtype=S.dtype) + sqrt_one_plus_four(S)) / 2
    return jnp.sum(u * solve_positive(H + S, u.T).T, axis=1) / 2


def _root_of_covariance(mu: Points) -> Float[Array, "d d"]:
    values, U = jnp.linalg.eigh(mu.covariance)
    return U * jnp.sqrt(jnp.maximum(values, 0))[None, :]
