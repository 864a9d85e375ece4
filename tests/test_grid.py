"""Densities on a grid: orders, mass, positivity, symmetry, validation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_reference import PrescribedVelocity, line, masses_of, normal
from helpers import assert_close

import meanfield
from meanfield.dynamics import Layers, stack_trees
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows import AbstractStepping, Trajectory, adaptive, cfl, fixed, flow
from meanfield.measures import AbstractMeasure, FixedBox, Grid, Points
from meanfield.measures.edges import averages, even_edges, graded_edges
from meanfield.measures.grids._upwind import fluxes

IDENTITY = np.eye(1)


def swing(t: jax.Array, x: jax.Array) -> jax.Array:
    return (1 + jnp.cos(3 * t) / 2) * jnp.sin(x)


def inverse_swing(t: float, x: np.ndarray) -> np.ndarray:
    """The start of a path under `swing`: tan(x/2) grows by e to its integral."""
    return 2 * np.arctan(np.tan(x / 2) * np.exp(-t - np.sin(3 * t) / 6))


@pytest.mark.slow_cases("graded_edges")
@pytest.mark.parametrize(
    "make", [pytest.param(even_edges, marks=pytest.mark.slow), graded_edges]
)
def test_a_prescribed_flow_converges_at_second_order(
    make: Callable[..., np.ndarray],
) -> None:
    t, law, gaps = 0.6, normal(0.45, 0.2), []
    for n in (200, 400):
        edges = make(-np.pi, np.pi, n)
        start = line(law, edges, box=FixedBox())
        end = flow(PrescribedVelocity(swing), start, np.array([0, t])).final
        exact = masses_of(lambda x: law(inverse_swing(t, x)), edges)
        gaps.append(np.sum(np.abs(np.asarray(end.masses) - exact)))
    assert gaps[1] < 2e-5
    assert np.log2(gaps[0] / gaps[1]) > 1.9


def rotation(t: jax.Array, x: jax.Array) -> jax.Array:
    del t
    return jnp.stack([-x[:, 1], x[:, 0]], axis=1) - 0.3 * x


@pytest.mark.slow
def test_a_plane_flow_converges_at_second_order() -> None:
    t, gaps = 0.35, []
    cos, sin = np.cos(t), np.sin(t)
    inverse_flow = np.exp(0.3 * t) * np.array([[cos, sin], [-sin, cos]])
    start = lambda x: np.exp(-np.sum((x - [0.8, 0]) ** 2 * [2, 5], axis=1))
    scale = np.sqrt(10) / np.pi
    for n in (64, 128):
        edges = [even_edges(-4, 4, n), graded_edges(-4, 4, n, ratio=2)]
        mu = Grid.from_function(edges, lambda x: scale * start(x), box=FixedBox())
        end = flow(PrescribedVelocity(rotation), mu, np.array([0, t])).final
        expected_density = lambda x: (
            scale * np.linalg.det(inverse_flow) * start(x @ inverse_flow.T)
        )
        areas = np.multiply.outer(*(np.diff(e) for e in edges))
        exact = averages(expected_density, edges) * areas
        gaps.append(np.sum(np.abs(np.asarray(end.masses) - exact)))
    assert np.log2(gaps[0] / gaps[1]) > 1.9


@pytest.mark.parametrize("axes", [1, 2])
def test_masses_stay_positive_at_the_longest_step_for_any_velocities(axes: int) -> None:
    rng = np.random.default_rng(axes)
    shape = (40,) if axes == 1 else (12, 15)
    widths = [jnp.asarray(rng.uniform(0.1, 10, n)) for n in shape]

    @jax.jit
    def euler(m: jax.Array, *velocities: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = [fluxes(m, k, widths[k], u, FixedBox()) for k, u in enumerate(velocities)]
        dt = 1 / jnp.max(sum(f.emptying for f in out))
        for axis, f in enumerate(out):
            m = m - dt * jnp.diff(f.flux, axis=axis)
        ends = sum(
            jnp.sum(jnp.abs(jnp.take(f.flux, jnp.array([0, -1]), axis=k)))
            for k, f in enumerate(out)
        )
        return m, dt * ends

    for _ in range(200):
        spikes = rng.random(shape) < rng.random()
        m = np.exp(rng.uniform(-60, 3, shape)) * spikes + 1e-300 * (rng.random() < 0.5)
        shapes = [np.add(shape, np.eye(axes, dtype=int)[k]) for k in range(axes)]
        u = [rng.normal(size=size) * (rng.random(size) < 0.7) for size in shapes]
        u[0].flat[0] = 1.0
        after, left = euler(m, *u)
        assert np.min(after) >= 0
        assert abs(np.sum(after) + left - np.sum(m)) <= 1e-14 * np.sum(m)


def test_fluxes_of_the_mirror_image_are_mirrored(rng: np.random.Generator) -> None:
    h, m = rng.uniform(0.5, 2, (2, 30))
    u = rng.normal(size=31)
    mirror = lambda a: jnp.asarray(a[::-1])
    there = fluxes(jnp.asarray(m), 0, jnp.asarray(h), jnp.asarray(u), FixedBox())
    mirrored_fluxes = fluxes(mirror(m), 0, mirror(h), -mirror(u), FixedBox())
    assert_close(mirrored_fluxes.flux[::-1], -np.asarray(there.flux), ulps=1000)
    assert_close(mirrored_fluxes.emptying[::-1], np.asarray(there.emptying), ulps=1000)


@pytest.mark.slow
def test_a_discontinuity_is_advected_without_overshoot() -> None:
    edges = even_edges(0, 1, 100)
    block = np.where((edges[1:] > 0.2) & (edges[:-1] < 0.4), 1.0, 0.1)
    start = Grid.from_density([edges], block, box=FixedBox())
    right = PrescribedVelocity(lambda t, x: jnp.ones_like(x))
    run = flow(right, start, np.linspace(0, 0.3, 4), stepping=cfl(0.8))
    density = np.asarray(run.coordinates.masses)[:, 0] / np.diff(edges)
    inside = density[:, 35:]  # nothing flows in after what has moved on
    assert np.max(inside) <= np.max(density[0]) * (1 + 1e-13)
    assert np.min(inside) >= np.min(density[0]) * (1 - 1e-13)


def test_smooth_extrema_are_not_clipped() -> None:
    edges = even_edges(-4, 4, 200)
    rho = masses_of(normal(), edges) / np.diff(edges)
    ones = jnp.ones(201)
    through = np.asarray(
        fluxes(jnp.asarray(rho * 0.04), 0, jnp.full(200, 0.04), ones, FixedBox())[0]
    )
    exact = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    assert np.max(np.abs(through - exact)[20:-20]) < 3e-6  # h³/12 of a third derivative


@pytest.mark.slow
def test_symmetry_mass_and_sign_survive_a_flow() -> None:
    edges = graded_edges(-5, 5, 120)
    edges = (edges - edges[::-1]) / 2
    rho = np.exp(-((np.abs(edges[1:] + edges[:-1]) / 2 - 1) ** 2) * 4)
    rho = (rho + rho[::-1]) / 2
    start = Grid.from_density([edges], rho)
    run = flow(
        meanfield.attentions["softmax"](-IDENTITY, IDENTITY, IDENTITY),
        start,
        np.array([0, 0.5, 1]),
    )
    assert run.status is Status.FINISHED
    m = np.asarray(run.coordinates.masses)[:, 0]
    assert np.all(m >= 0)
    assert np.max(np.abs(m - m[:, ::-1])) < 1e-13
    assert np.max(np.abs(m.sum(axis=1) + run.coordinates.outflow - 1)) < 1e-13


@pytest.mark.slow
def test_a_much_faster_layer_starts_with_shorter_steps() -> None:
    """1/s falls by 2AV per unit of time; the steps of the first layer are unstable."""
    softmax = meanfield.attentions["softmax"]
    slow, fast = (softmax(a * IDENTITY, IDENTITY, -IDENTITY) for a in (0.02, 2.0))
    layers = Layers([0.0, 1.0, 2.0], stack_trees([slow, fast]))
    run = flow(layers, line(normal(), np.linspace(-9, 9, 102)), [0.0, 2.0])
    assert run.status == Status.FINISHED
    assert abs(run.final.covariance[0, 0] * (1 + 0.04 + 4) - 1) < 0.05


def test_points_of_a_grid_have_the_moments_of_the_density() -> None:
    mu = line(normal(0.7, 0.4), even_edges(-5, 6, 150))
    assert_close(mu.mean, np.array([0.4]), ulps=2e5)  # fourth order: no h²/12
    assert abs(float(mu.covariance[0, 0]) - 0.49) < 1e-7


BAD = {
    "at least 8 cells": lambda: Grid.from_density([even_edges(0, 1, 7)], np.ones(7)),
    "must increase": lambda: Grid.from_density([np.zeros(11)], np.ones(10)),
    "one or two axes": lambda: Grid.from_density(
        [even_edges(0, 1, 9)] * 3, np.ones((9,) * 3)
    ),
    "not be negative": lambda: Grid.from_density(
        [even_edges(0, 1, 9)], np.arange(9) - 1.0
    ),
    "one average for each": lambda: Grid.from_density(
        [even_edges(0, 1, 9)], np.ones(8)
    ),
    "zero everywhere": lambda: Grid.from_density([even_edges(0, 1, 9)], np.zeros(9)),
    "finite": lambda: Grid.from_density([even_edges(0, 1, 9)], np.full(9, np.nan)),
    "as narrow as a cell": lambda: line(normal(0.02), even_edges(-1, 1, 40)),
    "must have mass 1": lambda: Grid.from_function(
        [even_edges(0, 6, 90)],
        lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi),
    ),
    "stepped by `cfl": lambda: _step(line(normal(), even_edges(-6, 6, 50)), fixed(0.1)),
    "keeps its masses": lambda: _step(
        line(normal(), even_edges(-6, 6, 50)), adaptive()
    ),
    "are for grids": lambda: _step(Points.uniform(np.ones((3, 1))), cfl()),
    "must be in": lambda: cfl(1.2),
}


def _step(mu: AbstractMeasure, stepping: AbstractStepping) -> Trajectory:
    attention = meanfield.attentions["softmax"](IDENTITY, IDENTITY, IDENTITY)
    return flow(attention, mu, np.array([0.0, 1.0]), stepping=stepping)


@pytest.mark.parametrize("words", BAD)
def test_bad_grids_raise_one_clear_line(words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as error_info:
        BAD[words]()
    assert "\n" not in str(error_info.value)
