"""Energies of Gaussians and their variations, against quadrature in NumPy."""

from operator import attrgetter

import jax.numpy as jnp
import numpy as np
import pytest
from energy_cases import PAIRS, gradient, make_energy, moment_gradients, variation
from energy_reference import energy_of_nodes
from helpers import gaussian, small_scores
from jaxtyping import Array
from reference import Parameters, plan_potentials, square_root
from scipy.integrate import dblquad
from typing_extensions import override

from meanfield.energies import Interaction, SinkhornEnergy, energies
from meanfield.measures import Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, Dot, SquaredDistance
from meanfield.scores._score import Factors
from meanfield.theorems.reference.measures import hermite_nodes as nodes
from meanfield.tokens import Tokens

PARTS = ("A", "B", "C", "a", "c", "constant", "bilinear", "dimension")


class Quadratic(AbstractQuadraticScore):
    """A squared distance that declares only that it is quadratic."""

    distance: SquaredDistance

    # Tabulated, since eight properties would be longer.
    A, B, C, a, c, constant, bilinear, dimension = (  # pyright: ignore[reportIncompatibleMethodOverride]
        property(attrgetter(f"distance.{part}")) for part in PARTS
    )

    @override
    def factors(self, queries: Tokens, keys: Tokens) -> Factors:
        return self.distance.factors(queries, keys)

    @override
    def key_terms(self, y: Array) -> Array:
        return self.distance.key_terms(y)

    @override
    def query_terms(self, x: Array) -> Array:
        return self.distance.query_terms(x)


RANKS = [(1, 1), (2, 2), (2, 1), (3, 2)]


@pytest.mark.parametrize(("d", "r"), RANKS)
@pytest.mark.parametrize("kind", PAIRS)
def test_closed_forms_on_gaussians_are_their_quadrature(
    kind: str, d: int, r: int, rng: np.random.Generator
) -> None:
    mu = gaussian(rng, d, r)
    factor, mean = np.asarray(mu.factor), np.asarray(mu.mean) / 2
    mu = Gaussian(jnp.asarray(mean), mu.factor)
    p = small_scores(rng, d, factor, k=d + 1)
    x, w = nodes(mean, factor, 20)
    assert abs(float(make_energy(kind, p)(mu)) - energy_of_nodes(kind, p, x, w)) < 1e-12


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("kind", PAIRS)
def test_variations_on_gaussians_are_those_on_their_nodes(
    kind: str, rng: np.random.Generator
) -> None:
    mu = gaussian(rng, 2)
    p = small_scores(rng, 2, np.asarray(mu.factor), k=3)
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 20)
    cloud = Points.weighted(jnp.asarray(x), jnp.asarray(w))
    probes = Tokens(mu.mean[None, :] + jnp.asarray(rng.normal(size=(4, 2))) / 2)
    energy = make_energy(kind, p)
    actual, expected = (variation(energy, m, probes) for m in (mu, cloud))
    free = actual[0] - expected[0] if kind == "sinkhorn" else 0.0
    np.testing.assert_allclose(actual - free, expected, atol=1e-9)
    np.testing.assert_allclose(
        gradient(energy, mu, probes), gradient(energy, cloud, probes), atol=1e-9
    )


def test_any_quadratic_score_has_its_variation(rng: np.random.Generator) -> None:
    mu = gaussian(rng, 2)
    p = small_scores(rng, 2, np.asarray(mu.factor), k=3)
    energy = Interaction(Quadratic(SquaredDistance(p.Q, p.K, p.epsilon)))
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 20)
    probes = np.asarray(mu.mean) + rng.normal(size=(4, 2)) / 2
    far = lambda q, k: ((q @ p.Q.T)[:, None] - (k @ p.K.T)[None]) ** 2 / p.epsilon
    kernel, seeing = (
        np.exp(-np.sum(f, axis=2)) for f in (far(probes, x), far(x, probes))
    )
    expected = (kernel @ w + seeing.T @ w) / 2
    actual = variation(energy, mu, Tokens(jnp.asarray(probes)))
    np.testing.assert_allclose(actual, expected, atol=1e-9)


def test_biases_and_constants_enter_the_energy(rng: np.random.Generator) -> None:
    mu = gaussian(rng, 2)
    p = small_scores(rng, 2, np.asarray(mu.factor), k=3)
    q, k = rng.normal(size=(2, 3)) / 4
    energy = Interaction(Dot(p.Q, p.K, p.epsilon, query_bias=q, key_bias=k))
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 24)
    biased_parameters = Parameters(p.Q, p.K, p.V, p.epsilon, q, k)
    expected = energy_of_nodes("interaction", biased_parameters, x, w)
    assert abs(float(energy(mu)) / expected - 1) < 1e-12


def test_the_interaction_is_infinite_where_its_integral_is() -> None:
    r"""Where not $\Sigma^{-1} \succ A\Sigma A^\top$; finite as printed (ERRATA C21)."""
    a = 0.6
    energy = Interaction(Dot([[a]], [[1.0]]))

    def value_at(s: float) -> float:
        return float(energy(Gaussian.from_moments([0.3], [[s]])))

    s = 0.9 / a
    integrand = lambda y, x: np.exp(
        a * x * y - ((x - 0.3) ** 2 + (y - 0.3) ** 2) / (2 * s)
    )
    integral = dblquad(integrand, -60, 60, -60, 60, epsabs=1e-10)[0]
    assert abs(value_at(s) / (integral / (2 * np.pi * s) / 2) - 1) < 1e-8
    assert value_at(1.2 / a) == np.inf
    assert value_at(1.0 / a) == np.inf


