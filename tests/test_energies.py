"""Energies and their variations, against sums, plans and quadrature in NumPy."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from energy_reference import interaction, nodes, on_nodes, sinkhorn, sinkhorn_dual
from helpers import CASES, Case, assert_close, case, gaussian, small_scores
from reference import (
    Parameters,
    dot,
    plan_potentials,
    square_root,
    squared_distance,
    table,
)
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal

from meanfield.dynamics import causal
from meanfield.energies import (
    AbstractEnergy,
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
from meanfield.tokens import Tokens

PAIRS = ["interaction", "interaction-l2", "sinkhorn"]
POTENTIALS = 1e-9  # log marginals to eps^(2/3) = 4e-11, as sup norms of this size


def made(kind: str, p: Parameters) -> AbstractEnergy:
    Q, K, V = (jnp.asarray(M) for M in (p.Q, p.K, p.V))
    return energies[kind](Q, K, V, epsilon=p.epsilon)


def reference(kind: str, p: Parameters) -> Callable[[np.ndarray, np.ndarray], float]:
    return {
        "interaction": interaction(dot, p),
        "interaction-l2": interaction(squared_distance, p),
        "sinkhorn": sinkhorn_dual(p),
    }[kind]


@eqx.filter_jit
def value(energy: AbstractEnergy, mu: Points | Gaussian) -> jax.Array:
    return energy(mu)


@eqx.filter_jit
def gradient(energy: AbstractEnergy, mu: Points | Gaussian, at: Tokens) -> jax.Array:
    return energy.gradient(mu, at)


@eqx.filter_jit
def variation(energy: AbstractEnergy, mu: Points | Gaussian, at: Tokens) -> jax.Array:
    return energy.first_variation(mu, at)


@eqx.filter_jit
def slopes(energy: AbstractEnergy, mu: Gaussian) -> tuple[jax.Array, jax.Array]:
    return energy.slopes(mu)


def with_excluded(c: Case) -> tuple[Points, np.ndarray]:
    """The tokens of `c` with one more that counts for nothing, far away."""
    x = np.concatenate([c.x, 1e3 * np.ones((1, c.d))])
    mu = Points.weighted(jnp.asarray(x), jnp.asarray(np.append(c.w, 0.0)))
    return mu, x


@pytest.mark.parametrize("kind", PAIRS)
def test_energies_of_points_are_sums_over_pairs(
    kind: str, rng: np.random.Generator
) -> None:
    c = CASES["k below d"](rng)
    energy, expected = made(kind, c.p), reference(kind, c.p)(c.x, c.w)
    assert_close(value(energy, c.points()), expected, ulps=200, scale=1.0)
    blocked = value(energy, c.points(Blocked(3)))
    assert_close(blocked, expected, ulps=200, scale=1.0)
    assert_close(value(energy, with_excluded(c)[0]), expected, ulps=200, scale=1.0)


def test_the_sinkhorn_energy_is_that_of_the_plan_of_pot(
    rng: np.random.Generator,
) -> None:
    """Castin2025, eq. (5.11) and remark 5.2: two kernels, one number."""
    c = case(rng, n=6, d=2, k=3)
    energy, mu = SinkhornEnergy(c.p.Q, c.p.K, c.p.epsilon), c.points()
    expected = sinkhorn(c.p)(c.x, c.w)
    dual, primal = eqx.filter_jit(lambda mu: (energy(mu), energy.primal(mu)))(mu)
    assert abs(float(dual) - expected) < 1e-12  # POT stops at 1e-15 in L1
    assert abs(float(primal) - expected) < POTENTIALS
    half = Parameters(c.p.Q, c.p.K, c.p.V, 2 * c.p.epsilon)
    S = table(squared_distance, half, c.x, c.x)
    f, g = plan_potentials(S, c.w)
    squares = np.sum((c.x @ c.p.Q.T) ** 2 + (c.x @ c.p.K.T) ** 2, axis=1)
    printed = -c.w @ (f + g) / 2 + c.w @ squares / (4 * c.p.epsilon)
    assert abs(float(dual) - printed) < 1e-12


@pytest.mark.parametrize("kind", PAIRS)
def test_the_first_variation_is_the_derivative_in_the_weights(
    kind: str, rng: np.random.Generator
) -> None:
    """$dE = \\int \\delta E\\,d\\nu$ for $\\nu$ of mass zero: ERRATA C15."""
    c = case(rng, n=6, d=2)
    energy, expected = made(kind, c.p), reference(kind, c.p)
    nu, h = rng.normal(size=6) * c.w, 1e-4
    nu -= nu.mean()
    ahead, behind = (expected(c.x, c.w + s * h * nu) for s in (1, -1))
    got = variation(energy, c.points(), Tokens(jnp.asarray(c.x))) @ nu
    assert abs(float(got) - (ahead - behind) / (2 * h)) < 1e-8  # h², and 1e-16/h


@pytest.mark.parametrize("kind", PAIRS)
def test_variations_elsewhere_are_integrals_against_the_measure(
    kind: str, rng: np.random.Generator
) -> None:
    c = case(rng, n=6, d=2)
    energy, score = made(kind, c.p), squared_distance if "l2" in kind else dot
    seen = table(score, c.p, c.probes, c.x)
    seeing = table(score, c.p, c.x, c.probes).T
    if kind == "sinkhorn":
        f, g = plan_potentials(table(dot, c.p, c.x, c.x), c.w)
        expected = np.log(np.exp(seen + g) @ c.w) + np.log(np.exp(seeing + f) @ c.w)
    else:
        expected = np.exp(seen) @ c.w + np.exp(seeing) @ c.w
    mu, _ = with_excluded(c)
    for measure in (c.points(), c.points(Blocked(4)), mu):
        got = variation(energy, measure, c.queries())
        constant = got[0] - expected[0] / 2 if kind == "sinkhorn" else 0.0
        np.testing.assert_allclose(got - constant, expected / 2, rtol=POTENTIALS)


@pytest.mark.parametrize("reduction", [None, Blocked(4)])
@pytest.mark.parametrize("kind", PAIRS)
def test_gradients_are_derivatives_in_the_places_of_atoms(
    kind: str, reduction: Blocked | None, rng: np.random.Generator
) -> None:
    c = case(rng, n=5, d=2)
    energy, expected = made(kind, c.p), reference(kind, c.p)
    mu = c.points() if reduction is None else c.points(reduction)
    h, differences = 1e-5, np.empty_like(c.x)
    for i, j in np.ndindex(*c.x.shape):
        step = np.zeros_like(c.x)
        step[i, j] = h
        change = expected(c.x + step, c.w) - expected(c.x - step, c.w)
        differences[i, j] = change / (2 * h) / c.w[i]
    got = gradient(energy, mu, Tokens(jnp.asarray(c.x)))
    np.testing.assert_allclose(got, differences, atol=3e-9)  # h², and 1e-16/h


def test_energies_are_differentiable_through_their_potentials(
    rng: np.random.Generator,
) -> None:
    c = case(rng, n=5, d=2)
    energy, mu = made("sinkhorn", c.p), c.points()
    through = eqx.filter_jit(jax.grad(lambda x: energy(mu.at(x))))(jnp.asarray(c.x))
    got = gradient(energy, mu, Tokens(jnp.asarray(c.x)))
    np.testing.assert_allclose(through / c.w[:, None], got, atol=POTENTIALS)


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
    assert abs(float(made(kind, p)(mu)) - on_nodes(kind, p, x, w)) < 1e-12


@pytest.mark.parametrize("kind", PAIRS)
def test_variations_on_gaussians_are_those_on_their_nodes(
    kind: str, rng: np.random.Generator
) -> None:
    mu = gaussian(rng, 2)
    p = small_scores(rng, 2, np.asarray(mu.factor), k=3)
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 20)
    cloud = Points.weighted(jnp.asarray(x), jnp.asarray(w))
    probes = Tokens(mu.mean[None, :] + jnp.asarray(rng.normal(size=(4, 2))) / 2)
    energy = made(kind, p)
    got, expected = (variation(energy, m, probes) for m in (mu, cloud))
    free = got[0] - expected[0] if kind == "sinkhorn" else 0.0
    np.testing.assert_allclose(got - free, expected, atol=1e-9)
    np.testing.assert_allclose(
        gradient(energy, mu, probes), gradient(energy, cloud, probes), atol=1e-9
    )


def test_biases_and_a_constant_have_their_part(rng: np.random.Generator) -> None:
    mu = gaussian(rng, 2)
    p = small_scores(rng, 2, np.asarray(mu.factor), k=3)
    q, k = rng.normal(size=(2, 3)) / 4
    energy = Interaction(Dot(p.Q, p.K, p.epsilon, query_bias=q, key_bias=k))
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 24)
    biased = Parameters(p.Q, p.K, p.V, p.epsilon, q, k)
    expected = on_nodes("interaction", biased, x, w)
    assert abs(float(energy(mu)) / expected - 1) < 1e-12


def test_the_interaction_is_infinite_where_its_integral_is() -> None:
    r"""Where not $\Sigma^{-1} \succ A\Sigma A^\top$; finite as printed (ERRATA C21)."""
    a = 0.6
    energy = Interaction(Dot([[a]], [[1.0]]))

    def at(s: float) -> float:
        return float(energy(Gaussian.from_moments([0.3], [[s]])))

    s = 0.9 / a
    integrand = lambda y, x: np.exp(
        a * x * y - ((x - 0.3) ** 2 + (y - 0.3) ** 2) / (2 * s)
    )
    integral = dblquad(integrand, -60, 60, -60, 60, epsabs=1e-10)[0]
    assert abs(at(s) / (integral / (2 * np.pi * s) / 2) - 1) < 1e-8
    assert at(1.2 / a) == np.inf
    assert at(1.0 / a) == np.inf


@pytest.mark.parametrize("s", [1e-6, 1.0, 1e6, 1e15])
def test_a_wide_gaussian_keeps_its_digits(s: float) -> None:
    r"""$x - y \sim N(0, 2s)$, so $E e^{-|x-y|^2/\epsilon} = (1+4s/\epsilon)^{-1/2}$."""
    energy = energies["interaction-l2"]([[1.0]], [[1.0]], [[-1.0]])
    wide = Gaussian.from_moments([0.0], [[s]])
    assert abs(float(energy(wide)) * 2 * np.sqrt(1 + 4 * s) - 1) < 1e-14
    x = np.array([0.0, 1.5]) * np.sqrt(s)
    seen = np.exp(-(x**2) / (1 + 2 * s)) / np.sqrt(1 + 2 * s)
    found = energy.first_variation(wide, Tokens(jnp.asarray(x)[:, None]))
    np.testing.assert_allclose(found, seen, rtol=1e-13)


def test_an_infinite_energy_has_no_slope() -> None:
    energy = Interaction(Dot([[0.6]], [[1.0]]))
    for s, known in ((1.0, True), (2.0, False)):
        by_mean, by_covariance = energy.slopes(Gaussian.from_moments([0.3], [[s]]))
        assert bool(jnp.all(jnp.isfinite(by_mean))) is known
        assert bool(jnp.all(jnp.isnan(by_covariance))) is not known


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("shape", ["generic", "isotropic", "singular"])
def test_slopes_on_gaussians_are_derivatives_in_the_moments(
    kind: str, shape: str, rng: np.random.Generator
) -> None:
    """One-sided, into the positive semidefinite matrices."""
    mu = gaussian(rng, 2, 1 if shape == "singular" else 2)
    Y = np.eye(2) / 2 if shape == "isotropic" else np.asarray(mu.factor)
    alpha = np.asarray(mu.mean) / 2
    p = small_scores(rng, 2, np.asarray(Y), k=3)
    by_mean, by_covariance = slopes(
        made(kind, p), Gaussian(jnp.asarray(alpha), jnp.asarray(Y))
    )
    h = 1e-3
    Z, direction = rng.normal(size=(2, 2)) / 4, rng.normal(size=2)

    def along(t: float) -> float:
        moved = square_root(Y @ Y.T + t * Z @ Z.T)
        return on_nodes(kind, p, *nodes(alpha + t * direction, moved, 16))

    # The third-order one-sided difference of a function of t ≥ 0.
    difference = -11 * along(0.0) + 18 * along(h) - 9 * along(2 * h) + 2 * along(3 * h)
    expected = np.sum(by_covariance * (Z @ Z.T)) + by_mean @ direction
    assert abs(float(expected) - difference / (6 * h)) < 1e-8  # h³, and 1e-15/h
    assert bool(jnp.all(by_covariance == by_covariance.T))


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


def ot_plan(w: np.ndarray, cost: np.ndarray, epsilon: float) -> np.ndarray:
    f, g = plan_potentials(-cost / epsilon, w)
    return np.outer(w, w) * np.exp(f[:, None] + g[None, :] - cost / epsilon)


def test_the_entropy_is_minus_scipys(rng: np.random.Generator) -> None:
    mu = gaussian(rng, 3)
    alpha, Sigma = np.asarray(mu.mean), np.asarray(mu.covariance)
    law = multivariate_normal(alpha, Sigma)  # pyright: ignore[reportArgumentType]
    assert_close(Entropy()(mu), -law.entropy(), scale=1.0)
    probes = rng.normal(size=(4, 3))
    got = Entropy().first_variation(mu, Tokens(jnp.asarray(probes)))
    assert_close(got, law.logpdf(probes), ulps=1000)
    by_mean, by_covariance = Entropy().slopes(mu)
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
    mu, _ = with_excluded(c)
    assert_close(quadratic(mu), c.w @ values, scale=1.0)
    assert_close(singular(mu), c.w @ (1 / np.sum(c.x**2, axis=1)))
    slope = jax.grad(lambda x: singular(mu.at(x)))(mu.tokens.x)
    expected = -2 * c.x / np.sum(c.x**2, axis=1)[:, None] ** 2
    assert_close(slope[:-1] / c.w[:, None], expected)
    assert_close(singular.gradient(mu, Tokens(jnp.asarray(c.x))), expected)


def test_a_quadratic_potential_sees_two_moments(rng: np.random.Generator) -> None:
    mu, H = gaussian(rng, 2, 1), np.array([[2.0, 0.5], [0.5, -1.0]])
    energy = QuadraticPotential(H, [1.0, -1.0])
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 4)
    z = x - np.array([1.0, -1.0])
    assert_close(energy(mu), w @ np.sum((z @ H) * z, axis=1) / 2, scale=1.0)
    assert_close(energy.slopes(mu)[1], H / 2)


def test_energies_add_up(rng: np.random.Generator) -> None:
    c = case(rng, n=4, d=2)
    one, two = made("interaction", c.p), made("second-moment", c.p)
    mu, probes = c.points(), c.queries()
    both = 2.0 * one - two * 0.5 + (-one)
    assert_close(value(both, mu), value(one, mu) - 0.5 * value(two, mu))
    assert_close(
        gradient(both, mu, probes),
        gradient(one, mu, probes) - 0.5 * gradient(two, mu, probes),
    )
    small = gaussian(rng, 2)
    small = Gaussian(small.mean, 0.2 * small.factor)
    assert_close(value(both, small), value(one, small) - 0.5 * value(two, small))


def test_what_has_no_meaning_is_refused(rng: np.random.Generator) -> None:
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
    seen = np.tril(np.exp(table(dot, c.p, c.x, c.x)))
    assert_close(energy(c.points()), c.w @ seen @ c.w / 2)
