"""Sinkhorn divergences against POT's plans, alternation, and quadrature."""

from decimal import Decimal, localcontext

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest
from jaxtyping import Array
from reference import plan_potentials

from meanfield.energies import GradientFlow, SinkhornDivergence
from meanfield.energies._entropic import require_converged
from meanfield.errors import SimulationError
from meanfield.flows import flow
from meanfield.measures import Gaussian, Points
from meanfield.theorems.reference.measures import hermite_nodes as nodes
from meanfield.tokens import Tokens

EPSILON = 0.8


def squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1) / 2


def transport(x: np.ndarray, u: np.ndarray, y: np.ndarray, v: np.ndarray) -> float:
    """The dual value by alternation."""
    f, g = plan_potentials(-squares(x, y) / EPSILON, v, u)
    return float(EPSILON * (u @ f + v @ g))


def divergence(x: np.ndarray, u: np.ndarray, y: np.ndarray, v: np.ndarray) -> float:
    self_terms = transport(x, u, x, u) + transport(y, v, y, v)
    return transport(x, u, y, v) - self_terms / 2


def plan_of_pot(
    x: np.ndarray, u: np.ndarray, y: np.ndarray, v: np.ndarray
) -> np.ndarray:
    plan = ot.sinkhorn(
        *(u, v, squares(x, y), EPSILON),
        method="sinkhorn_log",
        stopThr=1e-14,
        numItermax=100_000,
        warn=False,
    )
    return np.asarray(plan)


