"""Sinkhorn potentials: marginals, evaluations, reported errors, derivatives."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest
from helpers import assert_close, case
from jaxtyping import Array
from reference import log_sum, plan_potentials
from typing_extensions import override

from meanfield.attention import Attention, Sinkhorn, attentions
from meanfield.attention._coupling import TiltedMean
from meanfield.endings import Status
from meanfield.fields import Convergence
from meanfield.flows import flow
from meanfield.measures import Blocked, Points
from meanfield.scores import AbstractScore, Dot
from meanfield.tokens import Tokens

TOLERANCE = np.finfo(np.float64).eps ** (2 / 3)  # the default, on log marginals


@eqx.filter_jit
def solve(coupling: Sinkhorn, score: AbstractScore, mu: Points) -> TiltedMean:
    field = coupling.barycentre(score, mu)
    assert isinstance(field, TiltedMean)
    return field


def convergence(field: TiltedMean) -> Convergence:
    assert field.convergence is not None
    return field.convergence


def doubly_centred(S: np.ndarray) -> np.ndarray:
    """A score minus its functions of the query or of the key alone."""
    return S - S.mean(axis=0)[None, :] - S.mean(axis=1)[:, None] + S.mean()


def marginal_errors(field: TiltedMean, S: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Sup of |log marginal| of rows and of columns, recomputed in NumPy.

    The field may change the score only by what the potentials absorb.
    """
    g = np.asarray(field.potential, np.float64)
    scores = np.asarray(field.score(field.mu.tokens, field.mu.tokens), np.float64)
    eps = jnp.finfo(field.mu.tokens.x.dtype).eps
    gap = np.max(np.abs(doubly_centred(scores) - doubly_centred(S)))
    assert gap <= 100 * eps * np.max(np.abs(S))
    S = scores
    f = -log_sum(S + g[None, :], w)
    rows = log_sum(S + f[:, None] + g[None, :], w)
    columns = log_sum((S + f[:, None] + g[None, :]).T, w)
    return np.array([np.max(np.abs(rows)), np.max(np.abs(columns))])


def matrix(kind: str, rng: np.random.Generator, d: int) -> np.ndarray:
    B = rng.normal(size=(d, d)) / np.sqrt(d)
    return {
        "positive": B @ B.T,
        "negative": -B @ B.T,
        "indefinite": (B + B.T) / 2,
        "not symmetric": B,
        "rank one": np.outer(B[0], B[0]),
    }[kind]


KINDS = ["positive", "negative", "indefinite", "not symmetric", "rank one"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [100.0, 1.0, 0.1])
def test_both_marginals_hold(kind: str, epsilon: float, rng: np.random.Generator):
    c = case(rng, n=40)
    A = matrix(kind, rng, 3)
    field = solve(Sinkhorn(), Dot(A, np.eye(3), epsilon), c.points())
    S = c.x @ A.T @ c.x.T / epsilon
    # s(x_i, x_j) = A x_i . x_j: rows are queries.
    errors = marginal_errors(field, S, c.w)
    assert np.max(errors) <= TOLERANCE
    assert convergence(field).residual <= TOLERANCE


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("d", [2, 8])
def test_symmetric_scores_take_at_most_thirty_evaluations(
    epsilon: float, d: int, rng: np.random.Generator
):
    c = case(rng, n=120, d=d)
    A = matrix("positive", rng, d)
    field = solve(Sinkhorn(max_iterations=30), Dot(A, np.eye(d), epsilon), c.points())
    assert convergence(field).residual <= TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1e-3, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_reported_marginal_error_is_true(
    kind: str, epsilon: float, dtype: type, rng: np.random.Generator
):
    """Whether it converges or not, as at a tiny epsilon."""
    c = case(rng, n=40, dtype=dtype)
    A = matrix(kind, rng, 3)
    score = Dot(jnp.asarray(A, dtype), jnp.eye(3, dtype=dtype), epsilon)
    field = solve(Sinkhorn(max_iterations=300), score, c.points())
    S = c.x @ A.T @ c.x.T / epsilon
    error = np.max(marginal_errors(field, S, c.w))
    # Scores themselves are rounded: by eps of their size, on each of two sides.
    rounding = 4 * np.finfo(dtype).eps * max(1.0, np.max(np.abs(S)))
    assert abs(float(convergence(field).residual) - error) <= rounding + 0.01 * error


