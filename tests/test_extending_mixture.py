"""A measure defined by a plugin: its numbers, against other computations."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
import xarray as xr
from extending_page import load_example
from mixture_reference import integrate

from meanfield import runs
from meanfield.attention import attentions
from meanfield.distances import best_distance
from meanfield.dynamics import Projected
from meanfield.energies import dissipation, energies
from meanfield.errors import InvalidInputError
from meanfield.flows import adaptive, flow
from meanfield.measures import Gaussian, Tensor
from meanfield.plotting import covariances, panels
from meanfield.spec import has_key, parse

pytestmark = pytest.mark.usefixtures("restore_registries")


@pytest.mark.slow
def test_components_far_apart_follow_the_velocities_of_the_whole(
    rng: np.random.Generator,
):
    Mixture = load_example("mixture").Mixture
    Q, K, V = rng.normal(size=(3, 2, 2)) / 2
    m = np.array([[3.0, -1.0], [-3.0, 1.0]])
    Y, w = 0.4 * rng.normal(size=(2, 2, 2)) + 0.3 * np.eye(2), np.array([0.3, 0.7])
    attention = attentions["softmax"](*map(jnp.asarray, (Q, K, V)), epsilon=1.5)
    start = Mixture(*map(jnp.asarray, (w, m, Y)), Tensor(14))
    ends = flow(attention, start, [0, 0.7], stepping=adaptive(rtol=1e-7)).frame(-1)
    S = Y @ np.swapaxes(Y, 1, 2)
    m1, S1 = integrate(K.T @ Q / 1.5, V, w, (m, S), 0.7)
    assert np.abs(m1 - m).max() > 0.1
    np.testing.assert_allclose(ends.means, m1, atol=1e-6)
    factors = np.asarray(ends.factors)
    np.testing.assert_allclose(factors @ np.swapaxes(factors, 1, 2), S1, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "l2"])
def test_one_component_has_the_rates_of_the_projected_gaussian(
    name: str, rng: np.random.Generator
):
    Mixture = load_example("mixture").Mixture
    Q, K, V = rng.normal(size=(3, 2, 2)) / 2
    mean, Y = jnp.asarray(rng.normal(size=2)), jnp.asarray(rng.normal(size=(2, 2)) / 2)
    attention = attentions[name](*map(jnp.asarray, (Q, K, V)))
    single, gaussian = (
        Mixture(jnp.ones(1), mean[None], Y[None], Tensor(32)),
        Gaussian(mean, Y),
    )
    rates = single.transport(attention.field(0.0, single))
    expected = gaussian.transport(Projected(attention).field(0.0, gaussian))
    for rate, expected_rate in zip(rates, expected, strict=True):
        np.testing.assert_allclose(rate[0], expected_rate, atol=1e-8)


@pytest.mark.slow
def test_single_precision_stays_single_where_jax_is_double():
    load_example("mixture")
    keys = {"measure": "mixture", "init": "mixture", "d": 1, "t": 0.3, "frames": 3}
    single = runs.execute(parse({**keys, "precision": "single"})).measures[0]
    assert {leaf.dtype for leaf in jax.tree.leaves(single)} == {jnp.dtype("float32")}


def test_a_mixture_begins_with_the_law_of_the_cloud(tmp_path: Path):
    load_example("mixture")
    spec = parse({"measure": "mixture", "init": "mixture", "d": 2, "mean": [1.0, 2.0]})
    start: Any = runs.member(spec).measure
    keys = {"init": "mixture", "n": 4000, "d": 2, "mean": [1, 2]}
    random_start: Any = runs.member(parse(keys)).measure
    x = np.asarray(random_start.tokens.x).reshape(-1, 4, 2)  # one after the other
    error = 5 * 0.25 / np.sqrt(len(x))
    np.testing.assert_allclose(start.means, x.mean(axis=0), atol=error)
    np.testing.assert_allclose(start.covariance, np.cov(x.reshape(-1, 2).T), atol=0.05)
    cloud = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, -3.0]])
    np.save(tmp_path / "x.npy", cloud)
    keys = {"measure": "mixture", "init": f"@{tmp_path}/x.npy", "bandwidth": 0.5}
    smoothed: Any = runs.member(parse(keys)).measure
    np.testing.assert_allclose(smoothed.mean, cloud.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(smoothed.covariance, np.cov(cloud.T, bias=True))
    width = np.asarray(smoothed.factors[0] @ smoothed.factors[0].T)
    np.testing.assert_allclose(width, np.cov(cloud.T, bias=True) / 5)  # 0.5² / 1.25


def test_nodes_that_do_not_resolve_the_velocities_end_the_flow():
    load_example("mixture")
    keys = {"measure": "mixture", "init": "mixture", "A": -300.0, "t": 0.2, "frames": 2}
    outcome = runs.execute(parse(keys)).outcome
    assert outcome.name == "unconverged"


def test_the_distance_of_a_mixture_is_bounded_by_its_moments():
    """On a line $W_2$ is a distance of quantiles; nodes are no atoms."""
    Mixture = load_example("mixture").Mixture
    w, m, s = np.array([0.4, 0.6]), np.array([-2.0, 1.0]), np.array([0.3, 0.5])
    parts = map(jnp.asarray, (w, m[:, None], s[:, None, None]))
    actual = best_distance(
        Mixture(*parts, Tensor(16)), Gaussian(jnp.zeros(1), jnp.eye(1))
    )
    x = np.linspace(-8, 8, 400_001)
    u = (np.arange(100_000) + 0.5) / 100_000
    below = (w * scipy.special.ndtr((x[:, None] - m) / s)).sum(axis=1)
    exact = np.sqrt(np.mean((np.interp(u, below, x) - scipy.special.ndtri(u)) ** 2))
    deviation = np.sqrt(w @ (s**2 + (m - w @ m) ** 2))
    np.testing.assert_allclose(actual.value, np.hypot(w @ m, deviation - 1))
    assert actual.value < exact
    assert np.isnan(actual.error)


def test_keys_accept_the_name_of_a_plugin_measure():
    load_example("mixture")
    assert has_key("mixture", "bandwidth")
    for key, value in {
        "n": 5,
        "reduction": "dense",
        "cells": 9,
        "starts": "grid:2",
    }.items():
        with pytest.raises(InvalidInputError, match=f"`{key}`"):
            parse({"measure": "mixture", key: value})


def test_panels_draw_moments_of_unknown_measures(rng: np.random.Generator):
    mean, factor = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 5))
    places = ("time", "coord")
    data = xr.Dataset(
        {"mean": (places, mean), "factor": ((*places, "rank"), factor)},
        {"time": np.arange(3.0)},
        {"kind": "foam"},
    )
    np.testing.assert_allclose(
        covariances(data), factor @ np.swapaxes(factor, -1, -2), rtol=1e-12
    )
    gaussian = data.assign_attrs(kind="gaussian")
    for name in ("tokens", "spectrum", "cone"):
        figure, gaussian_figure = (
            panels[name](dataset) for dataset in (data, gaussian)
        )
        lines = [
            [line.get_xydata() for line in f.axes[0].lines]
            for f in (figure, gaussian_figure)
        ]
        assert len(lines[0]) == len(lines[1]) > 0
        for mixture_line, gaussian_line in zip(*lines, strict=True):
            np.testing.assert_array_equal(mixture_line, gaussian_line)


@pytest.mark.slow
def test_the_rate_of_an_energy_matches_the_components(rng: np.random.Generator):
    """Not of nodes that follow the field, which do not stay a mixture."""
    Mixture = load_example("mixture").Mixture
    w, m, Y = [0.4, 0.6], [[1.0], [-2.0]], [[[0.8]], [[0.5]]]
    mu = Mixture(*map(jnp.asarray, (w, m, Y)), Tensor(24))
    field = attentions["sigmoid"]([[1.0]], [[1.0]], [[-1.0]]).field(0.0, mu)
    energy = energies["interaction"](*map(jnp.asarray, ([[0.4]], [[1.0]], [[-1.0]])))
    h, rates = 1e-5, mu.transport(field)

    def energy_after(s: float) -> float:
        pairs = zip(mu.coordinates, rates, strict=True)
        return float(energy(mu.replace_coordinates(tuple(y + s * v for y, v in pairs))))

    slope = (energy_after(h) - energy_after(-h)) / (2 * h)
    of_nodes = float(dissipation(energy, mu.points, field))
    assert abs(of_nodes / slope - 1) > 1e-3
    assert abs(float(dissipation(energy, mu, field)) / slope - 1) < 1e-7
