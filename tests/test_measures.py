"""Measures: moments, norms, laws of samples and clouds."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close, gaussian
from jaxtyping import Array

from meanfield.attention import Sinkhorn, attentions
from meanfield.energies import Interaction, bures_squared
from meanfield.errors import InvalidInputError, UnknownNameError, UnsupportedError
from meanfield.fields import Affine, Image
from meanfield.measures import Blocked, Dense, Gaussian, Grid, Points
from meanfield.measures.clouds import named
from meanfield.measures.sampling import clouds, gauss_hermite, gaussian_draw
from meanfield.scores import Dot
from meanfield.tokens import Tokens


def weighted_points(rng: np.random.Generator, n: int = 6, d: int = 3) -> Points:
    return Points.weighted(rng.normal(size=(n, d)), rng.uniform(0.1, 2, size=n))


def test_weights_sum_to_one_and_give_the_moments(rng: np.random.Generator):
    mu = weighted_points(rng)
    x, w = np.asarray(mu.tokens.x), np.asarray(mu.weights)
    assert_close(np.sum(w), 1.0)
    assert_close(mu.mean, w @ x)
    assert_close(mu.covariance, np.cov(x.T, aweights=w, ddof=0))


def test_traced_arguments_make_the_same_measures(rng: np.random.Generator):
    x, w, F = rng.normal(size=(6, 3)), rng.uniform(size=6), rng.normal(size=(3, 3))
    reference = Points.weighted(x, w).log_weights, Gaussian.from_moments(x[0], F @ F.T)
    traced = (
        jax.jit(lambda w: Points.weighted(x, w).log_weights)(w),
        jax.jit(lambda S: Gaussian.from_moments(x[0], S))(F @ F.T),
    )
    assert_close(reference[0], traced[0])
    assert_close(reference[1].factor, traced[1].factor)
    assert_close(reference[1].factor @ reference[1].factor, F @ F.T)


WRONG = {
    "indefinite": (
        lambda S: Gaussian.from_moments(jnp.zeros(2), S).covariance,
        [[1.0, 2.0], [2.0, 1.0]],
    ),
    "not symmetric": (
        lambda S: Gaussian.from_moments(jnp.zeros(2), S).covariance,
        [[1.0, 0.5], [0.0, 1.0]],
    ),
    "no covariance": (lambda S: bures_squared(S, jnp.eye(2)), [[1.0, 2.0], [2.0, 1.0]]),
    "below zero": (lambda w: Points.weighted(jnp.eye(2), w).mean, [1.0, -0.5]),
    "without mass": (lambda w: Points.weighted(jnp.eye(2), w).mean, [0.0, 0.0]),
    "bandwidth": (lambda e: Dot(jnp.eye(2), jnp.eye(2), e).epsilon, -1.0),
}


@pytest.mark.parametrize("kind", WRONG)
def test_invalid_traced_arguments_give_nan(kind: str):
    """Traced values cannot raise; they and their derivatives must be NaN."""
    make, invalid = WRONG[kind]
    value = jnp.asarray(invalid)
    with pytest.raises(InvalidInputError):
        make(value)
    total = lambda x: jnp.sum(make(x))
    actual, slope = jax.jit(jax.vmap(jax.value_and_grad(total)))(value[None])
    assert np.all(np.isnan(slope))
    assert np.all(np.isnan(actual))


def test_a_grid_needs_concrete_arguments():
    edges = [np.linspace(-1, 1, 9)]
    with pytest.raises(UnsupportedError, match="outside `jit`"):
        jax.jit(lambda values: Grid.from_density(edges, values).mean)(jnp.ones(8))


def test_unnormalised_weights_do_not_change_moments(rng: np.random.Generator):
    mu = weighted_points(rng)
    heavy = Points(mu.tokens, mu.log_weights + 3.0)
    assert_close(heavy.mean, mu.mean)
    assert_close(heavy.covariance, mu.covariance)
    assert_close(np.sum(heavy.weights), np.exp(3.0))


def test_covariance_keeps_its_digits_far_from_the_origin(rng: np.random.Generator):
    x = rng.normal(size=(50, 2))
    near, far = Points.uniform(x), Points.uniform(x + 1e6)
    # States at 1e6 are rounded at 1e-10: that, and not 1e12 * eps, is what is lost.
    assert np.max(np.abs(near.covariance - far.covariance)) < 1e-9


def test_the_norm_of_points_does_not_depend_on_their_number(rng: np.random.Generator):
    x, v = rng.normal(size=(2, 5, 3))
    single, tripled = Points.uniform(x), Points.uniform(np.tile(x, (3, 1)))
    assert_close(tripled.norm(jnp.tile(v, (3, 1))), single.norm(jnp.asarray(v)))
    assert_close(single.norm(jnp.asarray(v)), np.sqrt(np.mean(np.sum(v**2, axis=1))))


def test_excluded_tokens_do_not_enter_norm_or_moments(rng: np.random.Generator):
    mu = Points.weighted(rng.normal(size=(3, 2)), [1.0, 0.0, 2.0])
    garbage = mu.tokens.x.at[1].set(jnp.nan)
    changed_points = mu.replace_coordinates(garbage)
    assert_close(changed_points.mean, mu.mean)
    assert_close(changed_points.covariance, mu.covariance)
    assert_close(changed_points.norm(garbage), mu.norm(mu.tokens.x))


def test_a_measure_without_mass_has_finite_moments():
    mu = Points(Tokens(jnp.ones((2, 2))), jnp.full(2, -jnp.inf))
    for value in (mu.mean, mu.covariance, mu.norm(jnp.ones((2, 2)))):
        assert not np.any(value)


def test_restriction_conditions_the_measure(rng: np.random.Generator):
    mu = weighted_points(rng)
    mask = np.array([True, False, True, True, False, False])
    part = mu.restrict(jnp.asarray(mask))
    w = np.where(mask, np.asarray(mu.weights), 0)
    assert_close(part.weights, w / w.sum())
    nothing = mu.restrict(jnp.zeros(6, bool))
    assert not np.any(nothing.weights)


@pytest.mark.parametrize("reduction", [None, Blocked(2), Blocked(100)])
def test_integrals_are_sums(reduction: Blocked | None, rng: np.random.Generator):
    mu = weighted_points(rng)
    if reduction is not None:
        mu = Points(mu.tokens, mu.log_weights, reduction)
    queries = Tokens(jnp.asarray(rng.normal(size=(4, 3))))
    A, g, values = rng.normal(size=(3, 3)), rng.normal(size=6), rng.normal(size=(6, 2))
    score = Dot(A, np.eye(3))
    S = np.asarray(queries.x) @ A.T @ np.asarray(mu.tokens.x).T
    w = np.asarray(mu.weights)
    mass = np.exp(S + g[None, :]) @ w
    assert_close(mu.log_integral(score, queries, jnp.asarray(g)), np.log(mass))
    mean = (np.exp(S + g[None, :]) * w) @ np.asarray(mu.tokens.x) / mass[:, None]
    assert_close(mu.tilted_mean(score, queries, jnp.asarray(g)), mean)
    integral = mu.integral(jnp.tanh, score, queries, jnp.asarray(values))
    assert_close(integral, (np.tanh(S) * w) @ values)


# Gaussians


@pytest.mark.parametrize("r", [0, 1, 3, 5])
def test_a_gaussian_of_any_rank(r: int, rng: np.random.Generator):
    Y = jnp.asarray(rng.normal(size=(3, r)))
    mu = Gaussian(jnp.zeros(3), Y)
    assert_close(mu.covariance, np.asarray(Y) @ np.asarray(Y).T)


def test_moments_make_a_gaussian(rng: np.random.Generator):
    Y = rng.normal(size=(3, 2))
    for Sigma in (np.eye(3), Y @ Y.T, np.zeros((3, 3)), 1e-20 * np.eye(3)):
        mu = Gaussian.from_moments(np.arange(3.0), Sigma)
        assert_close(mu.covariance, Sigma)
        assert_close(mu.mean, np.arange(3.0))


def test_transport_moves_mean_and_factor(rng: np.random.Generator):
    mu = gaussian(rng, 3, 2)
    L, b = jnp.asarray(rng.normal(size=(3, 3))), jnp.asarray(rng.normal(size=3))
    alpha, Y = mu.transport(Affine(L, b))
    assert_close(alpha, np.asarray(L) @ np.asarray(mu.mean) + np.asarray(b))
    assert_close(Y, np.asarray(L) @ np.asarray(mu.factor))
    image = Image(L, b, Image(L, b, Affine(L, b)))
    with pytest.raises(UnsupportedError, match="affine"):
        mu.transport(image)


def test_the_norm_of_a_gaussian_matches_all_its_numbers(rng: np.random.Generator):
    mu = gaussian(rng, 3, 2)
    numbers = np.concatenate([np.asarray(mu.mean), np.asarray(mu.factor).ravel()])
    assert_close(mu.norm(mu.coordinates), np.linalg.norm(numbers))


# Sampling


@pytest.mark.parametrize(("d", "r"), [(1, 1), (2, 2), (3, 2)])
def test_nodes_integrate_polynomials_exactly(d: int, r: int, rng: np.random.Generator):
    """Along each column of the factor, up to degree 2 order - 1."""
    order = 5
    mu = gaussian(rng, d, r)
    nodes = gauss_hermite(mu, order=order)
    x, w = np.asarray(nodes.tokens.x), np.asarray(nodes.weights)
    z = (x - np.asarray(mu.mean)) @ np.linalg.pinv(np.asarray(mu.factor)).T
    odd = lambda k: np.prod(np.arange(k - 1, 0, -2)) if k % 2 == 0 else 0.0
    for powers in itertools.product(range(2 * order), repeat=r):
        moment = np.sum(w * np.prod(z ** np.array(powers), axis=1))
        expected = np.prod([odd(k) for k in powers])
        size = np.sum(w * np.prod(np.abs(z) ** np.array(powers), axis=1))
        assert abs(moment - expected) <= 1e-12 * max(1.0, size)
    assert_close(nodes.mean, mu.mean)
    assert_close(nodes.covariance, mu.covariance)


def test_quadrature_of_one_degree_more_is_not_exact():
    nodes = gauss_hermite(Gaussian(jnp.zeros(1), jnp.eye(1)), order=3)
    x, w = np.asarray(nodes.tokens.x)[:, 0], np.asarray(nodes.weights)
    assert abs(w @ x**6 - 15) > 1  # degree 2 * 3


def test_invalid_quadrature_orders_are_rejected(rng: np.random.Generator):
    mu = gaussian(rng, 4)
    for order in (0, 1000):
        with pytest.raises(InvalidInputError, match="order"):
            gauss_hermite(mu, order=order)


def test_draws_have_the_moments_of_their_gaussian(rng: np.random.Generator, key: Array):
    mu = gaussian(rng, 3, 2)
    n = 40_000
    cloud = gaussian_draw(mu, n, key=key)
    assert cloud.tokens.n == n
    size = float(jnp.max(mu.covariance))
    # Five standard errors: deviations of a mean and of a covariance over sqrt(n).
    assert np.max(np.abs(cloud.mean - mu.mean)) < 5 * np.sqrt(size / n)
    gap = np.max(np.abs(cloud.covariance - mu.covariance))
    assert gap < 5 * np.sqrt(2 / n) * size


def test_single_precision_draws_stay_single(key: Array):
    mu = Gaussian(jnp.zeros(2, jnp.float32), jnp.eye(2, dtype=jnp.float32))
    assert gaussian_draw(mu, 3, key=key).tokens.x.dtype == jnp.float32
    assert gauss_hermite(mu, order=3).log_weights.dtype == jnp.float32


N = 20_000
EUCLIDEAN = [name for name in clouds if clouds[name].__module__ == named.__name__]
LAWS = {  # second moment of a coordinate of the first two axes
    "gaussian": lambda d: 1.0,
    "ball": lambda d: 1 / (d + 2),
    "sphere": lambda d: 1 / d,
    "ring": lambda d: 0.5 + 0.05**2,
}


@pytest.mark.parametrize("name", [name for name in EUCLIDEAN if name != "uniform"])
@pytest.mark.parametrize("d", [2, 3])
def test_clouds_have_their_law(name: str, d: int, key: Array):
    x = np.asarray(clouds[name](N, d, key=key))
    second_result = np.asarray(clouds[name](N, d, key=key))
    assert x.shape == (N, d)
    assert np.array_equal(x, second_result)  # determined by the key alone
    radius = np.linalg.norm(x, axis=1)
    if name in ("ball", "sphere"):
        assert np.max(radius) <= 1 + 1e-12
    if name == "sphere":
        assert np.min(radius) >= 1 - 1e-12
    if name == "ring":
        assert abs(np.mean(np.linalg.norm(x[:, :2], axis=1)) - 1) < 0.01
    if name in ("gaussian", "ball", "sphere", "ring"):
        # Coordinates and their squares vary by at most 1.5: six standard errors.
        assert np.max(np.abs(x[:, :2].mean(axis=0))) < 6 / np.sqrt(N)
        second = (x[:, :2] ** 2).mean(axis=0)
        assert np.max(np.abs(second - LAWS[name](d))) < 9 / np.sqrt(N)
    if name == "moons":
        assert np.max(np.abs(x.mean(axis=0))) < 6 / np.sqrt(N)  # centred
        upper, lower = x[::2], x[1::2]
        assert np.mean(upper[:, 1]) > np.mean(lower[:, 1])
    if name == "mixture":
        centres = np.array([x[i::4].mean(axis=0) for i in range(4)])
        spread = np.concatenate([x[i::4] - centres[i] for i in range(4)])
        assert abs(np.std(spread) - 0.25) < 0.01


def test_flat_clouds_need_a_plane(key: Array):
    for name in ("ring", "moons"):
        with pytest.raises(InvalidInputError, match="d ≥ 2"):
            clouds[name](10, 1, key=key)


def test_unknown_clouds_get_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean `sphere`"):
        clouds["spheer"]


def test_measures_can_be_batched(rng: np.random.Generator):
    x = jnp.asarray(rng.normal(size=(4, 5, 2)))
    means = jax.vmap(lambda batch: Points.uniform(batch).mean)(x)
    assert_close(means, np.asarray(x).mean(axis=1))


def one_sided_differences(fn: Callable[[Array], Array], w: np.ndarray) -> np.ndarray:
    """Second-order difference quotients, one-sided where a weight is zero."""
    h, at = 3e-5, lambda i, s: float(fn(jnp.asarray(w + s * np.eye(len(w))[i])))
    upward = lambda i: (4 * at(i, h) - at(i, 2 * h) - 3 * at(i, 0.0)) / (2 * h)
    central = lambda i: (at(i, h) - at(i, -h)) / (2 * h)
    return np.array([central(i) if w[i] else upward(i) for i in range(len(w))])


WEIGHTED_SUMS: dict[str, Callable[[Points], Array]] = {
    "mean": lambda mu: mu.mean[0],
    "covariance": lambda mu: mu.covariance[0, 1],
    "size": lambda mu: mu.size,
    "mass of a part": lambda mu: mu.restrict(jnp.arange(4) < 3).mean[0],
    "interaction": lambda mu: Interaction(Dot(jnp.eye(2), jnp.eye(2)))(mu),
    **{
        name: lambda mu, name=name: jnp.sum(
            attentions[name](jnp.eye(2), -jnp.eye(2), jnp.eye(2)).field(0.0, mu)(
                mu.tokens
            )[1:]
            ** 2
        )
        for name in ("softmax", "sinkhorn", "sigmoid", "linear")
    },
    "two half-steps": lambda mu: jnp.sum(
        Sinkhorn(iterations=2).barycentre(
            Dot(jnp.eye(2), -jnp.eye(2)), mu.replace_reduction(Dense())
        )(mu.tokens)[1:]
        ** 2
    ),
}


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("name", list(WEIGHTED_SUMS))
def test_weights_of_zero_have_derivatives(name: str):
    """Two tokens are excluded, but their places matter for the derivative."""
    x = np.array([[1.5, -1.0], [0.3, 0.5], [-0.8, 0.4], [0.2, -0.7]])
    w = np.array([0.0, 1.0, 2.0, 0.0])
    fn = jax.jit(lambda w: WEIGHTED_SUMS[name](Points.weighted(x, w)))
    actual = jax.jit(jax.grad(fn))(jnp.asarray(w))
    np.testing.assert_allclose(
        actual, one_sided_differences(fn, w), rtol=1e-5, atol=1e-6
    )