def test_a_symmetric_plan_converges_in_single_precision(rng: np.random.Generator):
    c = case(rng, n=120, d=8, dtype=np.float32)
    A = jnp.asarray(matrix("positive", rng, 8), jnp.float32)
    for epsilon in (1.0, 0.1, 0.01):
        score = Dot(A, jnp.eye(8, dtype=jnp.float32), epsilon)
        actual = convergence(solve(Sinkhorn(), score, c.points()))
        largest = jnp.max(jnp.abs(score(c.points().tokens, c.points().tokens)))
        eps = jnp.finfo(jnp.float32).eps
        assert actual.residual <= actual.tolerance
        assert actual.tolerance <= jnp.maximum(eps ** (2 / 3), 2 * eps * largest)


def test_potentials_match_plain_alternation(rng: np.random.Generator):
    c = case(rng, n=12)
    score = Dot(c.p.Q, c.p.K, c.p.epsilon)
    field = solve(Sinkhorn(tolerance=1e-13), score, c.points())
    tokens = Tokens(jnp.asarray(c.x))
    _, g = plan_potentials(np.asarray(field.score(tokens, tokens)), c.w)
    gap = np.asarray(field.potential) - g
    assert np.max(np.abs(gap - gap[0])) < 1e-11  # up to a constant


def test_the_plan_matches_pot(rng: np.random.Generator):
    """POT minimises a cost: minus the scores, at regularisation one."""
    c = case(rng, n=15)
    score = Dot(c.p.Q, c.p.K, c.p.epsilon)
    tokens = Tokens(jnp.asarray(c.x))
    S = np.asarray(score(tokens, tokens))
    plan = ot.sinkhorn(
        c.w, c.w, -S, 1.0, method="sinkhorn_log", stopThr=1e-14, numItermax=20_000
    )
    attention = Attention(score, Sinkhorn(tolerance=1e-13), np.eye(3))
    v = eqx.filter_jit(lambda a, mu: a.field(0.0, mu)(mu.tokens))(attention, c.points())
    assert np.max(np.abs(np.asarray(v) - plan @ c.x / c.w[:, None])) < 1e-11


def test_one_sided_score_terms_do_not_change_the_plan(rng: np.random.Generator):
    """Biases, and the squares of a distance, are absorbed by the potentials."""
    c = case(rng)
    plain = Dot(c.p.Q, c.p.K)
    biased_score = Dot(c.p.Q, c.p.K, query_bias=rng.normal(size=3), key_bias=np.ones(3))
    barycentre = lambda score: solve(Sinkhorn(), score, c.points())(c.queries())
    assert_close(barycentre(biased_score), barycentre(plain), ulps=3e5)  # the tolerance


class Unstructured(AbstractScore):
    """A score that declares nothing but its values."""

    inner: Dot

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Array:
        return self.inner(queries, keys)


@pytest.mark.slow_cases("float64")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_below_the_smallest_float_count_as_zero(
    dtype: type, rng: np.random.Generator
):
    """A token of weight e⁻²⁰⁰⁰ is moved, but moves no other, like an excluded one."""
    attention = attentions["sinkhorn"](*[jnp.eye(2, dtype=dtype)] * 3)
    x = jnp.asarray(rng.normal(size=(9, 2)), dtype)

    @jax.jit
    def velocities(x: Array, log_weight: float) -> Array:
        logs = jnp.log(jnp.full(9, 1 / 6, dtype)).at[:3].set(log_weight)
        mu = Points(Tokens(x), logs)
        return attention.field(0.0, mu)(mu.tokens)

    expected, actual = (velocities(x, weight) for weight in (-np.inf, -2000.0))
    # Iterations end elsewhere within their tolerance.
    atol = 10 * np.finfo(dtype).eps ** (2 / 3)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)
    size = lambda x: jnp.sum(velocities(x, -2000.0) ** 2)
    assert np.all(np.isfinite(jax.jit(jax.grad(size))(x)))