@pytest.fixture
def clouds(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    x, y = rng.normal(size=(7, 2)), 0.6 * rng.normal(size=(5, 2)) + [2.0, -1.0]
    u = rng.uniform(0.5, 1.5, 7)
    return x, u / u.sum(), y, np.full(5, 1 / 5)


def test_the_value_matches_pots_plans(clouds: tuple[np.ndarray, ...]) -> None:
    x, u, y, v = clouds

    def cost(*pair: np.ndarray) -> float:
        plan = plan_of_pot(*pair)
        relative = plan / np.outer(pair[1], pair[3])
        return float(
            np.sum(plan * squares(pair[0], pair[2]))
            + EPSILON * np.sum(plan * np.log(relative))
        )

    expected = cost(x, u, y, v) - cost(x, u, x, u) / 2 - cost(y, v, y, v) / 2
    energy = SinkhornDivergence(Points.uniform(y), EPSILON)
    actual = eqx.filter_jit(energy)(Points.weighted(x, u))
    np.testing.assert_allclose(actual, expected, rtol=1e-8)


def test_the_gradient_is_the_difference_of_pots_barycentres(
    clouds: tuple[np.ndarray, ...],
) -> None:
    x, u, y, v = clouds
    energy = SinkhornDivergence(Points.uniform(y), EPSILON)
    mu = Points.weighted(x, u)
    self_plan, across = plan_of_pot(x, u, x, u), plan_of_pot(x, u, y, v)
    expected = (self_plan @ x - across @ y) / u[:, None]
    np.testing.assert_allclose(energy.gradient(mu, mu.tokens), expected, atol=1e-8)


def test_far_from_the_origin_no_digits_are_lost(clouds: tuple[np.ndarray, ...]) -> None:
    x, u, y, _ = clouds
    far = np.array([1e5, -1e5])
    near = SinkhornDivergence(Points.uniform(y), EPSILON)(Points.weighted(x, u))
    energy = SinkhornDivergence(Points.uniform(y + far), EPSILON)
    np.testing.assert_allclose(energy(Points.weighted(x + far, u)), near, rtol=1e-8)


def test_values_change_by_the_first_variation(clouds: tuple[np.ndarray, ...]) -> None:
    """In the weights: mass moves between two tokens."""
    x, u, y, v = clouds
    energy = SinkhornDivergence(Points.uniform(y), EPSILON)
    h, nu = 1e-4, np.array([1.0, -1.0, 0, 0, 0, 0, 0])
    ends = [divergence(x, u + sign * h * nu, y, v) for sign in (1, -1)]
    delta = energy.first_variation(Points.weighted(x, u), Tokens(jnp.asarray(x)))
    np.testing.assert_allclose(
        nu @ np.asarray(delta), (ends[0] - ends[1]) / (2 * h), rtol=1e-6
    )


def test_divergence_of_gaussians_matches_the_closed_form() -> None:
    """Gauss–Hermite nodes agree to 3e-12 at order 40, and to rounding at 60."""
    alpha, X = np.array([0.3]), np.array([[0.8]])
    beta, Y = np.array([-0.5]), np.array([[1.3]])
    (x, u), (y, v) = nodes(alpha, X, 60), nodes(beta, Y, 60)
    energy = SinkhornDivergence(Gaussian(jnp.asarray(beta), jnp.asarray(Y)), EPSILON)
    mu = Gaussian(jnp.asarray(alpha), jnp.asarray(X))
    np.testing.assert_allclose(energy(mu), divergence(x, u, y, v), rtol=1e-12)


def test_divergence_gradients_of_plane_gaussians_match_differences() -> None:
    X = np.array([[0.9, 0.0], [0.3, 0.5]])
    Y = np.array([[0.5, 0.2], [0.0, 1.1]])
    target = Gaussian(jnp.array([0.4, -0.2]), jnp.asarray(Y))
    energy, alpha = SinkhornDivergence(target, EPSILON), np.array([-0.3, 0.5])
    mu = Gaussian(jnp.asarray(alpha), jnp.asarray(X))
    (x, u), (y, v) = nodes(alpha, X, 16), nodes(np.array([0.4, -0.2]), Y, 16)
    np.testing.assert_allclose(energy(mu), divergence(x, u, y, v), rtol=1e-5)
    f, _ = plan_potentials(-squares(x, y) / EPSILON, v, u)
    # The Bures gradient is ∇δE, which is affine: the difference of two barycentres.
    weights = np.exp(
        f[:, None] - squares(x, y) / EPSILON + column_potential(x, u, y, v)[None]
    )
    across = (weights * v[None]) @ y
    own_f, own_g = plan_potentials(-squares(x, x) / EPSILON, u)
    self_barycentres = (
        np.exp(own_f[:, None] - squares(x, x) / EPSILON + own_g[None]) * u
    ) @ x
    at = Tokens(jnp.asarray(x))
    velocity = eqx.filter_jit(lambda mu: GradientFlow(energy).field(0.0, mu)(at))(mu)
    gap = np.asarray(velocity) - (across - self_barycentres)
    assert np.sqrt(u @ np.sum(gap**2, axis=1)) < 1e-4
    slope = eqx.filter_jit(energy.gradient)(mu, at)
    np.testing.assert_allclose(-slope, velocity, atol=1e-10)


def column_potential(
    x: np.ndarray, u: np.ndarray, y: np.ndarray, v: np.ndarray
) -> np.ndarray:
    return plan_potentials(-squares(x, y) / EPSILON, v, u)[1]


@pytest.mark.slow
def test_tokens_arrive_at_their_target(rng: np.random.Generator) -> None:
    """Entropic transport alone would shrink them towards its mean."""
    y = rng.normal(size=(8, 1))
    energy = SinkhornDivergence(Points.uniform(y), 0.05)
    start = Points.uniform(rng.normal(size=(8, 1)) + 3)
    end = flow(GradientFlow(energy), start, [0.0, 12.0]).final
    gap = np.sort(np.ravel(end.tokens.x)) - np.sort(np.ravel(y))
    assert np.max(np.abs(gap)) < 0.1
    assert float(energy(end)) < 1e-3


def transport_in_decimals(x: np.ndarray, y: np.ndarray) -> Decimal:
    """Alternation at epsilon one, with sixty digits."""
    places = [[[Decimal(float(c)) for c in row] for row in z] for z in (x, y)]
    square = lambda p, q: sum(
        ((a - b) ** 2 for a, b in zip(p, q, strict=True)), Decimal(0)
    )
    kernel = [[(-square(p, q) / 2).exp() for q in places[1]] for p in places[0]]
    n, m, zero = len(x), len(y), Decimal(0)
    a, b = [Decimal(1)] * n, [Decimal(1)] * m
    for _ in range(30):
        a = [m / sum((row[j] * b[j] for j in range(m)), zero) for row in kernel]
        b = [n / sum((kernel[i][j] * a[i] for i in range(n)), zero) for j in range(m)]
    return sum((p.ln() for p in a), zero) / n + sum((q.ln() for q in b), zero) / m


@eqx.filter_jit  # one program for all sizes and bandwidths
def compiled_divergence(nu: Points, mu: Points, epsilon: Array) -> Array:
    return SinkhornDivergence(nu, epsilon)(mu)


@pytest.mark.slow_cases("1e-08-0.0")
@pytest.mark.parametrize("distance", [0.0, 1.0])
@pytest.mark.parametrize("size", [1e-8, 1e-4, 1e-2])
def test_collapsed_clouds_have_a_positive_divergence(
    rng: np.random.Generator, size: float, distance: float
) -> None:
    """Far below the bandwidth, where potentials are logarithms of nearly one."""
    x, y = rng.normal(size=(7, 2)), rng.normal(size=(5, 2))
    x, y = size * (x - x.mean(axis=0)), size * (y - y.mean(axis=0) + distance)
    with localcontext() as context:
        context.prec = 60
        self_terms = transport_in_decimals(x, x) + transport_in_decimals(y, y)
        expected = float(transport_in_decimals(x, y) - self_terms / 2)
    actual = compiled_divergence(
        Points.uniform(y), Points.uniform(x), jnp.asarray(np.ones(()))
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-7)


@pytest.mark.parametrize("epsilon", [1e-2, 1e-4, 1e-6])
def test_divergence_at_small_bandwidths_is_plain_transport_or_nan(
    epsilon: float,
) -> None:
    """Half of W₂² by POT, within a bandwidth; NaN where plans did not converge."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 2)), rng.normal(size=(5, 2))
    masses = np.full(7, 1 / 7), np.full(5, 1 / 5)
    expected = float(np.asarray(ot.emd2(*masses, squares(x, y))))
    mu, nu = Points.uniform(x), Points.uniform(y)
    actual = float(compiled_divergence(nu, mu, jnp.asarray(np.asarray(epsilon))))
    assert np.isnan(actual) or abs(actual - expected) < epsilon


def test_unconverged_divergence_raises_outside_jit() -> None:
    value, residual = jnp.ones(()), jnp.asarray(0.3)
    with pytest.raises(SimulationError, match="`epsilon`"):
        require_converged(value, residual, 1000)
    assert jnp.isnan(jax.jit(lambda r: require_converged(value, r, 1000))(residual))
    assert require_converged(value, 1e-12 * residual, 1000) == 1


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1.0])
def test_collapsed_gaussians_have_a_positive_divergence(size: float) -> None:
    """On a line, from the printed form with sixty digits."""

    def gain(sigma: Decimal, tau: Decimal) -> Decimal:
        h = (1 + (1 + 4 * (sigma * tau) ** 2).sqrt()) / 2
        return h - 1 - h.ln() / 2

    with localcontext() as context:
        context.prec = 60
        a, b = Decimal(size), Decimal(size) * Decimal("1.5")
        expected = float((gain(a, a) + gain(b, b)) / 2 - gain(a, b))
    mu, nu = (Gaussian(jnp.zeros(1), s * jnp.eye(1)) for s in (size, 1.5 * size))
    np.testing.assert_allclose(SinkhornDivergence(nu)(mu), expected, rtol=1e-12)
