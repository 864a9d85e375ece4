"""Plans beyond alternation: annealing, Newton's method, derivatives."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, ArrayLike
from reference import log_sum

from meanfield.attention import Attention, Sinkhorn, attentions, scalings
from meanfield.attention.potentials._annealing import scale_score
from meanfield.attention.potentials._newton import newton
from meanfield.attention.potentials._steps import full_step_jvp
from meanfield.dynamics import Heads, stack_trees
from meanfield.fields import Convergence
from meanfield.fixed_point import FixedPoint
from meanfield.measures import AbstractReduction, Blocked, Dense, Points
from meanfield.scores import AbstractScore, Dot, SquaredDistance, TransposedScore
from meanfield.theorems._case import Case
from meanfield.theorems.attention.sinkhorn import _problems  # pyright: ignore[reportPrivateUsage]
from meanfield.theorems.reference.sinkhorn import scores_of
from meanfield.tokens import Tokens

TOLERANCE = np.finfo(np.float64).eps ** (2 / 3)  # the default, on log marginals
SIZE, DIMENSION = 60, 3
VALUE = np.array([[1.0, 0.3, 0.0], [-0.2, 0.8, 0.1], [0.0, 0.5, 1.2]])


class Solution(NamedTuple):
    g: Array
    f: Array
    residual: Array
    scores: Array  # the solver's tolerance


@jax.jit
def solve(A: ArrayLike, x: ArrayLike, log_w: ArrayLike, epsilon: ArrayLike) -> Solution:
    A, x, log_w, bandwidth = (jnp.asarray(a) for a in (A, x, log_w, epsilon))
    mu = Points(Tokens(x), log_w)
    actual = scalings(Dot(A, jnp.eye(x.shape[1], dtype=x.dtype), bandwidth), mu)
    scores = actual.score(mu.tokens, mu.tokens)
    return Solution(actual.g, actual.f, actual.convergence.residual, scores)


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A non-symmetric matrix, tokens, and unequal weights."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(DIMENSION, DIMENSION)) / np.sqrt(DIMENSION)
    w = rng.uniform(0.2, 1.8, size=SIZE)
    return A, rng.normal(size=(SIZE, DIMENSION)), w / w.sum()


def plain_alternation(S: np.ndarray, w: np.ndarray, passes: int) -> np.ndarray:
    g = np.zeros(len(w))
    for _ in range(passes):
        f = -log_sum(S + g[None, :], w)
        g = -log_sum(S.T + f[None, :], w)
    return g


def log_columns(S: np.ndarray, w: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Log column masses of the plan with normalised rows, minus those of `w`."""
    f = -log_sum(S + g[None, :], w)
    return g + log_sum(S.T + f[None, :], w)


