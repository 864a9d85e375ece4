"""Noise on densities, against closed forms, quadrature and fixed points."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr
from test_noise import KAPPA, Drift, L, line, lyapunov

from meanfield.errors import UnsupportedError
from meanfield.flows import Isotropic, Steady, Trajectory, flow
from meanfield.flows.motions.grid._noise import apply_heat_flow
from meanfield.measures import AbstractBox, FixedBox, Grid, ScaledBox
from meanfield.measures.edges import even_edges, graded_edges


def normal(s: float):
    return lambda x: np.exp(-np.sum(x**2, 1) / (2 * s)) / np.sqrt(2 * np.pi * s)


def gap(path: Trajectory, s: float) -> float:
    """The L1 distance of masses to those of a centred normal law."""
    grid = path.final
    edges = np.asarray(grid.edges[0]) * float(grid.state.axes[0, 0])
    return float(np.abs(np.diff(ndtr(edges / np.sqrt(s))) - grid.masses).sum())


def assert_sound(path: Trajectory) -> None:
    """Masses are nonnegative, conserved and symmetric."""
    masses, grid = np.asarray(path.final.masses), path.final
    assert masses.min() >= 0
    assert abs(float(grid.mass + grid.outflow) - 1) < 1e-13
    np.testing.assert_allclose(masses, np.flip(masses), atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("make_edges", [even_edges, graded_edges])
def test_free_densities_follow_the_heat_equation(make_edges: Callable):
    errors = []
    for cells in (100, 200):
        grid = Grid.from_function(
            [make_edges(-8, 8, cells)], normal(1.0), box=FixedBox()
        )
        still = Drift(jnp.zeros((1, 1)))
        path = flow(still, grid, [0.0, 0.5], noise=Isotropic(KAPPA))
        assert_sound(path)
        errors.append(gap(path, 1 + 2 * KAPPA * 0.5))
    assert np.log2(errors[0] / errors[1]) > 1.9
    assert errors[1] < 1e-3


def test_steps_may_be_hundreds_of_times_longer_than_explicit_ones():
    cells, kappa = 2000, 40.0
    grid = Grid.from_function([even_edges(-24, 24, cells)], normal(9.0), box=FixedBox())
    path = flow(Drift(jnp.zeros((1, 1))), grid, [0.0, 0.01], noise=Isotropic(kappa))
    assert kappa * 0.01 / int(path.n_accepted) / (48 / cells) ** 2 > 200
    assert_sound(path)
    assert gap(path, 9 + 2 * kappa * 0.01) < 1e-5


def test_mass_that_reaches_the_ends_is_counted_as_outflow():
    wave = lambda x: np.pi / 4 * np.cos(np.pi * x[:, 0] / 2)
    grid = Grid.from_function([even_edges(-1, 1, 200)], wave, box=FixedBox())
    t = 2.5e-4 / KAPPA  # an eigenfunction decays by its eigenvalue, (pi/2)^2
    path = flow(Drift(jnp.zeros((1, 1))), grid, [0.0, t], noise=Isotropic(KAPPA))
    outflow = -np.expm1(-KAPPA * t * (np.pi / 2) ** 2)
    assert float(path.final.outflow) == pytest.approx(outflow, rel=1e-3)
    assert_sound(path)


@pytest.mark.slow
@pytest.mark.parametrize("box", [FixedBox(), ScaledBox()])
def test_noisy_attention_is_of_second_order_in_any_box(box: AbstractBox):
    root, errors = np.sqrt(KAPPA), []
    s = root / np.tanh(2 * root + np.arctanh(root))  # s' = 2 kappa - 2 s^2 from 1
    for cells in (100, 200):
        grid = Grid.from_function([even_edges(-9, 9, cells)], normal(1.0), box=box)
        path = flow(
            line("softmax", -1.0, 1.0), grid, [0.0, 1.0], noise=Isotropic(KAPPA)
        )
        assert_sound(path)
        errors.append(gap(path, s))
    assert np.log2(errors[0] / errors[1]) > 1.9
    assert float(path.final.covariance[0, 0]) == pytest.approx(s, rel=1e-3)


@pytest.mark.slow
def test_a_plane_density_follows_ornstein_and_uhlenbeck():
    density = lambda x: normal(1.0)(x) / np.sqrt(2 * np.pi)
    edges = [even_edges(-6, 6, 64)] * 2
    grid = Grid.from_function(edges, density, box=ScaledBox())
    path = flow(Drift(jnp.asarray(L)), grid, [0.0, 0.3], noise=Isotropic(KAPPA))
    assert_sound(path)
    want = lyapunov(np.eye(2), 0.3)
    np.testing.assert_allclose(path.final.covariance, want, atol=2e-3)


@pytest.mark.slow
def test_a_density_comes_to_rest_at_the_fixed_point():
    grid = Grid.from_function([even_edges(-9, 9, 100)], normal(1.0), box=FixedBox())
    path = flow(
        line("softmax", -1.0, 1.0),
        grid,
        [0.0, 40.0],
        stop=Steady(1e-4),
        noise=Isotropic(KAPPA),
    )
    assert path.status.ending == "steady"
    want = np.sqrt(KAPPA)
    assert float(path.final.covariance[0, 0]) == pytest.approx(
        want, rel=2e-3
    )  # 4 cells a radius


def gibbs(x: np.ndarray, kappa: float) -> np.ndarray:
    r"""Masses with $\rho \propto \exp(-\kappa^{-1}\int e^{xy}\rho(y)\,dy)$."""
    K, m = np.exp(np.outer(x, x)), np.exp(-(x**2))
    for _ in range(400):
        new = np.exp(-(K @ (m / m.sum())) / kappa)
        m = m / m.sum() / 2 + new / new.sum() / 2
    return m


@pytest.mark.slow
def test_a_gradient_flow_rests_at_the_gibbs_measure_of_its_own_energy():
    edges = even_edges(-4, 4, 160)
    grid = Grid.from_function([edges], normal(0.25), box=FixedBox())
    path = flow(line("exp", 1.0, -1.0), grid, [0.0, 4.0], noise=Isotropic(KAPPA))
    path.raise_for_status()
    want = gibbs((edges[1:] + edges[:-1]) / 2, KAPPA)
    assert np.abs(np.asarray(path.final.masses) - want).sum() < 3e-3


def test_a_plane_box_that_shears_is_rejected():
    density = lambda x: normal(1.0)(x) / np.sqrt(2 * np.pi)
    grid = Grid.from_function([even_edges(-6, 6, 24)] * 2, density)
    with pytest.raises(UnsupportedError, match=r"does not shear\. Use `ScaledBox`"):
        flow(Drift(jnp.zeros((2, 2))), grid, [0.0, 1.0], noise=Isotropic(1.0))


def test_mass_is_kept_where_only_one_end_is_reached():
    half = lambda x: 2 * normal(1.0)(x)
    grid = Grid.from_function([even_edges(0, 8, 60)], half, box=FixedBox())
    after = apply_heat_flow(grid.state, grid.edges, jnp.asarray(0.1), grid.box)
    assert float(after.outflow) > 0.1
    assert abs(float(jnp.sum(after.masses) + after.outflow) - 1) < 1e-13


@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_diffusion_does_not_depend_on_the_box_size(scale: float):
    grid = Grid.from_function([even_edges(-9, 9, 90)], normal(1.0), box=ScaledBox())
    wide = grid.replace_coordinates(grid.state._replace(axes=jnp.full((1, 1), scale)))
    area = 0.2 * scale**2
    after = wide.replace_coordinates(
        apply_heat_flow(wide.state, wide.edges, jnp.asarray(area), wide.box)
    )
    # Three-point differences move it by 2κt exactly, but for the tail at the ends.
    x, mass = (np.ravel(part) for part in (wide.points().tokens.x, after.masses))
    before = np.sum(np.ravel(wide.masses) * x**2)
    assert np.sum(mass * x**2) - before == pytest.approx(2 * area, rel=1e-9)
