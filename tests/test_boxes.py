"""Boxes of grids: what each follows is at rest relative to it."""

from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from meanfield.dynamics import AbstractDynamics, Drift
from meanfield.endings import Status
from meanfield.energies import Entropy, GradientFlow
from meanfield.fields import Affine
from meanfield.flows import Isotropic, flow
from meanfield.flows.motions.grid._endings import ending as grid_ending
from meanfield.flows.motions.grid._noise import add_box_spreading
from meanfield.flows.motions.grid._rim import rim_masses
from meanfield.measures import (
    AbstractBox,
    AffineBox,
    ClosedBox,
    FixedBox,
    Grid,
    GridState,
    ScaledBox,
)
from meanfield.measures.edges import even_edges, graded_edges
from meanfield.measures.grids._probes import chebyshev_rows
from meanfield.runs import execute
from meanfield.spec import parse


@pytest.fixture
def cloud(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points with nonzero mean, velocities, and masses."""
    w = rng.uniform(0.2, 1.8, size=40)
    x = rng.normal(size=(40, 2)) @ np.array([[1.0, 0.4], [0.0, 0.5]]) + [2.0, -1.0]
    return x, rng.normal(size=(40, 2)) + 0.7 * x[:, ::-1], w / w.sum()


def relative(
    box: AbstractBox, cloud: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rates of mean and covariance relative to a moving box, and its R."""
    x, u, w = cloud
    drift, R = (np.asarray(part) for part in box.motion(*map(jnp.asarray, cloud)))
    velocity = u - drift - x @ R.T
    z = x - w @ x
    half = (w[:, None] * z).T @ velocity
    return w @ velocity, half + half.T, R


def test_an_affine_box_keeps_mean_and_covariance(
    cloud: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    mean, covariance, _ = relative(AffineBox(), cloud)
    np.testing.assert_allclose(mean, 0, atol=1e-13)
    np.testing.assert_allclose(covariance, 0, atol=1e-13)


def test_a_scaled_box_keeps_mean_and_variances_and_does_not_shear(
    cloud: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    mean, covariance, R = relative(ScaledBox(), cloud)
    np.testing.assert_allclose(mean, 0, atol=1e-13)
    np.testing.assert_allclose(np.diag(covariance), 0, atol=1e-13)
    np.testing.assert_array_equal(R, np.diag(np.diag(R)))
    assert abs(covariance[0, 1]) > 0.1


def test_a_fixed_box_does_not_move(
    cloud: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    drift, R = FixedBox().motion(*map(jnp.asarray, cloud))
    assert not np.any(drift)
    assert not np.any(R)


def plane(
    axes: np.ndarray, origin: np.ndarray, *, box: AbstractBox = AffineBox()
) -> Grid:
    """A smooth off-centre density in a box that is rotated and sheared."""
    edges = [even_edges(-6, 6, 24), even_edges(-5, 5, 20)]
    x, y = (norm.pdf((e[1:] + e[:-1]) / 2 - 0.2) for e in edges)
    grid = Grid.from_density(edges, np.outer(x, y), box=box)
    state = grid.state._replace(origin=jnp.asarray(origin), axes=jnp.asarray(axes))
    return grid.replace_coordinates(state)


@eqx.filter_jit
def transport(grid: Grid, field: Affine) -> GridState:
    return grid.transport(field)


def test_an_affine_box_follows_an_affine_field_exactly() -> None:
    """c' = Lc + b and D' = LD, and no mass moves; D and L are not symmetric."""
    D, c = np.array([[1.2, 0.7], [-0.2, 0.5]]), np.array([2.0, -1.0])
    L, b = np.array([[0.3, -1.1], [0.4, 0.2]]), np.array([0.5, 0.1])
    rate = transport(plane(D, c), Affine(jnp.asarray(L), jnp.asarray(b)))
    np.testing.assert_allclose(rate.axes, L @ D, atol=1e-12)
    np.testing.assert_allclose(rate.origin, L @ c + b, atol=1e-12)
    np.testing.assert_allclose(rate.masses, 0, atol=1e-13)


def test_a_fixed_box_sees_velocities_along_its_axes() -> None:
    """u = D⁻¹v: a constant velocity D e₁ carries mass across the first axis alone."""
    D = np.array([[1.2, 0.7], [-0.2, 0.5]])
    still = plane(D, np.zeros(2), box=FixedBox())
    rate = transport(still, Affine(jnp.zeros((2, 2)), jnp.asarray(D[:, 0])))
    mass = np.asarray(still.masses)
    marginal = np.sum(np.asarray(rate.masses[0]), axis=0)  # of the second axis
    np.testing.assert_allclose(marginal, 0, atol=1e-13)
    drift = np.sum(np.asarray(rate.masses[0]).sum(1) * np.linspace(-5.75, 5.75, 24))
    assert drift == pytest.approx(mass.sum(), rel=1e-3)  # the mean moves by one


def test_a_scaled_box_follows_the_spread_that_noise_adds() -> None:
    """A variance s grows by 2κ, and the length of its axis at the rate κ/s."""
    D, kappa = np.diag([2.0, 0.5]), 0.3
    grid = plane(D, np.array([1.0, 0.0]), box=ScaledBox())
    still = Affine(jnp.zeros((2, 2)), jnp.zeros(2))
    rate = transport(add_box_spreading(grid, jnp.asarray(kappa)), still)
    expected = D @ np.diag(kappa / np.diag(grid.covariance))
    np.testing.assert_allclose(rate.axes, expected, rtol=1e-12)


def test_a_box_at_rounding_level_along_one_axis_has_collapsed() -> None:
    far = np.array([1.0, 1.0])
    thin = plane(np.diag([1.0, 1e-18]), far)
    for grid, status in ((plane(np.eye(2), far), Status.FINISHED),
                         (thin, Status.COLLAPSE)):  # fmt: skip
        assert int(grid_ending(grid, jnp.asarray(False))) == status


def test_boundary_mass_is_the_larger_of_both_ends() -> None:
    """One density leans on its upper end, the other on its lower end."""
    edges = [even_edges(-4, 4, 80)]
    x = (edges[0][1:] + edges[0][:-1]) / 2
    for place in (3.0, -3.0):
        full = Grid.from_density(edges, norm.pdf(x - place))
        centred_grid = Grid.from_density(edges, norm.pdf(x))
        assert float(rim_masses(full)[0]) > 10 * float(rim_masses(centred_grid)[0])


def test_graded_cells_have_the_requested_ratio() -> None:
    """Ratio of widths at the ends and in the middle, averaged over a cell."""
    for ratio in (2.0, 10.0, 40.0):
        h = np.diff(graded_edges(-3.0, 5.0, 2000, ratio=ratio))
        assert h[0] / h[1000] == pytest.approx(ratio, rel=1e-2)
        assert h[-1] == pytest.approx(h[0])
        assert np.sum(h) == pytest.approx(8.0)


def test_series_rows_match_numpy_coefficients() -> None:
    coefficients = np.array([0.7, -0.2, 0.5, 0.1])
    nodes = -np.cos((np.arange(9) + 0.5) * np.pi / 9)
    values = np.polynomial.chebyshev.chebval(nodes, coefficients)
    expected = np.append(coefficients, np.zeros(5))
    np.testing.assert_allclose(chebyshev_rows(9) @ values, expected, atol=1e-14)


@pytest.mark.slow_cases("pressure", "drift away")
@pytest.mark.parametrize(
    ("law", "noise"),
    [
        (Drift(jnp.eye(1)), None),
        (Drift(-jnp.eye(1)), Isotropic(0.3)),
        (GradientFlow(Entropy()), None),
    ],
    ids=["drift away", "drift and heat", "pressure"],
)
def test_a_closed_wall_is_a_mirror(law: AbstractDynamics, noise: Isotropic | None):
    """An even density on both sides of a wall flows like its half on one side."""
    bell = lambda x: norm.pdf(x[:, 0], scale=0.6)
    whole_grid = Grid.from_function([even_edges(-6, 6, 96)], bell, box=ClosedBox())
    half = lambda x: 2 * bell(x)
    half_grid = Grid.from_function([even_edges(0, 6, 48)], half, box=ClosedBox())
    ends = [flow(law, mu, [0.0, 0.2], noise=noise) for mu in (whole_grid, half_grid)]
    assert all(end.status == Status.FINISHED for end in ends)
    whole, right = (np.asarray(end.final.masses) for end in ends)
    # Under noise steps are chosen by the variance, which is that of a half.
    atol = 1e-13 if noise is None else 1e-6
    np.testing.assert_allclose(right, 2 * whole[48:], rtol=1e-9, atol=atol)


@pytest.mark.slow_cases("2")
@pytest.mark.parametrize("d", [1, 2])
def test_heat_in_a_closed_box_flattens_as_a_cosine_does(d: int):
    """Each wave cos(kx) between walls at 0 and π decays at the rate κk²."""
    wave = lambda x: np.prod(1 + 0.9 * np.cos(x), axis=1) / np.pi**d

    def error(cells: int) -> float:
        edges = even_edges(0, np.pi, cells)
        grid = Grid.from_function([edges] * d, wave, box=ClosedBox())
        end = flow(Drift(jnp.zeros((d, d))), grid, [0.0, 1.0], noise=Isotropic(0.3))
        assert end.status == Status.FINISHED
        assert float(end.final.outflow) == 0
        row = np.diff(edges + 0.9 * np.exp(-0.3) * np.sin(edges)) / np.pi
        exact = row if d == 1 else np.outer(row, row)
        return float(np.abs(end.final.masses - exact).sum())

    assert error(20) < 2e-3
    assert error(40) < 0.27 * error(20)


@pytest.mark.slow
def test_a_run_in_a_closed_box_loses_no_mass_and_stays_inside(tmp_path: Path):
    keys = {
        "measure": "grid",
        "d": 1,
        "cov": [[0.1]],
        "domain": [-1.5, 1.5],
        "box": "closed",
        "cells": 40,
        "V": [[-1.0]],
        "noise": 0.5,
        "t": 0.5,
        "frames": 3,
    }
    result = execute(parse(keys), out=tmp_path / "run")
    grid, estimate = result.measures[0], result.outcome.error_estimate
    assert isinstance(grid, Grid)
    assert isinstance(grid.box, ClosedBox)
    assert result.outcome.status == Status.FINISHED
    assert float(grid.outflow) == 0
    assert estimate is not None
    assert estimate.box == 0
    assert 0 < estimate.covariance < 0.05
