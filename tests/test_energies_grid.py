"""Energies of densities on grids, their variations, and their flows."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from energy_reference import energy_of_nodes
from helpers import assert_close
from jaxtyping import Array
from reference import Parameters
from scipy.integrate import quad

from meanfield import runs
from meanfield.attention import attentions
from meanfield.energies import (
    AbstractEnergy,
    Entropy,
    GradientFlow,
    Interaction,
    QuadraticPotential,
    SinkhornEnergy,
    TwistedMetric,
    dissipation,
    energies,
)
from meanfield.errors import InvalidInputError
from meanfield.fields import Affine
from meanfield.flows import Trajectory, flow
from meanfield.measures import FixedBox, Grid, edges
from meanfield.scores import Dot
from meanfield.spec import parse
from meanfield.tokens import Tokens

PARTS = ((0.4, -1.0, 0.5), (0.6, 0.8, 0.35))  # weight, mean, deviation on the line
A1 = np.array([[-0.7]])


def bimodal(x: np.ndarray) -> np.ndarray:
    """Two Gaussians along the first axis, one along any other."""
    first = sum(
        w * np.exp(-(((x[:, 0] - m) / s) ** 2) / 2) / (s * np.sqrt(2 * np.pi))
        for w, m, s in PARTS
    )
    rest = np.exp(-np.sum(x[:, 1:] ** 2, axis=1) / 2)
    return np.asarray(first) * rest / (2 * np.pi) ** ((x.shape[1] - 1) / 2)


def grid_on_line(cells: int, ratio: float = 1.0, half: float = 5.0) -> Grid:
    return Grid.from_function(
        [edges.graded_edges(-half, half, cells, ratio=ratio)], bimodal, box=FixedBox()
    )


def grid_in_plane(cells: int) -> Grid:
    axes = [edges.even_edges(-4.5, 4.5, cells), edges.even_edges(-6.0, 6.0, cells)]
    return Grid.from_function(axes, bimodal)


def quadrature(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes of this density: 60 on each axis are exact to 1e-12."""
    u, w = np.polynomial.legendre.leggauss(60)
    z = np.stack(np.meshgrid(*[6 * u] * d, indexing="ij"), -1).reshape(-1, d)
    weights = 6 * w
    for _ in range(d - 1):
        weights = np.outer(weights, 6 * w).ravel()
    return z, weights * bimodal(z)


@eqx.filter_jit
def value(energy: AbstractEnergy, mu: Grid) -> Array:
    return energy(mu)


def orders(errors: list[float]) -> np.ndarray:
    """The observed orders between successive doublings of the cells."""
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


@pytest.mark.parametrize("ratio", [1.0, 4.0])
def test_the_entropy_of_a_density_is_of_second_order_or_better(ratio: float) -> None:
    def integrand(x: float) -> float:
        rho = float(bimodal(np.array([[x]]))[0])
        return rho * np.log(rho)

    exact = quad(integrand, -5, 5, epsabs=1e-13, epsrel=1e-13, limit=200)[0]
    errors = [
        abs(float(value(Entropy(), grid_on_line(n, ratio))) - exact)
        for n in (50, 100, 200)
    ]
    assert np.all(orders(errors) >= 2)
    assert errors[-1] < 1e-6


def test_the_entropy_of_layers_is_the_mean_of_that_of_their_laws() -> None:
    line_grid = grid_on_line(60)
    shares = np.array([0.2, 0.5, 0.3])
    layers = Grid.from_density(
        [line_grid.edges[0]],
        shares[:, None] * np.asarray(line_grid.density)[None],
        position=[0.1, 0.5, 0.9],
    )
    assert_close(Entropy()(layers), Entropy()(line_grid))


@pytest.mark.slow_cases("sinkhorn-2")
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("name", ["interaction", "interaction-l2", "sinkhorn"])
def test_energies_of_pairs_match_the_density(name: str, d: int) -> None:
    A = np.array([[-0.7, 0.2], [0.1, -0.4]])[:d, :d]
    p = Parameters(A, np.eye(d), np.eye(d), 1.3)
    x, w = quadrature(d) if d == 1 else _coarse()
    expected = energy_of_nodes(name, p, x, w)
    energy = energies[name](p.Q, p.K, p.V, epsilon=p.epsilon)
    actual = value(energy, grid_on_line(160) if d == 1 else grid_in_plane(48))
    # h⁴ of a mode of deviation 0.35, in cells of 0.06 and of 0.19.
    np.testing.assert_allclose(actual, expected, rtol=1e-6 if d == 1 else 3e-4)


