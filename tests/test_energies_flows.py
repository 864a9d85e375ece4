"""Gradient flows of energies: their fields, dissipation, implicit steps."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest
from energy_reference import interaction
from helpers import assert_close, case, gaussian, small_scores
from jaxtyping import Array
from reference import Parameters, squared_distance, velocity

from meanfield.attention import attentions
from meanfield.dynamics import AbstractDynamics
from meanfield.energies import (
    AbstractEnergy,
    Entropy,
    GradientFlow,
    Interaction,
    Potential,
    QuadraticPotential,
    SinkhornEnergy,
    TwistedMetric,
    bures_squared,
    dissipation,
    energies,
    jko_step,
    steepest_rate,
)
from meanfield.errors import (
    InvalidInputError,
    NotClosedError,
    SimulationError,
    UnsupportedError,
)
from meanfield.fields import Affine
from meanfield.flows import flow
from meanfield.measures import Gaussian, Grid, Points
from meanfield.scores import Dot
from meanfield.theorems.reference.measures import hermite_nodes as nodes
from meanfield.tokens import Tokens

POTENTIALS = 1e-9  # log marginals to eps^(2/3) = 4e-11, as sup norms of this size


@eqx.filter_jit
def velocities(dynamics: AbstractDynamics, mu: Points, at: Tokens) -> Array:
    return dynamics.field(0.0, mu)(at)


def affine(dynamics: AbstractDynamics, mu: Gaussian) -> Affine:
    field = dynamics.field(0.0, mu)
    assert isinstance(field, Affine)
    return field


def symmetric(rng: np.random.Generator, d: int) -> np.ndarray:
    B = rng.normal(size=(d, d)) / np.sqrt(d)
    return (B + B.T) / 2


def test_sinkhorn_attention_is_a_wasserstein_flow(rng: np.random.Generator) -> None:
    """Where $A = A^T = -V$, with $V$ over epsilon: castin2025, eq. (5.11)."""
    c = case(rng, n=6, d=2)
    A = symmetric(rng, 2)
    p = Parameters(A, np.eye(2), -A, 0.8)
    dynamics = GradientFlow(SinkhornEnergy(A, np.eye(2), 0.8))
    actual = velocities(dynamics, c.points(), c.queries())
    expected = velocity("sinkhorn", p, c.probes, c.x, c.w)
    np.testing.assert_allclose(actual, expected, atol=POTENTIALS)


@pytest.mark.parametrize("r", [1, 2])
def test_sinkhorn_attention_is_a_wasserstein_flow_on_gaussians(
    r: int, rng: np.random.Generator
) -> None:
    mu, A = gaussian(rng, 2, r), symmetric(rng, 2)
    actual = affine(GradientFlow(SinkhornEnergy(A, np.eye(2), 0.8)), mu)
    expected = affine(attentions["sinkhorn"](A, np.eye(2), -A, epsilon=0.8), mu)
    assert_close(actual.linear, expected.linear)
    assert_close(actual.offset, expected.offset, scale=1.0)


@pytest.mark.slow_cases("interaction-l2-1", "sinkhorn-1")
@pytest.mark.parametrize("r", [1, 2])
@pytest.mark.parametrize("kind", ["interaction", "interaction-l2", "sinkhorn"])
def test_the_gaussian_field_is_the_projection_of_the_field_of_nodes(
    kind: str, r: int, rng: np.random.Generator
) -> None:
    r"""In $L^2(\mu)$ on affine gradients: ERRATA C17 and C18, which halve or turn it.

    $E[v] = L\alpha + b$, and $E[v(x-\alpha)^\top]$ symmetrised is that of $L\Sigma$.
    """
    mu = gaussian(rng, 2, r)
    p = small_scores(rng, 2, np.asarray(mu.factor), k=3)
    dynamics = GradientFlow(energies[kind](p.Q, p.K, p.V, epsilon=p.epsilon))
    field = affine(dynamics, mu)
    x, w = nodes(np.asarray(mu.mean), np.asarray(mu.factor), 16)
    cloud = Points.weighted(jnp.asarray(x), jnp.asarray(w))
    v = np.asarray(velocities(dynamics, cloud, Tokens(jnp.asarray(x))))
    mean = np.asarray(field.linear @ mu.mean + field.offset)
    np.testing.assert_allclose(w @ v, mean, atol=POTENTIALS)
    cross = (v * w[:, None]).T @ (x - np.asarray(mu.mean))
    rate = field.covariance_rate(mu.covariance)
    np.testing.assert_allclose(cross + cross.T, rate, atol=POTENTIALS)


def test_softmax_attention_is_a_twisted_flow(rng: np.random.Generator) -> None:
    """$V = -BA$ for symmetric $A$, and for no other: castin2025, (5.14); ERRATA C20."""
    c = case(rng, n=6, d=2)
    B = np.array([[1.0, 0.2], [0.2, 0.7]])

    def gap(A: np.ndarray) -> float:
        score = Dot(A, np.eye(2), 0.8)
        dynamics = GradientFlow(Interaction(score), TwistedMetric(score, B))
        actual = velocities(dynamics, c.points(), c.queries())
        p = Parameters(A, np.eye(2), -B @ A.T / 0.8, 0.8)
        expected = velocity("softmax", p, c.probes, c.x, c.w)
        return float(np.max(np.abs(actual - expected)))

    A = symmetric(rng, 2)
    assert gap(A) < 1e-13
    assert gap(A + np.array([[0.0, 0.5], [-0.5, 0.0]])) > 1e-2


def test_the_entropy_flows_by_the_heat_equation(rng: np.random.Generator) -> None:
    mu = gaussian(rng, 2)
    end = flow(GradientFlow(Entropy()), mu, [0.0, 1.5]).final
    expected = np.asarray(mu.covariance) + 3.0 * np.eye(2)
    np.testing.assert_allclose(end.covariance, expected, rtol=1e-6)
    assert_close(end.mean, mu.mean)


FLOWS: dict[str, Callable[[np.random.Generator], tuple]] = {
    "points": lambda rng: (case(rng, n=6, d=2).points(), "sinkhorn"),
    "gaussian": lambda rng: (gaussian(rng, 2, 2), "sinkhorn"),
    "singular": lambda rng: (gaussian(rng, 2, 1), "interaction-l2"),
}


@pytest.mark.slow_cases("points")
@pytest.mark.parametrize("kind", list(FLOWS))
def test_the_dissipation_is_the_derivative_along_any_run(
    kind: str, rng: np.random.Generator
) -> None:
    """Along its own flow, minus the mean squared velocity; along softmax."""
    mu, name = FLOWS[kind](rng)
    p = small_scores(rng, 2, np.eye(2))
    energy = energies[name](p.Q, p.K, p.V, epsilon=p.epsilon)
    gradient_flow = GradientFlow(energy)
    for dynamics in (attentions["softmax"](p.Q, p.K, p.V), gradient_flow):
        rate, change = rates(energy, dynamics, mu)
        assert abs(float(rate - change)) < 1e-7 * (1 + abs(float(rate)))  # h²
    if isinstance(mu, Points):
        v = velocities(gradient_flow, mu, mu.tokens)
        expected = -mu.weights @ jnp.sum(v**2, axis=1)
        np.testing.assert_allclose(
            rates(energy, gradient_flow, mu)[0], expected, rtol=1e-8
        )


@pytest.mark.parametrize("mass", [1.0, 2.5])
def test_the_steepest_rate_of_points_is_the_square_of_differences_of_sums(
    mass: float, rng: np.random.Generator
) -> None:
    r"""$-\sum_i w_i|g_i|^2$ with $w_i g_i = \partial E/\partial x_i$, in NumPy."""
    c, h = case(rng, n=5, d=2), 1e-5
    p = Parameters(symmetric(rng, 2), np.eye(2), np.eye(2), 0.8)
    value = interaction(squared_distance, p)
    w = mass * np.asarray(c.w)
    expected = 0.0
    for i in range(5):
        for k in range(2):
            step = np.zeros_like(c.x)
            step[i, k] = h
            slope = (value(c.x + step, w) - value(c.x - step, w)) / (2 * h)
            expected -= slope**2 / w[i] if w[i] else 0.0
    energy = energies["interaction-l2"](p.Q, p.K, p.V, epsilon=p.epsilon)
    mu = Points(Tokens(jnp.asarray(c.x)), c.points().log_weights + np.log(mass))
    assert abs(float(steepest_rate(energy, mu)) / expected - 1) < 1e-8  # h²


@pytest.mark.parametrize("r", [1, 2])
def test_the_steepest_rate_matches_gaussians_in_their_gradient_flow(
    r: int, rng: np.random.Generator
) -> None:
    """A difference of energies by Gauss--Hermite nodes, over a short time."""
    mu, h = gaussian(rng, 2, r), 1e-3
    p = small_scores(rng, 2, np.asarray(mu.factor), k=3)
    energy = energies["interaction-l2"](p.Q, p.K, p.V, epsilon=p.epsilon)
    value = interaction(squared_distance, p)

    rates = mu.transport(GradientFlow(energy).field(0.0, mu))

    def value_after(sign: float) -> float:
        mean, factor = (
            np.asarray(part + sign * h * rate)
            for part, rate in zip(mu.coordinates, rates, strict=True)
        )
        return value(*nodes(mean, factor, 12))

    change = (value_after(1.0) - value_after(-1.0)) / (2 * h)
    assert abs(float(steepest_rate(energy, mu)) / change - 1) < 1e-5  # h²


def test_the_entropy_of_a_density_is_lost_by_its_information() -> None:
    r"""$\int|\nabla\log\rho|^2d\mu = 1/\sigma^2$ of a normal law."""
    s, axis = 0.8, np.linspace(-8.0, 8.0, 161)
    density = lambda x: np.exp(-((x[:, 0] / s) ** 2) / 2) / (s * np.sqrt(2 * np.pi))
    mu = Grid.from_function([axis], density)
    # Averages over cells add h²/12σ² to it, and those of two cells h²/4σ².
    mean_factor = 1 + (axis[1] - axis[0]) ** 2 / (3 * s**2)
    np.testing.assert_allclose(
        steepest_rate(Entropy(), mu), -mean_factor / s**2, rtol=1e-4
    )


@eqx.filter_jit
def rates(
    energy: AbstractEnergy, dynamics: AbstractDynamics, mu: Points | Gaussian
) -> tuple[Array, Array]:
    """`dissipation`, and a difference quotient along the motion."""
    field, h = dynamics.field(0.0, mu), 1e-4
    tangent = mu.transport(field)
    step = lambda s: jax.tree.map(lambda y, v: y + s * v, mu.coordinates, tangent)
    change = energy(mu.replace_coordinates(step(h))) - energy(
        mu.replace_coordinates(step(-h))
    )
    return dissipation(energy, mu, field), change / (2 * h)


def test_the_distance_of_covariances_matches_pot(rng: np.random.Generator) -> None:
    S, T = (np.asarray(gaussian(rng, 3).covariance) for _ in range(2))
    zero = np.zeros(3)
    distance = np.asarray(ot.gaussian.bures_wasserstein_distance(zero, zero, S, T))
    assert abs(float(bures_squared(S, T)) / float(distance) ** 2 - 1) < 1e-10
    u = rng.normal(size=3)  # of rank one: a sum that needs no root of a matrix
    expected = np.trace(S) + u @ u - 2 * np.sqrt(u @ S @ u)
    assert abs(float(bures_squared(S, np.outer(u, u))) / expected - 1) < 1e-7


def test_close_covariances_keep_their_digits(rng: np.random.Generator) -> None:
    """The metric, whose inverse is $X \\mapsto 2(XS + SX)$: ERRATA C18."""
    S, H = np.asarray(gaussian(rng, 3).covariance), symmetric(rng, 3)
    identity = np.eye(3)
    inverse = 2 * (np.kron(identity, S) + np.kron(S, identity))
    expected = H.ravel() @ np.linalg.solve(inverse, H.ravel())
    h = 1e-5
    actual = float(bures_squared(S, S + h * H)) / h**2
    assert (
        abs(actual / expected - 1) < 1e-3
    )  # of first order in h over the smallest root


def test_implicit_steps_have_their_closed_forms() -> None:
    r"""Contraction for $\tfrac12|x|^2$; deviations $r = s + \tau/r$ for the entropy."""
    mu = Gaussian(jnp.array([1.0, -2.0]), jnp.array([[1.0, 0.0], [0.5, 0.3]]))
    tau = 0.3
    step = jko_step(QuadraticPotential(jnp.eye(2)), mu, tau)
    np.testing.assert_allclose(step.mean, mu.mean / (1 + tau), rtol=1e-9)
    expected = mu.covariance / (1 + tau) ** 2
    np.testing.assert_allclose(step.covariance, expected, rtol=1e-9)
    deviations = np.array([1.0, 0.2])
    wide = Gaussian(jnp.zeros(2), jnp.diag(jnp.asarray(deviations)))
    roots = (deviations + np.sqrt(deviations**2 + 4 * tau)) / 2
    step = jko_step(Entropy(), wide, tau)
    np.testing.assert_allclose(step.covariance, np.diag(roots**2), atol=1e-9)


def test_implicit_steps_are_of_first_order(rng: np.random.Generator) -> None:
    """To the Ornstein--Uhlenbeck flow, whose moments are exponentials."""
    mu = Gaussian(jnp.array([1.0, -2.0]), jnp.array([[1.0, 0.0], [0.5, 0.6]]))
    energy = Entropy() + QuadraticPotential(jnp.eye(2))
    decay = np.exp(-1.0)
    exact = decay * np.asarray(mu.covariance) + (1 - decay) * np.eye(2)
    gaps = []
    for steps in (4, 8, 16):
        nu = mu
        for _ in range(steps):
            nu = jko_step(energy, nu, 0.5 / steps)
        gaps.append(np.max(np.abs(np.asarray(nu.covariance) - exact)))
    orders = np.log2(np.array(gaps[:-1]) / np.array(gaps[1:]))
    np.testing.assert_allclose(orders, 1.0, atol=0.15)


def test_energies_without_flow_are_rejected(rng: np.random.Generator) -> None:
    mu, score = gaussian(rng, 2), Dot(np.eye(2), np.eye(2))
    with pytest.raises(NotClosedError, match="softmax attention with V = -B A"):
        GradientFlow(Interaction(score), TwistedMetric(score, np.eye(2))).field(0.0, mu)
    with pytest.raises(InvalidInputError, match="square"):
        TwistedMetric(score, np.ones((2, 3)))
    quartic = GradientFlow(Potential(lambda x: jnp.sum(x**4)))
    field = quartic.field(0.0, case(rng, n=3, d=2).points())
    with pytest.raises(UnsupportedError, match="affine"):
        dissipation(QuadraticPotential(jnp.eye(2)), mu, field)
    with pytest.raises(InvalidInputError, match="`tau`"):
        jko_step(Entropy(), mu, 0.0)
    with pytest.raises(SimulationError, match="smaller `tau`"):
        jko_step(-QuadraticPotential(jnp.eye(2)), mu, 2.0)
    with pytest.raises(InvalidInputError, match="the same shape"):
        bures_squared(np.eye(2), np.eye(3))