def dense_potential(S: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Newton's method with the full matrix: 1 - m = (diag m - P*P) step."""
    g = plain_alternation(S, w, 500)
    for _ in range(60):
        f = -log_sum(S + g[None, :], w)
        P = np.exp(S + f[:, None] + g[None, :]) * w[None, :]
        m = (w @ P) / w
        adjoint = P.T * w[None, :] / w[:, None]
        step = np.linalg.lstsq(np.diag(m) - adjoint @ P, 1 - m)[0]
        g = g + step / max(1.0, np.max(np.abs(step)))
        if np.max(np.abs(step)) < 1e-13:
            return g - w @ g
    assert np.max(np.abs(log_columns(S, w, g))) < 1e-12
    return g - w @ g


def barycentres(
    S: np.ndarray, w: np.ndarray, g: np.ndarray, x: np.ndarray
) -> np.ndarray:
    rows = S + g[None, :]
    return (np.exp(rows - log_sum(rows, w)[:, None]) * w[None, :]) @ x


@pytest.mark.parametrize("seed", [2, 3, 5, 6])
def test_plans_beyond_alternation_converge(seed: int):
    A, x, w = problem(seed)
    actual = solve(A, x, np.log(w), 0.05)
    S = np.asarray(actual.scores)
    after = log_columns(S, w, plain_alternation(S, w, 1000))  # as many passes
    assert np.max(np.abs(after)) > 1e3 * TOLERANCE
    error = np.max(np.abs(log_columns(S, w, np.asarray(actual.g))))
    rounding = 4 * np.finfo(float).eps * np.max(np.abs(S))
    assert error <= TOLERANCE + rounding
    assert abs(float(actual.residual) - error) <= rounding


def test_the_potential_matches_dense_newton():
    A, x, w = problem(0)
    actual = solve(A, x, np.log(w), 0.05)
    g = np.asarray(actual.g)
    exact = dense_potential(np.asarray(actual.scores), w)
    # The gap of I - P*P, about 1e-3, divides the marginals left over.
    assert np.max(np.abs(g - w @ g - exact)) < 1e4 * TOLERANCE


# Seven weighted tokens whose scores are nearly of rank one.
NEARLY_DECOUPLED = (
    np.array([[0.9718, 0.3439], [3.1144, 1.0994]]),
    np.array(
        [
            [2.022, -2.5399],
            [0.4206, -0.5699],
            [-0.4608, -0.2142],
            [-1.9985, -0.2461],
            [-0.8627, 3.321],
            [0.2245, -0.3537],
            [-0.2898, -0.6664],
        ]
    ),
    np.array([0.1869, 0.2305, 0.0965, 0.1691, 0.1786, 0.0982, 0.0402]),
)


@pytest.mark.parametrize("epsilon", [0.1, 0.02, 1e-3])
def test_nearly_decoupled_plans_converge(epsilon: float):
    """The dual is a ramp: alternation is slow, and Newton steps are useless."""
    A, x, w = NEARLY_DECOUPLED
    actual = solve(A, x, np.log(w), epsilon)
    S = np.asarray(actual.scores)
    error = np.max(np.abs(log_columns(S, w, np.asarray(actual.g))))
    assert error <= TOLERANCE + 4 * np.finfo(float).eps * np.max(np.abs(S))


def test_a_tiny_bandwidth_is_reported_unconverged():
    A, x, w = problem(1)
    actual = solve(A, x, np.log(w), 1e-6)
    error = np.max(
        np.abs(log_columns(np.asarray(actual.scores), w, np.asarray(actual.g)))
    )
    assert error > TOLERANCE
    rounding = 4 * np.finfo(float).eps * np.max(np.abs(actual.scores))
    assert abs(float(actual.residual) - error) <= rounding + 0.01 * error


def test_excluded_tokens_have_no_influence():
    """Far away: the barycentres of the other, weakly coupled tokens are unchanged."""
    A, x, w = problem(2)
    far = np.concatenate([x[:-5], np.full((5, DIMENSION), 1e3)])
    weights = w[:-5] / w[:-5].sum()
    with np.errstate(divide="ignore"):
        among = solve(A, far, np.log(np.append(weights, np.zeros(5))), 0.05)
    assert among.residual <= TOLERANCE
    S = np.asarray(among.scores)[:-5, :-5]
    means = barycentres(S, weights, np.asarray(among.g)[:-5], x[:-5])
    exact = barycentres(S, weights, dense_potential(S, weights), x[:-5])
    assert np.max(np.abs(means - exact)) < 100 * TOLERANCE


def test_single_precision_ends_at_its_own_tolerance():
    A, x, w = (np.asarray(a, np.float32) for a in problem(0))
    actual = solve(jnp.asarray(A), jnp.asarray(x), jnp.log(w), jnp.float32(0.05))
    assert actual.g.dtype == jnp.float32
    eps = np.finfo(np.float32).eps
    size = np.max(np.abs(actual.g))
    assert actual.residual <= max(eps ** (2 / 3), 4 * eps * size)


# The pieces


def test_a_newton_pass_gives_the_derivative(rng: np.random.Generator):
    """Against central differences of the alternation, written in NumPy."""
    A, x, w = problem(0)
    S = x @ A.T @ x.T / 0.3
    g, h = rng.normal(size=(2, SIZE))
    alternation = lambda g: g - log_columns(S, w, g)
    t = 1e-4
    move = lambda s: alternation(g + s * t * h)
    slope = (8 * (move(1) - move(-1)) - (move(2) - move(-2))) / (12 * t)
    score = Dot(A, np.eye(DIMENSION), 0.3)
    mu = Points.weighted(x, w)
    image, along = full_step_jvp(score, mu, jnp.asarray(g), jnp.asarray(h))
    assert np.max(np.abs(image - alternation(g))) < 1e-12
    assert np.max(np.abs(along - slope)) < 1e-9


def test_newton_converges_without_alternation():
    """From a distant start, at a bandwidth where steps must be shortened."""
    A, x, w = problem(3)
    score, mu = Dot(A, np.eye(DIMENSION), 0.3), Points.weighted(x, w)
    unknown = FixedPoint(jnp.zeros(SIZE), jnp.asarray(jnp.inf), jnp.asarray(0))
    find = lambda limit: newton(
        score, mu, unknown, tolerance=jnp.asarray(1e-12), limit=limit
    )
    actual = jax.jit(lambda: find(400))()
    S = x @ A.T @ x.T / 0.3
    exact = dense_potential(S, w)
    g = np.asarray(actual.point)
    assert actual.residual <= 1e-12
    assert np.max(np.abs(g - w @ g - exact)) < 1e-9


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_newton_respects_its_budget_and_reports_its_error(limit: int):
    A, x, w = problem(3)
    score, mu = Dot(A, np.eye(DIMENSION), 0.3), Points.weighted(x, w)
    unknown = FixedPoint(jnp.zeros(SIZE), jnp.asarray(jnp.inf), jnp.asarray(0))
    actual = newton(score, mu, unknown, tolerance=jnp.asarray(1e-12), limit=limit)
    assert int(actual.evaluations) == limit
    S = x @ A.T @ x.T / 0.3
    error = np.max(np.abs(log_columns(S, w, np.asarray(actual.point))))
    assert abs(float(actual.residual) - error) < 1e-12
    start = np.max(np.abs(log_columns(S, w, np.zeros(SIZE))))
    assert error < start if limit == 7 else error <= start


@pytest.mark.parametrize("kind", [Dot, SquaredDistance, TransposedScore])
def test_a_scaled_score_scales_its_values(kind: type, rng: np.random.Generator):
    Q, K = rng.normal(size=(2, 2, 3))
    inner = Dot(Q, K, 0.7, query_bias=np.ones(2), key_bias=Q[:, 0])
    scores: dict[type, AbstractScore] = {
        Dot: inner,
        SquaredDistance: SquaredDistance(Q, K, 0.7),
        TransposedScore: TransposedScore(inner),
    }
    queries, keys = (Tokens(jnp.asarray(rng.normal(size=(n, 3)))) for n in (4, 5))
    part = scale_score(scores[kind], jnp.asarray(0.25))(queries, keys)
    assert np.max(np.abs(part - 0.25 * scores[kind](queries, keys))) < 1e-13


# Composition and derivatives


@pytest.mark.slow
def test_a_hard_head_converges_batched_with_an_easy_one():
    """Under `vmap`, blocked: one finishes long before the other."""
    A, x, w = problem(5)
    mu = Points(Tokens(jnp.asarray(x)), jnp.log(w), Blocked(32))
    heads = [(A @ A.T, 1.0), (A, 0.05)]
    value = np.eye(DIMENSION)
    head_attentions = [
        attentions["sinkhorn"](M, value, value, epsilon=e) for M, e in heads
    ]

    @eqx.filter_jit
    def velocities(dynamics: Heads) -> tuple[Array, Convergence | None]:
        field = dynamics.field(0.0, mu)
        return field(mu.tokens), field.convergence

    v, convergence = velocities(Heads(stack_trees(head_attentions)))
    assert convergence is not None
    assert convergence.residual <= TOLERANCE
    expected = np.zeros_like(x)
    for M, epsilon in heads:
        S = (x - w @ x) @ M.T @ (x - w @ x).T / epsilon
        expected += barycentres(S, w, dense_potential(S, w), x) / epsilon
    gap = np.max(np.abs(v - expected))
    assert gap < 100 * TOLERANCE * np.max(np.abs(expected))


def objective(A: Array, x: Array, log_w: Array, reduction: AbstractReduction) -> Array:
    mu = Points(Tokens(x), log_w, reduction)
    attention = Attention(Dot(A, jnp.eye(DIMENSION), 0.1), Sinkhorn(), VALUE)
    return jnp.sum(attention.field(0.0, mu)(mu.tokens) ** 2)


def reference_objective(A: np.ndarray, x: np.ndarray, w: np.ndarray) -> float:
    S = (x - w @ x) @ A.T @ (x - w @ x).T / 0.1
    return float(np.sum(barycentres(S, w, dense_potential(S, w), x @ VALUE.T) ** 2))


def test_derivatives_match_a_dense_reference(rng: np.random.Generator):
    """Not symmetric and at a small bandwidth; forward and reverse."""
    A, x, w = problem(5)
    dA, dx = rng.normal(size=A.shape), rng.normal(size=x.shape)
    t = 1e-4
    move = lambda s: reference_objective(A + s * t * dA, x + s * t * dx, w)
    expected = (8 * (move(1) - move(-1)) - (move(2) - move(-2))) / (12 * t)
    fn = lambda A, x: objective(A, x, jnp.log(w), Dense())
    forward = jax.jit(lambda a, b: jax.jvp(fn, a, b)[1])((A, x), (dA, dx))
    gA, gx = jax.jit(jax.grad(fn, argnums=(0, 1)))(A, x)
    reverse = float(np.sum(gA * dA) + np.sum(gx * dx))
    assert abs(float(forward) - expected) < 1e-6 * abs(expected)
    assert abs(reverse - expected) < 1e-6 * abs(expected)


@pytest.mark.slow
def test_gradients_keep_no_matrix_of_scores():
    """Compiled, not run: the memory of 4 000 tokens in blocks beyond the arrays."""
    n = 4000
    fn = lambda A, x: objective(A, x, jnp.full(n, -np.log(n)), Blocked())
    gradient = jax.jit(jax.grad(fn, argnums=(0, 1)))
    A, x = jnp.eye(DIMENSION), jnp.zeros((n, DIMENSION))
    memory = gradient.lower(A, x).compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < 8 * n**2 / 4


def test_plain_alternation_finishes_where_newton_stalls() -> None:
    """Scores from -277 to 203: no shortened Newton step improves."""
    case = Case("castin2025:eq-2.4", "quick", 1009)
    p, at = _problems(case)["general A, small ε"]
    mu, w = Points.weighted(at.x, at.share), at.share
    s, f, g = scores_of(p, at), np.zeros(7), np.zeros(7)
    for _ in range(1000):
        f = -log_sum(s + g, w)
        g = -log_sum(s.T + f, w)
    exact = np.exp(s + f[:, None] + g) * w @ at.x @ p.V.T / p.epsilon
    attention = attentions["sinkhorn"](p.Q, p.K, p.V, epsilon=p.epsilon)
    field = attention.field(0.0, mu)
    assert field.convergence is not None
    assert field.convergence.residual <= field.convergence.tolerance
    # Errors of marginals, 4e-11, over the gap of alternation there, 0.06.
    assert np.max(np.abs(field(mu.tokens) - exact)) < 3e-9 * np.max(np.abs(exact))