@pytest.mark.parametrize("s", [1e-6, 1.0, 1e6, 1e15])
def test_a_wide_gaussian_keeps_its_digits(s: float) -> None:
    r"""$x - y \sim N(0, 2s)$, so $E e^{-|x-y|^2/\epsilon} = (1+4s/\epsilon)^{-1/2}$."""
    energy = energies["interaction-l2"]([[1.0]], [[1.0]], [[-1.0]])
    wide = Gaussian.from_moments([0.0], [[s]])
    assert abs(float(energy(wide)) * 2 * np.sqrt(1 + 4 * s) - 1) < 1e-14
    x = np.array([0.0, 1.5]) * np.sqrt(s)
    weights = np.exp(-(x**2) / (1 + 2 * s)) / np.sqrt(1 + 2 * s)
    actual = energy.first_variation(wide, Tokens(jnp.asarray(x)[:, None]))
    np.testing.assert_allclose(actual, weights, rtol=1e-13)


def test_an_infinite_energy_has_nan_gradient() -> None:
    energy = Interaction(Dot([[0.6]], [[1.0]]))
    for s, is_finite in ((1.0, True), (2.0, False)):
        by_mean, by_covariance = energy.moment_gradients(
            Gaussian.from_moments([0.3], [[s]])
        )
        assert bool(jnp.all(jnp.isfinite(by_mean))) is is_finite
        assert bool(jnp.all(jnp.isnan(by_covariance))) is not is_finite


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("shape", ["generic", "isotropic", "singular"])
def test_energy_gradients_on_gaussians_match_differences(
    kind: str, shape: str, rng: np.random.Generator
) -> None:
    """One-sided, into the positive semidefinite matrices."""
    mu = gaussian(rng, 2, 1 if shape == "singular" else 2)
    Y = np.eye(2) / 2 if shape == "isotropic" else np.asarray(mu.factor)
    alpha = np.asarray(mu.mean) / 2
    p = small_scores(rng, 2, np.asarray(Y), k=3)
    by_mean, by_covariance = moment_gradients(
        make_energy(kind, p), Gaussian(jnp.asarray(alpha), jnp.asarray(Y))
    )
    h = 1e-3
    Z, direction = rng.normal(size=(2, 2)) / 4, rng.normal(size=2)

    def value_along(t: float) -> float:
        root = square_root(Y @ Y.T + t * Z @ Z.T)
        return energy_of_nodes(kind, p, *nodes(alpha + t * direction, root, 16))

    # The third-order one-sided difference of a function of t ≥ 0.
    difference = (
        -11 * value_along(0.0)
        + 18 * value_along(h)
        - 9 * value_along(2 * h)
        + 2 * value_along(3 * h)
    )
    expected = np.sum(by_covariance * (Z @ Z.T)) + by_mean @ direction
    assert abs(float(expected) - difference / (6 * h)) < 1e-8  # h³, and 1e-15/h
    assert bool(jnp.all(by_covariance == by_covariance.T))


def ot_plan(w: np.ndarray, cost: np.ndarray, epsilon: float) -> np.ndarray:
    f, g = plan_potentials(-cost / epsilon, w)
    return np.outer(w, w) * np.exp(f[:, None] + g[None, :] - cost / epsilon)


def test_the_mean_enters_the_sinkhorn_energy_as_errata_c19_says(
    rng: np.random.Generator,
) -> None:
    r"""$-B^2 + \mathrm{tr}(Q\Sigma Q^\top + K\Sigma K^\top) + 2\alpha A\alpha$.

    With $B^2 = 2\epsilon OT_\epsilon - |(Q-K)\alpha|^2$ of the squared distance.
    """
    mu = gaussian(rng, 1)
    p = small_scores(rng, 1, np.asarray(mu.factor))
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 20)
    cost = (x @ p.Q.T - (x @ p.K.T).T) ** 2 / 2
    plan = ot_plan(w, cost, p.epsilon)
    transport = np.sum(plan * cost) / p.epsilon
    transport += np.sum(plan * np.log(plan / np.outer(w, w)))
    alpha, s = float(mu.mean[0]), float(mu.covariance[0, 0])
    q, k = float(p.Q[0, 0]), float(p.K[0, 0])
    bures = 2 * p.epsilon * transport - ((q - k) * alpha) ** 2
    expected = (-bures + q * q * s + k * k * s + 2 * q * k * alpha**2) / (4 * p.epsilon)
    energy = SinkhornEnergy(p.Q, p.K, p.epsilon)
    assert abs(float(energy(mu)) - expected) < 1e-12


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_sinkhorn_energy_of_a_wide_gaussian_is_half_its_second_moment(d: int):
    """Its plan is the identity: mutual information is small against the scores."""
    energy = SinkhornEnergy(np.eye(d), np.eye(d))
    wide = Gaussian.from_moments(np.zeros(d), 1e160 * np.eye(d))
    assert abs(float(energy(wide)) / (d / 2 * 1e160) - 1) < 1e-14