def test_unstructured_scores_work(rng: np.random.Generator):
    c = case(rng, n=12)
    inner = Dot(c.p.Q, c.p.K)
    field = solve(Sinkhorn(), Unstructured(inner), c.points())
    tokens = Tokens(jnp.asarray(c.x))
    S = np.asarray(inner(tokens, tokens))
    assert np.max(marginal_errors(field, S, c.w)) <= TOLERANCE


def test_missing_the_tolerance_is_reported(rng: np.random.Generator):
    c = case(rng, n=40)
    score = Dot(matrix("not symmetric", rng, 3), np.eye(3), 0.1)
    actual = convergence(solve(Sinkhorn(max_iterations=2), score, c.points()))
    assert actual.residual > actual.tolerance


def test_a_flow_that_misses_the_tolerance_ends_unconverged(rng: np.random.Generator):
    c = case(rng, n=9)
    attention = Attention(Dot(c.p.Q, c.p.K, 0.1), Sinkhorn(max_iterations=2), c.p.V)
    trajectory = flow(attention, c.points(), np.linspace(0.0, 1.0, 3))
    assert trajectory.status == Status.UNCONVERGED
    assert trajectory.residual > TOLERANCE
    assert int(trajectory.n_accepted) == 0  # it was so from the start
    assert_close(trajectory.last, c.x, ulps=0)


def test_a_flow_of_length_zero_checks_no_convergence(rng: np.random.Generator):
    """It takes no step, so its end is its start whatever the field is."""
    c = case(rng, n=9)
    attention = Attention(Dot(c.p.Q, c.p.K, 0.1), Sinkhorn(max_iterations=2), c.p.V)
    trajectory = flow(attention, c.points(), [0.0, 0.0])
    assert trajectory.status == Status.FINISHED
    assert_close(trajectory.last, c.x, ulps=0)


@pytest.mark.slow
def test_a_flow_reports_a_tolerance_lost_later(rng: np.random.Generator):
    """Tokens that spread make harder plans: ten evaluations suffice only at first."""
    c = case(rng, n=9)
    mu = Points.uniform(c.x / 20)
    A = matrix("not symmetric", rng, 3)
    attention = Attention(Dot(A, np.eye(3)), Sinkhorn(max_iterations=10), 3 * np.eye(3))
    trajectory = flow(attention, mu, np.linspace(0.0, 50.0, 3))
    assert trajectory.status == Status.UNCONVERGED
    assert 0 < trajectory.stop_time < 50
    assert jnp.all(jnp.isfinite(trajectory.last))


# Derivatives: through the equation, against finite differences of the solution


def objective(A: Array, x: Array, log_w: Array, size: int | None = None) -> Array:
    """A number that depends on the whole field, at the tokens and elsewhere."""
    mu = Points(Tokens(x), log_w, Blocked() if size is None else Blocked(size))
    attention = Attention(Dot(A, jnp.eye(2)), Sinkhorn(tolerance=1e-14), jnp.eye(2))
    field = attention.field(0.0, mu)
    probes = Tokens(jnp.array([[0.3, -0.7], [1.1, 0.2]]))
    weight = jnp.cos(jnp.arange(2.0 * mu.tokens.n)).reshape(-1, 2)
    return jnp.sum(weight * field(mu.tokens)) + jnp.sum(field(probes) ** 2)


def leaves(rng: np.random.Generator, kind: str) -> tuple[Array, Array, Array]:
    A = jnp.asarray(matrix(kind, rng, 2))
    w = rng.uniform(0.2, 1.8, size=8)
    return A, jnp.asarray(rng.normal(size=(8, 2))), jnp.asarray(np.log(w / w.sum()))


