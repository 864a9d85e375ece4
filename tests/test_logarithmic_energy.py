"""Logarithmic attraction and the Keller–Segel flow, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import exp1

from meanfield.energies import (
    Entropy,
    GradientFlow,
    LogarithmicAttraction,
    dissipation,
    steepest_rate,
)
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.flows import flow
from meanfield.measures import FixedBox, Gaussian, Grid, Points, ScaledBox
from meanfield.measures.edges import even_edges


def normal(scale: float, cells: int, *, half: float = 6.0) -> Grid:
    """A Gaussian with this standard deviation, in a box of `half` of them each way."""
    axis = even_edges(-half * scale, half * scale, cells)
    density = lambda x: (
        np.exp(-np.sum(x**2, axis=1) / (2 * scale**2)) / (2 * np.pi * scale**2)
    )
    return Grid.from_function([axis, axis], density, box=ScaledBox())


def field_of_a_normal(radius: np.ndarray, scale: float) -> np.ndarray:
    r"""$\log|\cdot| * N(0, s^2)$, whose Laplacian is $2\pi\rho$."""
    return np.log(radius) + exp1(radius**2 / (2 * scale**2)) / 2


@pytest.mark.slow
def test_the_potential_of_a_gaussian_to_second_order() -> None:
    energy, gaps = LogarithmicAttraction(2 * np.pi), []
    for cells in (32, 64, 128):
        mu = normal(0.7, cells)
        middles = (np.asarray(mu.edges[0])[1:] + np.asarray(mu.edges[0])[:-1]) / 2
        radius = np.hypot(middles[:, None], middles[None, :])
        values = np.asarray(energy.variation(mu).values[0])  # pyright: ignore
        gaps.append(np.max(np.abs(values - field_of_a_normal(radius, 0.7))))
    assert np.all(np.log2(np.array(gaps[:-1]) / gaps[1:]) > 1.9), gaps
    # Densities and the logarithm are averaged over cells: h²/12 times the Laplacian.
    h, largest = 12 * 0.7 / 128, 1 / 0.7**2
    np.testing.assert_allclose(gaps[-1], h**2 / 12 * largest, rtol=0.02)


def test_oblong_boxes_and_cells_see_the_same_potential() -> None:
    """Means over a cell against quadrature, in a stretched box."""
    edges = [even_edges(-1.0, 1.0, 8), even_edges(-3.0, 3.0, 12)]
    mu = Grid.from_density(edges, 1 + np.random.default_rng(1).random((8, 12)))
    mu = mu.replace_coordinates(mu.state._replace(axes=jnp.diag(jnp.array([2.0, 0.3]))))
    values = np.asarray(LogarithmicAttraction(2 * np.pi).variation(mu).values[0])  # pyright: ignore
    h = np.array([0.5, 0.15])
    masses = np.asarray(mu.masses)
    mean_log = lambda i, j: dblquad(
        lambda y, x: np.log(x * x + y * y + 1e-300) / 2 / np.prod(h),
        (i - 0.5) * h[0],
        (i + 0.5) * h[0],
        (j - 0.5) * h[1],
        (j + 0.5) * h[1],
        epsabs=1e-7,
    )[0]
    expected = {(i, j): mean_log(i, j) for i in range(8) for j in range(12)}
    exact = [
        sum(
            masses[p] * expected[abs(i - p[0]), abs(j - p[1])]
            for p in np.ndindex(8, 12)
        )
        for i, j in ((0, 0), (3, 7))
    ]
    np.testing.assert_allclose([values[0, 0], values[3, 7]], exact, rtol=1e-6)


def test_the_energy_of_a_gaussian_is_its_mean_logarithm() -> None:
    S = np.array([[2.0, 0.6], [0.6, 0.5]])
    mu = Gaussian.from_moments([1.0, 2.0], S)
    a, b = np.sqrt(np.linalg.eigvalsh(2 * S))
    weight = lambda x, y: np.exp(-(x * x + y * y) / 2) / (2 * np.pi)
    mean_log = dblquad(
        lambda y, x: np.log((a * x) ** 2 + (b * y) ** 2) / 2 * weight(x, y),
        0,
        12,
        0,
        12,
    )[0]
    energy = LogarithmicAttraction(4 * np.pi)
    np.testing.assert_allclose(energy(mu), 4 * mean_log, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e200])
def test_the_energy_of_a_gaussian_of_any_size(scale: float) -> None:
    """By scaling, also where determinants overflow."""
    energy, S = LogarithmicAttraction(8 * np.pi), np.array([[2.0, 0.6], [0.6, 0.5]])
    energy_of = lambda S: float(energy.value_on_gaussian(jnp.zeros(2), jnp.asarray(S)))
    np.testing.assert_allclose(
        energy_of(scale * S), energy_of(S) + np.log(scale), rtol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 1.0, 1.5])
def test_the_second_moment_grows_by_the_virial_identity(share: float) -> None:
    r"""$\frac d{dt}\int|x|^2d\mu = 4(1 - \chi/8\pi)$, to second order in the cells."""
    energy, gaps = Entropy() + LogarithmicAttraction(8 * np.pi * share), []
    for cells in (24, 48):
        run = flow(GradientFlow(energy), normal(1.0, cells), [0.0, 0.1])
        growth = jnp.trace(run.final.covariance) - jnp.trace(run.frame(0).covariance)
        gaps.append(float(growth) / 0.1 - 4 * (1 - share))
        assert abs(float(run.final.mass + run.final.outflow) - 1) < 1e-13
        energies = np.asarray(run.map(energy))
        assert energies[1] < energies[0]
    assert np.log2(gaps[0] / gaps[1]) > 1.7, gaps
    assert abs(4 * gaps[1] - gaps[0]) / 3 < 0.005, gaps  # at no width of cells


@pytest.mark.slow
def test_a_gaussian_follows_the_virial_identity_until_it_collapses() -> None:
    """tr Σ = 4 − 2t at χ = 12π, so it vanishes at t = 2."""
    energy = Entropy() + LogarithmicAttraction(12 * np.pi)
    mu = Gaussian(jnp.zeros(2), jnp.diag(jnp.sqrt(jnp.array([3.0, 1.0]))))
    run = flow(GradientFlow(energy), mu, [0.0, 1.0, 1.9])
    spreads = [float(jnp.trace(run.frame(k).covariance)) for k in range(3)]
    np.testing.assert_allclose(spreads, [4, 2, 0.2], rtol=1e-6)
    trajectory = flow(GradientFlow(energy), mu, [0.0, 3.0])
    assert str(trajectory.status) == "collapse"
    np.testing.assert_allclose(trajectory.stop_time, 2.0, rtol=1e-6)


@pytest.mark.slow
def test_energy_decreases_at_the_squared_gradient_norm() -> None:
    r"""$\int|\nabla\log\rho - \chi\nabla c|^2d\mu$ of a Gaussian, by quadrature."""
    chi, gaps = 4 * np.pi, []
    energy = Entropy() + LogarithmicAttraction(chi)
    # ∇ log ρ = −x and χ∇c = −(χ/2π)(1 − e^{−r²/2})x/r².
    r = np.linspace(0, 12, 200_001)[1:]
    slope = -r + chi / (2 * np.pi) * (1 - np.exp(-(r**2) / 2)) / r
    exact = -np.trapezoid(slope**2 * np.exp(-(r**2) / 2) * r, r)
    for cells in (24, 48):
        mu = normal(1.0, cells)
        field = GradientFlow(energy).field(0.0, mu)
        actual = steepest_rate(energy, mu), dissipation(energy, mu, field)
        gaps.append(np.array([float(value) / exact - 1 for value in actual]))
    assert np.all(np.log2(gaps[0] / gaps[1]) > 1.7), gaps
    assert np.all(np.abs(4 * gaps[1] - gaps[0]) / 3 < 0.005), gaps


def test_measures_without_logarithmic_energy_are_rejected() -> None:
    energy, axis = LogarithmicAttraction(1.0), even_edges(-1.0, 1.0, 8)
    uneven = np.concatenate([axis[:-1], [2.0]])
    with pytest.raises(InvalidInputError, match="finite"):
        LogarithmicAttraction(np.inf)
    with pytest.raises(UnsupportedError, match="infinite logarithmic self-energy"):
        energy(Points.uniform([[0.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(UnsupportedError, match="d = 1"):
        energy(Grid.from_density([axis], np.ones(8)))
    with pytest.raises(UnsupportedError, match="equal width"):
        energy(Grid.from_density([axis, uneven], np.ones((8, 8))))
    square = Grid.from_density([axis, axis], np.ones((8, 8)))
    sheared_state = square.state._replace(axes=jnp.array([[1.0, 1.0], [0.0, 1.0]]))
    with pytest.raises(UnsupportedError, match="shear"):
        energy(square.replace_coordinates(sheared_state))
    assert np.isnan(
        jax.jit(lambda state: energy(square.replace_coordinates(state)))(sheared_state)
    )
    layers = Grid.from_density([axis, axis], np.ones((2, 8, 8)), position=[0.0, 1.0])
    with pytest.raises(UnsupportedError, match="layers"):
        energy(layers)
    with pytest.raises(NotClosedError, match="no closed form"):
        energy.variation(Gaussian(jnp.zeros(2), jnp.eye(2)))
    # Traced values that cannot be checked give NaN.
    mu = Grid.from_density([axis, uneven], np.ones((8, 8)), box=FixedBox())
    assert np.isnan(jax.jit(lambda edges: energy(Grid(mu.state, edges)))(mu.edges))
