"""Energies of points and their variations, against sums and plans in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from energy_cases import (
    PAIRS,
    POTENTIALS,
    gradient,
    make_energy,
    reference,
    value,
    variation,
)
from energy_reference import sinkhorn
from helpers import CASES, Case, assert_close, case, gaussian
from reference import Parameters, dot, plan_potentials, score_matrix, squared_distance
from scipy.stats import multivariate_normal

from meanfield.dynamics import causal
from meanfield.energies import (
    Entropy,
    Interaction,
    Potential,
    QuadraticPotential,
    SinkhornEnergy,
    energies,
)
from meanfield.errors import (
    InvalidInputError,
    NotClosedError,
    UnknownNameError,
    UnsupportedError,
)
from meanfield.measures import Blocked, Gaussian, Points
from meanfield.scores import Dot, Masked
from meanfield.theorems.reference.measures import hermite_nodes as nodes
from meanfield.tokens import Tokens


def add_excluded_token(c: Case) -> tuple[Points, np.ndarray]:
    """The tokens of `c` with an excluded one far away."""
    x = np.concatenate([c.x, 1e3 * np.ones((1, c.d))])
    mu = Points.weighted(jnp.asarray(x), jnp.asarray(np.append(c.w, 0.0)))
    return mu, x


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("kind", PAIRS)
def test_energies_of_points_are_sums_over_pairs(
    kind: str, rng: np.random.Generator
) -> None:
    c = CASES["k below d"](rng)
    energy, expected = make_energy(kind, c.p), reference(kind, c.p)(c.x, c.w)
    assert_close(value(energy, c.points()), expected, ulps=200, scale=1.0)
    blocked = value(energy, c.points(Blocked(3)))
    assert_close(blocked, expected, ulps=200, scale=1.0)
    assert_close(value(energy, add_excluded_token(c)[0]), expected, ulps=200, scale=1.0)


def test_the_sinkhorn_energy_matches_the_plan_of_pot(rng: np.random.Generator) -> None:
    """Castin2025, eq. (5.11) and remark 5.2: two kernels, one number."""
    c = case(rng, n=6, d=2, k=3)
    energy, mu = SinkhornEnergy(c.p.Q, c.p.K, c.p.epsilon), c.points()
    expected = sinkhorn(c.p)(c.x, c.w)
    dual, primal = eqx.filter_jit(lambda mu: (energy(mu), energy.primal(mu)))(mu)
    assert abs(float(dual) - expected) < 1e-12  # POT stops at 1e-15 in L1
    assert abs(float(primal) - expected) < POTENTIALS
    half = Parameters(c.p.Q, c.p.K, c.p.V, 2 * c.p.epsilon)
    S = score_matrix(squared_distance, half, c.x, c.x)
    f, g = plan_potentials(S, c.w)
    squares = np.sum((c.x @ c.p.Q.T) ** 2 + (c.x @ c.p.K.T) ** 2, axis=1)
    printed_energy = -c.w @ (f + g) / 2 + c.w @ squares / (4 * c.p.epsilon)
    assert abs(float(dual) - printed_energy) < 1e-12


@pytest.mark.parametrize("kind", PAIRS)
def test_the_first_variation_is_the_derivative_in_the_weights(
    kind: str, rng: np.random.Generator
) -> None:
    """$dE = \\int \\delta E\\,d\\nu$ for $\\nu$ of mass zero: ERRATA C15."""
    c = case(rng, n=6, d=2)
    energy, expected = make_energy(kind, c.p), reference(kind, c.p)
    nu, h = rng.normal(size=6) * c.w, 1e-4
    nu -= nu.mean()
    ahead, behind = (expected(c.x, c.w + s * h * nu) for s in (1, -1))
    actual = variation(energy, c.points(), Tokens(jnp.asarray(c.x))) @ nu
    assert abs(float(actual) - (ahead - behind) / (2 * h)) < 1e-8  # h², and 1e-16/h


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("kind", PAIRS)
def test_variations_elsewhere_are_integrals_against_the_measure(
    kind: str, rng: np.random.Generator
) -> None:
    c = case(rng, n=6, d=2)
    energy, score = make_energy(kind, c.p), squared_distance if "l2" in kind else dot
    scores = score_matrix(score, c.p, c.probes, c.x)
    seeing = score_matrix(score, c.p, c.x, c.probes).T
    if kind == "sinkhorn":
        f, g = plan_potentials(score_matrix(dot, c.p, c.x, c.x), c.w)
        expected = np.log(np.exp(scores + g) @ c.w) + np.log(np.exp(seeing + f) @ c.w)
    else:
        expected = np.exp(scores) @ c.w + np.exp(seeing) @ c.w
    mu, _ = add_excluded_token(c)
    for measure in (c.points(), c.points(Blocked(4)), mu):
        actual = variation(energy, measure, c.queries())
        constant = actual[0] - expected[0] / 2 if kind == "sinkhorn" else 0.0
        np.testing.assert_allclose(actual - constant, expected / 2, rtol=POTENTIALS)


@pytest.mark.slow_cases("sinkhorn-reduction1")
@pytest.mark.parametrize("reduction", [None, Blocked(4)])
@pytest.mark.parametrize("kind", PAIRS)
def test_gradients_are_derivatives_in_the_places_of_atoms(
    kind: str, reduction: Blocked | None, rng: np.random.Generator
) -> None:
    c = case(rng, n=5, d=2)
    energy, expected = make_energy(kind, c.p), reference(kind, c.p)
    mu = c.points() if reduction is None else c.points(reduction)
    h, differences = 1e-5, np.empty_like(c.x)
    for i, j in np.ndindex(*c.x.shape):
        step = np.zeros_like(c.x)
        step[i, j] = h
        change = expected(c.x + step, c.w) - expected(c.x - step, c.w)
        differences[i, j] = change / (2 * h) / c.w[i]
    actual = gradient(energy, mu, Tokens(jnp.asarray(c.x)))
    np.testing.assert_allclose(actual, differences, atol=3e-9)  # h², and 1e-16/h


def test_energies_are_differentiable_through_their_potentials(
    rng: np.random.Generator,
) -> None:
    c = case(rng, n=5, d=2)
    energy, mu = make_energy("sinkhorn", c.p), c.points()
    through = eqx.filter_jit(jax.grad(lambda x: energy(mu.replace_coordinates(x))))(
        jnp.asarray(c.x)
    )
    actual = gradient(energy, mu, Tokens(jnp.asarray(c.x)))
    np.testing.assert_allclose(through / c.w[:, None], actual, atol=POTENTIALS)


def test_entropy_is_minus_scipy_entropy(rng: np.random.Generator) -> None:
    mu = gaussian(rng, 3)
    alpha, Sigma = np.asarray(mu.mean), np.asarray(mu.covariance)
    law = multivariate_normal(alpha, Sigma)  # pyright: ignore[reportArgumentType]
    assert_close(Entropy()(mu), -law.entropy(), scale=1.0)
    probes = rng.normal(size=(4, 3))
    actual = Entropy().first_variation(mu, Tokens(jnp.asarray(probes)))
    assert_close(actual, law.logpdf(probes), ulps=1000)
    by_mean, by_covariance = Entropy().moment_gradients(mu)
    assert_close(by_covariance, -np.linalg.inv(Sigma) / 2, ulps=1000)
    assert not np.any(by_mean)


@pytest.mark.parametrize("r", [1, 2])
def test_the_entropy_of_a_singular_gaussian_is_infinite(
    r: int, rng: np.random.Generator
) -> None:
    u = rng.normal(size=(2, 1))
    Y = np.hstack([u, 3 * u])[:, :r]
    assert Entropy()(Gaussian(jnp.zeros(2), jnp.asarray(Y))) == jnp.inf


def test_potentials_are_weighted_sums(rng: np.random.Generator) -> None:
    c = case(rng, n=6, d=2)
    H, centre = rng.normal(size=(2, 2)), rng.normal(size=2)
    H = H + H.T
    quadratic = QuadraticPotential(H, centre)
    values = [(z - centre) @ H @ (z - centre) / 2 for z in c.x]
    singular = Potential(lambda x: 1 / jnp.sum(x**2))  # infinite at the origin
    mu, _ = add_excluded_token(c)
    assert_close(quadratic(mu), c.w @ values, scale=1.0)
    assert_close(singular(mu), c.w @ (1 / np.sum(c.x**2, axis=1)))
    slope = jax.grad(lambda x: singular(mu.replace_coordinates(x)))(mu.tokens.x)
    expected = -2 * c.x / np.sum(c.x**2, axis=1)[:, None] ** 2
    assert_close(slope[:-1] / c.w[:, None], expected)
    assert_close(singular.gradient(mu, Tokens(jnp.asarray(c.x))), expected)


def test_a_quadratic_potential_sees_two_moments(rng: np.random.Generator) -> None:
    mu, H = gaussian(rng, 2, 1), np.array([[2.0, 0.5], [0.5, -1.0]])
    energy = QuadraticPotential(H, [1.0, -1.0])
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 4)
    z = x - np.array([1.0, -1.0])
    assert_close(energy(mu), w @ np.sum((z @ H) * z, axis=1) / 2, scale=1.0)
    assert_close(energy.moment_gradients(mu)[1], H / 2)


def test_energies_add_up(rng: np.random.Generator) -> None:
    c = case(rng, n=4, d=2)
    first, two = make_energy("interaction", c.p), make_energy("second-moment", c.p)
    mu, probes = c.points(), c.queries()
    total = 2.0 * first - two * 0.5 + (-first)
    assert_close(value(total, mu), value(first, mu) - 0.5 * value(two, mu))
    assert_close(
        gradient(total, mu, probes),
        gradient(first, mu, probes) - 0.5 * gradient(two, mu, probes),
    )
    small = gaussian(rng, 2)
    small = Gaussian(small.mean, 0.2 * small.factor)
    assert_close(value(total, small), value(first, small) - 0.5 * value(two, small))


def test_undefined_energies_are_rejected(rng: np.random.Generator) -> None:
    c, mu = case(rng, n=3, d=2), gaussian(rng, 2)
    with pytest.raises(UnsupportedError, match="no density"):
        Entropy()(c.points())
    with pytest.raises(UnsupportedError, match="no density"):
        Entropy().variation(c.points())
    with pytest.raises(NotClosedError, match="QuadraticPotential"):
        Potential(lambda x: jnp.sum(x**4))(mu)
    masked = Interaction(Masked(Dot(c.p.Q, c.p.K), causal))
    with pytest.raises(NotClosedError, match="Masked"):
        masked(mu)
    with pytest.raises(InvalidInputError, match="symmetric"):
        QuadraticPotential([[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(InvalidInputError, match="`centre`"):
        QuadraticPotential([[1.0]], [1.0, 2.0])
    with pytest.raises(UnknownNameError, match="sinkhorn"):
        energies["sinkhron"]


def test_masked_interactions_count_the_pairs_that_are_seen(
    rng: np.random.Generator,
) -> None:
    c = case(rng, n=5, d=2)
    energy = Interaction(Masked(Dot(c.p.Q, c.p.K, c.p.epsilon), causal))
    exponentials = np.tril(np.exp(score_matrix(dot, c.p, c.x, c.x)))
    assert_close(energy(c.points()), c.w @ exponentials @ c.w / 2)