def _coarse() -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite nodes for each of the two Gaussians: exact to 1e-9 with 16 × 12."""
    z, w = np.polynomial.hermite_e.hermegauss(16)
    v, c = np.polynomial.hermite_e.hermegauss(12)
    first = np.concatenate([m + s * z for _, m, s in PARTS])
    weights = np.concatenate([share * w / w.sum() for share, _, _ in PARTS])
    x = np.stack(np.meshgrid(first, v, indexing="ij"), -1).reshape(-1, 2)
    return x, np.outer(weights, c / c.sum()).ravel()


@pytest.mark.slow_cases("2")
@pytest.mark.parametrize("d", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_variation_of_the_entropy_is_the_log_density(d: int) -> None:
    mu = grid_on_line(200) if d == 1 else grid_in_plane(100)
    x = np.random.default_rng(3).uniform(-1.5, 1.5, (40, d))
    rho = lambda x: np.log(bimodal(x))
    step = 1e-5
    slope = np.stack(
        [(rho(x + e) - rho(x - e)) / (2 * step) for e in step * np.eye(d)], axis=1
    )
    tokens = Tokens(jnp.asarray(x))
    actual = Entropy().variation(mu)
    # Cubics: h⁴ and h³ of a mode of deviation 0.35, in cells of 0.05 and 0.09.
    np.testing.assert_allclose(actual(tokens), rho(x), atol=3e-3)
    np.testing.assert_allclose(actual.gradient(tokens), slope, atol=6e-2)
    outside = Tokens(jnp.full((1, d), 7.0))
    assert np.all(np.isnan(actual(outside)))
    assert np.all(np.isnan(actual.gradient(outside)))


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("name", ["interaction", "interaction-l2", "sinkhorn"])
def test_energies_change_by_their_first_variation(name: str) -> None:
    mu = grid_on_line(80)
    energy = energies[name](A1, np.eye(1), np.eye(1), epsilon=1.0)
    masses = mu.state.masses
    nu = masses * jnp.sin(mu.points().tokens.x[:, 0])[None]
    nu = nu - masses * jnp.sum(nu)
    energy_at = lambda h: energy(
        mu.replace_coordinates(mu.state._replace(masses=masses + h * nu))
    )
    slope = eqx.filter_jit(lambda: (energy_at(1e-4) - energy_at(-1e-4)) / 2e-4)()
    variation = energy.first_variation(mu, mu.points().tokens)
    # Differences to 1e-8; weights at middles and masses differ by h² ∫ (δE)'' dν / 24.
    np.testing.assert_allclose(slope, nu.reshape(-1) @ variation, rtol=2e-3)
    assert abs(float(slope)) > 1e-3


DESCENTS: dict[str, tuple[str, Callable[[], AbstractEnergy]]] = {
    "softmax": ("softmax", lambda: Interaction(Dot(A1, np.eye(1)))),
    "sinkhorn": ("sinkhorn", lambda: SinkhornEnergy(A1, np.eye(1))),
}
TIMES = jnp.linspace(0, 0.4, 9)


@eqx.filter_jit
def recorded_energies(
    energy: AbstractEnergy, path: Trajectory, attention: eqx.Module, name: str
) -> tuple[Array, Array]:
    """Energies of the frames, and −∫∇δE·D∇δE dμ with the weights of the metric."""

    def frame(state: tuple) -> tuple[Array, Array]:
        mu = path.start.replace_coordinates(state)
        points = mu.points()
        slope = energy.gradient(mu, points.tokens)[:, 0]
        mass = 1.0
        if name == "softmax":  # velocity −∇δE/∫e^s dμ, with V = −A and so B = 1
            mass = jnp.exp(points.log_integral(Dot(A1, np.eye(1)), points.tokens))
        return energy(mu), -jnp.sum(points.weights * slope**2 / mass)

    return jax.lax.map(frame, path.coordinates)


DESCENDING = [name for name in DESCENTS if name != "sinkhorn"]
TOO_LONG = pytest.param("sinkhorn", marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*DESCENDING, TOO_LONG])
def test_energies_decrease_at_the_squared_gradient_norm(name: str) -> None:
    attention = attentions[name](A1, np.eye(1), -A1)
    energy = DESCENTS[name][1]()
    gaps = []
    for cells in (60, 120):
        path = flow(attention, grid_on_line(cells, half=4.5), TIMES)
        E, rate = map(np.asarray, recorded_energies(energy, path, attention, name))
        assert np.all(np.diff(E) < 0)
        h = float(TIMES[1])  # Simpson's rule over 9 frames: an error below 1e-6
        decrease = (
            h / 3 * (rate[0] + rate[-1] + 4 * rate[1::2].sum() + 2 * rate[2:-1:2].sum())
        )
        gaps.append(abs(decrease - (E[-1] - E[0])) / abs(E[-1] - E[0]))
    assert np.all(orders(gaps) >= 1.9)  # measured: 3.0, the order of the fluxes
    assert gaps[-1] < 3e-4


def test_gradient_flows_on_a_grid_are_the_attention_that_follows_them() -> None:
    mu, score = grid_on_line(60), Dot(A1, np.eye(1))
    pairs = {
        "sinkhorn": GradientFlow(SinkhornEnergy(A1, np.eye(1))),
        "softmax": GradientFlow(Interaction(score), TwistedMetric(score, np.eye(1))),
    }
    at = mu.points().tokens
    for name, dynamics in pairs.items():
        expected = attentions[name](A1, np.eye(1), -A1).field(0.0, mu)(at)
        actual = dynamics.field(0.0, mu)(at)
        np.testing.assert_allclose(actual, expected, atol=1e-8)  # potentials: 4e-11


@pytest.mark.slow
def test_a_quadratic_potential_contracts_a_grid() -> None:
    start = Grid.from_density(grid_on_line(60).edges, grid_on_line(60).density)
    energy = QuadraticPotential(np.array([[0.8]]), np.array([0.5]))
    final = flow(GradientFlow(energy), start, jnp.linspace(0, 0.5, 2)).final
    decay = np.exp(-0.4)
    # Steps of the moving box: (0.016)^4 / 24 for each of some tens.
    expected = decay**2 * np.asarray(start.covariance)
    np.testing.assert_allclose(final.covariance, expected, rtol=1e-6)
    mean = 0.5 + decay * (np.asarray(start.mean) - 0.5)
    np.testing.assert_allclose(final.mean, mean, rtol=1e-6)


@pytest.mark.slow
def test_the_entropy_along_a_gaussian_flow_matches_the_closed_form() -> None:
    start = Grid.from_function(
        [edges.even_edges(-7.0, 7.0, 100)],
        lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi),
    )
    path = flow(attentions["softmax"](-np.eye(1), np.eye(1), np.eye(1)), start, TIMES)
    s = 1 / (1 + 2 * np.asarray(TIMES))  # s' = -2s²
    actual = [float(value(Entropy(), path.frame(i))) for i in range(len(TIMES))]
    # Measured: s to 3e-6 on 100 cells and 6e-5 on 50, h⁴ of cells of 0.14.
    np.testing.assert_allclose(actual, -np.log(2 * np.pi * np.e * s) / 2, atol=4e-6)
    field = attentions["softmax"](-np.eye(1), np.eye(1), np.eye(1)).field(
        0.0, path.final
    )
    rate = eqx.filter_jit(dissipation)(Entropy(), path.final, field)
    np.testing.assert_allclose(rate, s[-1], rtol=1e-5)  # -s'/2s


def test_the_entropy_of_a_density_with_jumps_changes_by_the_divergence() -> None:
    axis = edges.even_edges(-1.0, 1.0, 16)
    jumps = np.zeros((16, 16))
    jumps[4:11, 3:12] = 1.0
    mu = Grid.from_density([axis, axis], jumps)
    linear = jnp.array([[-0.5, 0.3], [0.9, 0.2]])
    field = Affine(linear, jnp.array([0.1, 0.0]))
    rate = dissipation(2.0 * Entropy() - QuadraticPotential(np.eye(2)), mu, field)
    points = mu.points()
    x, v = np.asarray(points.tokens.x), np.asarray(field(points.tokens))
    expected = 2 * 0.3 - np.asarray(points.weights) @ np.sum(x * v, axis=1)
    assert_close(rate, expected)


@pytest.mark.slow
def test_runs_observe_the_energies_of_a_density() -> None:
    spec = parse(
        {
            "measure": "grid",
            "cells": 120,
            "half_width": 8,
            "A": -0.5,
            "V": 0.5,
            "t": 0.5,
            "frames": 3,
            "observe": ["energy", "entropy", "second-moment"],
        }
    )
    with pytest.raises(InvalidInputError, match="effect of `noise`"):
        runs.execute(spec.model_copy(update={"noise": 0.1}))
    result = runs.execute(spec)
    s = 1 / (1 + 2 * 0.25 * 0.5)  # s' = 2VA s²
    actual = {name: float(v) for name, v in result.observables.items()}
    np.testing.assert_allclose(
        actual["energy"], (1 - (s / 2) ** 2) ** -0.5 / 2, rtol=1e-6
    )
    entropy = -np.log(2 * np.pi * np.e * s) / 2
    np.testing.assert_allclose(actual["energy_entropy"], entropy, atol=1e-6)
    np.testing.assert_allclose(actual["dissipation_entropy"], s / 4, rtol=1e-5)
    np.testing.assert_allclose(actual["energy_second_moment"], s / 2, rtol=1e-6)
