"""Every registered variant: against NumPy, its symmetries, its sums."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import (
    biased_score,
    eager_velocities,
    every_variant,
    ulps,
    unordered_variants,
    velocities,
)
from helpers import CASES, Case, assert_close, case, orthogonal
from reference import Parameters, half_steps, velocity
from reference import dot as dot_score

from meanfield.attention import symmetries
from meanfield.measures import Blocked, Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens


@every_variant
@pytest.mark.parametrize("kind", list(CASES))
def test_velocity_matches_the_definition(
    name: str, kind: str, rng: np.random.Generator
):
    c = CASES[kind](rng)
    v = velocities(c.attention(name), c.points(), c.queries())
    expected = velocity(name, c.p, c.probes, c.x, c.w)
    assert_close(v, expected, ulps=ulps(name), scale=1.0)


@every_variant
def test_velocity_in_single_precision(name: str, rng: np.random.Generator):
    c = case(rng, dtype=np.float32)
    v = velocities(c.attention(name), c.points(), c.queries())
    expected = velocity(name, c.p, c.probes, c.x, c.w)
    assert v.dtype == jnp.float32
    # A rounding of a score of size s is a relative error s of a weight; s < 10 here.
    tolerance = (
        3 * float(np.finfo(np.float32).eps) ** (-1 / 3) if name == "sinkhorn" else 30
    )
    assert_close(v, expected.astype(np.float32), ulps=tolerance, scale=1.0)


@every_variant
def test_tokens_are_exchangeable(name: str, rng: np.random.Generator):
    c = case(rng)
    order = rng.permutation(len(c.x))
    permuted = Case(c.p, c.x[order], c.w[order], c.probes)
    attention = c.attention(name)
    v = velocities(attention, c.points(), c.queries())
    w = velocities(attention, permuted.points(), c.queries())
    assert_close(w, v, ulps=ulps(name))


def rotate_case(c: Case, R: np.ndarray) -> Case:
    p = Parameters(c.p.Q @ R.T, c.p.K @ R.T, R @ c.p.V @ R.T, c.p.epsilon)
    return Case(p, c.x @ R.T, c.w, c.probes @ R.T)


def shift_case(c: Case, by: np.ndarray) -> Case:
    return Case(c.p, c.x + by, c.w, c.probes + by)


def symmetry_gap(
    name: str, symmetry: str, rng: np.random.Generator, **options: object
) -> float:
    """How far a barycentre is from commuting with `symmetry`; 0 if it does."""
    c = case(rng)
    identity = Parameters(c.p.Q, c.p.K, np.eye(3), c.p.epsilon)
    c = Case(identity, c.x, c.w, c.probes)
    compute = lambda c: velocities(
        c.attention(name, **options), c.points(), c.queries()
    )
    v = compute(c)
    if symmetry == "permutation":
        order = rng.permutation(len(c.x))
        transformed, expected = Case(c.p, c.x[order], c.w[order], c.probes), v
    elif symmetry == "orthogonal":
        R = orthogonal(rng, 3)
        transformed, expected = rotate_case(c, R), v @ R.T
    else:
        by = np.array([0.5, -1.0, 2.0])
        # The value carries 1/epsilon where the literature puts it there.
        weight = c.attention(name).value[0, 0]
        transformed, expected = shift_case(c, by), v + weight * by[None, :]
    w = compute(transformed)
    return float(jnp.max(jnp.abs(w - expected)) / jnp.max(jnp.abs(v)))


@every_variant
@pytest.mark.parametrize("symmetry", ["permutation", "orthogonal", "translation"])
def test_symmetries_match_the_declared_ones(
    name: str, symmetry: str, rng: np.random.Generator
):
    gap = symmetry_gap(name, symmetry, rng)
    if symmetry in symmetries[name]:
        assert gap < 2 * ulps(name) * np.finfo(np.float64).eps
    else:
        assert gap > 0.01


@pytest.mark.parametrize(
    ("name", "options"), [("esp-soft", {"tau": 1.0}), ("sinkhorn", {"iterations": 1})]
)
def test_declared_properties_hold_for_default_options(
    name: str, options: dict, rng: np.random.Generator
):
    """Other options may have fewer symmetries, as the page of attentions says."""
    assert "translation" in symmetries[name]
    assert symmetry_gap(name, "translation", rng, **options) > 0.01


@pytest.mark.slow_cases(
    "reduction1-inf-sinkhorn",
    "reduction1-nan-sinkhorn",
    "reduction1-0.0-esp-soft",
    "reduction1-0.0-esp-soft-published",
    "reduction1-0.0-sinkhorn",
)
@every_variant
@pytest.mark.parametrize("garbage", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("reduction", [None, Blocked(3)])
def test_excluded_tokens_have_no_influence(
    name: str, garbage: float, reduction: Blocked | None, rng: np.random.Generator
):
    c = case(rng)
    attention = c.attention(name)
    mu = c.points() if reduction is None else c.points(reduction)
    x = jnp.concatenate([mu.tokens.x, jnp.full((2, c.d), garbage)])
    w = jnp.append(mu.log_weights, jnp.full(2, -jnp.inf))
    extended = Points(Tokens(x, jnp.linspace(0, 1, len(w))), w, mu.reduction)
    v = velocities(attention, extended, c.queries())
    assert_close(v, velocities(attention, mu, c.queries()), ulps=ulps(name))
    assert_close(extended.mean, mu.mean)
    assert_close(extended.covariance, mu.covariance)


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name.startswith("esp-") else name
        for name in unordered_variants
    ],
)
def test_derivatives_ignore_excluded_tokens(name: str, rng: np.random.Generator):
    c = case(rng)
    attention, mu = c.attention(name), c.points()
    w = jnp.append(mu.log_weights, -jnp.inf)

    def total(x: jax.Array, probes: jax.Array) -> jax.Array:
        extended = Points(Tokens(jnp.concatenate([x, jnp.full((1, c.d), jnp.nan)])), w)
        return jnp.sum(velocities(attention, extended, Tokens(probes)) ** 2)

    def total_without(x: jax.Array, probes: jax.Array) -> jax.Array:
        without_token = Points(Tokens(x), mu.log_weights)
        return jnp.sum(velocities(attention, without_token, Tokens(probes)) ** 2)

    at = (mu.tokens.x, c.queries().x)
    slopes = (jax.jit(jax.grad(fn, argnums=(0, 1))) for fn in (total, total_without))
    actual, expected = (slope(*at) for slope in slopes)
    for derivative, reference in zip(actual, expected, strict=True):
        assert_close(derivative, reference, ulps=ulps(name, 1000))


@pytest.mark.slow_cases("7-sinkhorn")
@every_variant
@pytest.mark.parametrize("size", [1, 3, 7, 20])
def test_blocked_sums_equal_dense_sums(name: str, size: int, rng: np.random.Generator):
    c = case(rng)
    attention = c.attention(name)
    dense, blocked = (
        velocities(attention, mu, c.queries())
        for mu in (c.points(), c.points(Blocked(size)))
    )
    assert_close(blocked, dense, ulps=ulps(name))


@pytest.mark.slow_cases("differential")
@pytest.mark.parametrize(
    "name",
    [
        # `test_derivatives_under_vmap_and_blocked` checks this for potentials;
        # soft sorts have one kind of sum.
        pytest.param(name, marks=pytest.mark.slow)
        if name in ("sinkhorn", "esp-soft", "esp-soft-published")
        else name
        for name in unordered_variants
    ],
)
def test_derivatives_of_blocked_sums_equal_dense_ones(
    name: str, rng: np.random.Generator
):
    c = case(rng)
    attention = c.attention(name)

    def total(mu: Points) -> jax.Array:
        return jnp.sum(velocities(attention, mu, c.queries()) ** 2)

    dense, blocked = (
        eqx.filter_jit(eqx.filter_grad(total))(mu)
        for mu in (c.points(), c.points(Blocked(3)))
    )
    assert_close(blocked.tokens.x, dense.tokens.x, ulps=ulps(name, 1000))
    assert_close(blocked.log_weights, dense.log_weights, ulps=ulps(name, 1000))


@pytest.mark.slow_cases("sinkhorn")
@every_variant
def test_jit_gives_the_eager_result(name: str, rng: np.random.Generator):
    c = case(rng)
    attention, mu = c.attention(name), c.points()
    v = eager_velocities(attention, mu, c.queries())
    assert_close(velocities(attention, mu, c.queries()), v, ulps=ulps(name))


@pytest.mark.parametrize("name", ["softmax", "l2", "sinkhorn"])
def test_scores_of_thousands_stay_finite_where_rows_are_normalised(
    name: str, rng: np.random.Generator
):
    c = case(rng, epsilon=1e-3)
    c = Case(Parameters(c.p.Q, c.p.Q, c.p.V, c.p.epsilon), c.x, c.w, c.probes)
    v = velocities(c.attention(name), c.points(), c.queries())
    assert jnp.all(jnp.isfinite(v))


@pytest.mark.parametrize("iterations", [1, 2, 3, 4, 5])
def test_half_steps_match_the_alternation_by_definition(
    iterations: int, rng: np.random.Generator
):
    c = case(rng)
    attention = c.attention("sinkhorn", iterations=iterations)
    v = velocities(attention, c.points(), c.queries())
    kappa = half_steps(c.p, c.probes, c.x, c.w, iterations=iterations)
    assert_close(v, (kappa * c.w) @ c.x @ c.p.V.T)


def test_one_sinkhorn_half_step_is_softmax(rng: np.random.Generator):
    c = case(rng, epsilon=1.0)
    half_step, soft = c.attention("sinkhorn", iterations=1), c.attention("softmax")
    assert_close(
        velocities(half_step, c.points(), c.queries()),
        velocities(soft, c.points(), c.queries()),
    )


def test_score_of_one_pair_matches_the_definition(rng: np.random.Generator):
    c = case(rng, n=1)
    _, p = biased_score(rng, c.p)
    score = Dot(
        p.Q, p.K, p.epsilon, query_bias=jnp.asarray(p.q), key_bias=jnp.asarray(p.k)
    )
    actual = score(Tokens(jnp.asarray(c.probes[:1])), Tokens(jnp.asarray(c.x)))
    assert_close(actual, [[dot_score(p, c.probes[0], c.x[0])]])