def directions(rng: np.random.Generator, at: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(jnp.asarray(rng.normal(size=leaf.shape)) for leaf in at)


def central(fn: Callable, at: tuple, along: tuple, h: float = 3e-4) -> float:
    """Fourth-order central difference: truncation h^4, rounding eps/h; below 1e-11."""
    move = lambda s: fn(*(a + s * h * b for a, b in zip(at, along, strict=True)))
    return (8 * (move(1) - move(-1)) - (move(2) - move(-2))) / (12 * h)


FD = 1e-9  # finite differences of a solution that is itself accurate to 1e-14 / h


@pytest.mark.slow_cases("not symmetric")
@pytest.mark.parametrize("kind", ["positive", "not symmetric"])
def test_first_derivatives_in_both_modes(kind: str, rng: np.random.Generator):
    """With respect to A, tokens and weights at once; `jvp` and `vjp`."""
    at = leaves(rng, kind)
    along = directions(rng, at)
    fn = jax.jit(objective)
    expected = float(central(fn, at, along))
    forward = jax.jit(lambda a, b: jax.jvp(objective, a, b))(at, along)[1]
    gradients = jax.jit(jax.grad(objective, argnums=(0, 1, 2)))(*at)
    reverse = sum(jnp.sum(g * b) for g, b in zip(gradients, along, strict=True))
    assert abs(float(forward) - expected) <= FD * (1 + abs(expected))
    assert abs(float(reverse) - expected) <= FD * (1 + abs(expected))


@pytest.mark.parametrize("argument", [0, 1, 2], ids=["A", "tokens", "weights"])
def test_each_gradient_matches_differences(argument: int, rng: np.random.Generator):
    at = leaves(rng, "not symmetric")
    along = directions(rng, at)
    zeros = tuple(jnp.zeros_like(leaf) for leaf in at)
    along = tuple(
        b if i == argument else z
        for i, (b, z) in enumerate(zip(along, zeros, strict=True))
    )
    expected = float(central(jax.jit(objective), at, along))
    gradient = jax.jit(jax.grad(objective, argnums=argument))(*at)
    assert abs(float(jnp.sum(gradient * along[argument])) - expected) <= FD * (
        1 + abs(expected)
    )


@pytest.mark.slow
def test_second_derivatives_match_differences(rng: np.random.Generator):
    at = leaves(rng, "not symmetric")
    along = directions(rng, at)
    slope = jax.jit(lambda *a: jax.jvp(objective, a, along)[1])
    expected = float(central(slope, at, along))
    reverse = jax.jit(jax.grad(lambda s: objective_along(s, at, along)))
    second = jax.jit(jax.grad(lambda s: reverse(s)))(0.0)
    assert abs(float(second) - expected) <= FD * (1 + abs(expected))


def objective_along(s: Array, at: tuple, along: tuple) -> Array:
    return objective(*(a + s * b for a, b in zip(at, along, strict=True)))


@pytest.mark.slow
def test_derivatives_under_vmap_and_blocked(rng: np.random.Generator):
    A, x, log_w = leaves(rng, "not symmetric")
    batch = jnp.stack([x, 1.1 * x, x[::-1]])
    gradient = jax.grad(objective, argnums=1)
    batched = jax.jit(jax.vmap(lambda states: gradient(A, states, log_w)))(batch)
    blocked = jax.jit(lambda states: jax.grad(objective, 1)(A, states, log_w, 3))
    gradient_of = jax.jit(lambda states: gradient(A, states, log_w))
    for i in range(3):
        assert_close(batched[i], gradient_of(batch[i]), ulps=1e4)  # CG stops at 1e-12
    assert_close(blocked(x), gradient_of(x), ulps=1e4)


def test_excluded_tokens_do_not_change_derivatives(rng: np.random.Generator):
    A, x, log_w = leaves(rng, "not symmetric")
    far = jnp.concatenate([x, jnp.full((1, 2), 1e3)])
    weights = jnp.append(log_w, -jnp.inf)

    def total(A: Array, x: Array, log_w: Array) -> Array:
        mu = Points(Tokens(x), log_w)
        attention = Attention(Dot(A, jnp.eye(2)), Sinkhorn(), jnp.eye(2))
        return jnp.sum(attention.field(0.0, mu)(Tokens(x[:8])) ** 2)

    gradient = jax.jit(jax.grad(total, argnums=(0, 1)))
    (dA, dx), (eA, ex) = gradient(A, x, log_w), gradient(A, far, weights)
    assert_close(eA, dA, ulps=1e6)  # two solutions, each to its tolerance
    assert_close(ex[:8], dx, ulps=1e6)
    assert_close(ex[8], jnp.zeros(2))
