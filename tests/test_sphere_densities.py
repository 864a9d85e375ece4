"""Densities on circles and spheres, against closed forms and values computed apart."""

import itertools
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

from experiments.states import StateEquation, ZonalKernel
from meanfield import (
    CircleDensity,
    Heads,
    Isotropic,
    Layers,
    ZonalDensity,
    attentions,
    fixed,
    flow,
)
from meanfield.dynamics import stack_trees
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnknownNameError, UnsupportedError
from meanfield.runs import execute
from meanfield.runs import open as open_run
from meanfield.scores import Dot
from meanfield.spec import parse
from meanfield.spherical import spherical_law
from meanfield.zones import zone_orders, zone_volumes

I2, I3 = jnp.eye(2), jnp.eye(3)


def _orders(mu: CircleDensity | ZonalDensity) -> np.ndarray:
    return zone_orders(np.asarray(mu.state.masses), mu.dimension)


def _density(cells: int, text: str, d: int) -> CircleDensity | ZonalDensity:
    law = spherical_law(text, d)
    if d == 2:
        return CircleDensity.from_function(cells, law)
    return ZonalDensity.from_function(cells, law, d=d)


def _three_waves(angles: np.ndarray) -> np.ndarray:
    return 1 + 0.2 * np.cos(angles) + 0.1 * np.cos(3 * angles - 1)


def test_softmax_on_the_circle_has_order_three() -> None:
    exact = [0.142550819348, 0.005727431483, 0.190863806857]
    errors = []
    for cells in (64, 128):
        start = CircleDensity.from_function(cells, _three_waves)
        end = flow(attentions["softmax"](5 * I2, I2, I2), start, [0.0, 2.0]).final
        errors.append(np.abs(_orders(end)[:3] - exact).max())
        assert float(end.mass) == pytest.approx(1, abs=1e-12)
        assert np.all(np.asarray(end.state.masses) > 0)
    assert errors[1] < 2e-5
    assert np.log2(errors[0] / errors[1]) > 2.9


def test_softmax_on_the_sphere_has_order_three() -> None:
    exact = [0.188261940584, 0.005466123949, 0.099717513792]
    errors = []
    for cells in (64, 128):
        law = spherical_law("harmonics:0.3:0:0.2", 3)
        start = ZonalDensity.from_function(cells, law, d=3)
        end = flow(attentions["softmax"](5 * I3, I3, I3), start, [0.0, 2.0]).final
        errors.append(np.abs(_orders(end)[:3] - exact).max())
        assert float(end.mass) == pytest.approx(1, abs=1e-12)
    assert errors[1] < 4e-6
    assert np.log2(errors[0] / errors[1]) > 2.8


def test_constant_weights_keep_a_density_of_cauchy() -> None:
    """Möbius maps move it: r² = r₀²eᵗ/(1 − r₀² + r₀²eᵗ)."""
    start = CircleDensity.from_function(256, spherical_law("cauchy:0.1", 2))
    end = flow(attentions["exp"](0 * I2, I2, I2), start, [0.0, 5.0]).final
    r = _orders(end)[:3]
    np.testing.assert_allclose(r, 0.7745060372992806 ** np.arange(1, 4), atol=2e-5)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_noise_alone_damps_the_mean_at_the_rate_of_the_heat_flow(d: int) -> None:
    still = attentions["softmax"](np.eye(d), np.eye(d), np.zeros((d, d)))
    gaps = []
    for cells in (32, 64):
        start = _density(cells, "harmonics:0.5", d)
        end = flow(still, start, [0.0, 1.0], noise=Isotropic(0.3)).final
        factor = np.exp(-(d - 1) * 0.3)
        gaps.append(abs(float(end.mean[0] - start.mean[0] * factor)))
        assert float(end.mass) == pytest.approx(1, abs=1e-12)
    assert gaps[1] < 2e-4
    assert np.log2(gaps[0] / gaps[1]) > 1.8


def _quadrature(mu: ZonalDensity, n_angles: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Nodes on the whole of S² and weights, for the density of each zone's centre."""
    phi = 2 * np.pi * (np.arange(n_angles) + 0.5) / n_angles
    c, s = np.cos(mu.angles), np.sin(mu.angles)
    ones = np.ones_like(phi)
    x = np.stack(
        [np.outer(c, ones), np.outer(s, np.cos(phi)), np.outer(s, np.sin(phi))], -1
    )
    weights = np.asarray(mu.points().weights).reshape(len(c), -1).sum(axis=1)
    return x.reshape(-1, 3), np.repeat(weights / n_angles, n_angles)


@pytest.mark.parametrize("name", ["softmax", "exp", "l2", "sigmoid", "linear"])
def test_velocities_are_sums_over_the_whole_sphere(name: str) -> None:
    Q, V = np.diag([2.0, 1.5, 1.5]), np.diag([1.0, -0.5, -0.5])
    mu = ZonalDensity.from_function(24, spherical_law("vmf:1.5", 3), d=3)
    attention = attentions[name](Q, np.eye(3), V)
    speeds = mu.face_speeds(attention.field(0.0, mu))
    keys, weights = _quadrature(mu)
    x, direction = mu.frame(mu.edges)
    S = x @ Q @ keys.T
    squares = np.sum((x @ Q) ** 2, 1)[:, None] + np.sum(keys**2, 1)[None]
    kappa = {
        "softmax": lambda: np.exp(S) / (np.exp(S) @ weights)[:, None],
        "exp": lambda: np.exp(S),
        "l2": lambda: (E := np.exp(2 * S - squares)) / (E @ weights)[:, None],
        "sigmoid": lambda: scipy.special.expit(S),
        "linear": lambda: S,
    }[name]()
    expected = np.sum(((kappa * weights) @ keys @ V.T) * direction, axis=1)
    np.testing.assert_allclose(speeds, expected, atol=1e-12)


def test_the_axis_may_be_another_one() -> None:
    law = spherical_law("vmf:2", 4)
    ends = []
    for axis in (0, 2):
        D = np.eye(4) + 0.3 * np.diag(np.eye(4)[axis])
        start = ZonalDensity.from_function(32, law, d=4, axis=axis)
        ends.append(flow(attentions["softmax"](D, np.eye(4), D), start, [0.0, 1.0]))
    first, third = (end.final.state.masses for end in ends)
    np.testing.assert_allclose(first, third, rtol=1e-10)


def test_flows_that_keep_no_axis_are_refused_by_the_name_of_the_matrix() -> None:
    start = ZonalDensity.from_function(32, np.ones_like, d=3)
    with pytest.raises(UnsupportedError, match="`value` must be diagonal"):
        flow(attentions["softmax"](I3, I3, np.diag([1.0, 2.0, 3.0])), start, [0.0, 1.0])
    layers = [attentions["softmax"](I3, I3, V) for V in (I3, np.diag([1.0, 2.0, 3.0]))]
    with pytest.raises(UnsupportedError, match="commutes with rotations"):
        flow(Layers([0.0, 0.5, 1.0], stack_trees(layers)), start, [0.0, 1.0])
    with pytest.raises(UnsupportedError, match="rows that depend on each other"):
        flow(attentions["sinkhorn"](I3, I3, I3), start, [0.0, 1.0])


@pytest.mark.parametrize("name", ["softmax", "exp", "sinkhorn"])
def test_the_mean_on_the_circle_moves_like_that_of_tokens(name: str) -> None:
    """The mean moves at the rate at which tokens at the cells' centres move it."""
    attention = attentions[name](2 * I2, I2, I2)
    start = CircleDensity.from_function(128, _three_waves)
    points = start.points()
    field = attention.field(0.0, start)
    x = np.asarray(points.tokens.x)
    v = np.asarray(field(points.tokens))
    tangent = v - x * np.sum(x * v, axis=1, keepdims=True)
    rate = np.asarray(points.weights) @ tangent
    change = start.transport(field).masses
    angles = start.angles
    by_cells = [change @ np.cos(angles), change @ np.sin(angles)]
    np.testing.assert_allclose(by_cells, rate, atol=2e-4)


def test_rows_computed_before_a_flow_are_those_of_the_sums() -> None:
    start = CircleDensity.from_function(64, _three_waves)
    for name, Q in (("softmax", 3 * I2), ("exp", 3 * I2), ("exp", 2 * I2)):
        attention = attentions[name](Q, I2, I2)
        planned = start.fix_rows(Dot(3 * I2, I2))
        exact = start.face_speeds(attention.field(0.0, start))
        speeds = planned.face_speeds(attention.field(0.0, planned))
        np.testing.assert_allclose(speeds, exact, atol=1e-13)


def test_turning_a_density_turns_its_flow() -> None:
    """No place on the circle is special, not even the face at which it closes."""
    softmax, ends = attentions["softmax"](5 * I2, I2, I2), []
    for cells in (0, 11, 32, 50):
        turned = lambda angle, shift=2 * np.pi * cells / 64: _three_waves(angle - shift)
        start = CircleDensity.from_function(64, turned)
        end = flow(softmax, start, [0.0, 1.0]).final
        ends.append(np.roll(np.asarray(end.state.masses), -cells))
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-10)


def test_heads_on_the_circle_add_their_velocities() -> None:
    start = CircleDensity.from_function(64, _three_waves)
    softmax = attentions["softmax"]
    parts = [softmax(3 * I2, I2, I2), softmax(I2, I2, 2 * I2)]
    heads = Heads(stack_trees(parts))
    end = flow(heads, start, [0.0, 0.1]).final
    first, second = (start.face_speeds(a.field(0.0, start)) for a in parts)
    both = start.face_speeds(heads.field(0.0, start))
    np.testing.assert_allclose(both, first + second, atol=1e-12)
    assert float(end.mass) == pytest.approx(1, abs=1e-12)


def test_a_sharp_density_ends_in_a_collapse() -> None:
    start = CircleDensity.from_function(64, spherical_law("vmf:1", 2))
    end = flow(attentions["softmax"](9 * I2, I2, I2), start, [0.0, 100.0])
    assert end.status == Status.COLLAPSE
    assert 1 < end.stop_time < 20


@pytest.mark.parametrize("d", [2, 3])
def test_two_starts_end_in_two_states_between_threshold_and_fold(d: int) -> None:
    equation = StateEquation("exp", ZonalKernel.from_beta(5.0, d))
    kappa = 1.05 * equation.threshold()
    state = equation.solve(equation.peak(kappa), kappa)
    peaked = float(equation.kernel.orders(np.exp(state))[0])
    ends = []
    exp = attentions["exp"](5 * np.eye(d), np.eye(d), np.eye(d))
    for text in ("harmonics:0.05", "vmf:3"):
        start = _density(64, text, d)
        end = flow(exp, start, [0.0, 8.0], noise=Isotropic(kappa)).final
        ends.append(_orders(end)[0])
    assert peaked > 0.5
    assert ends[0] < 0.05
    assert ends[1] == pytest.approx(peaked, abs=0.015)  # 4 times less for 128 cells


def test_volumes_are_integrals_of_powers_of_the_sine() -> None:
    for d in (3, 4, 33):
        edges = np.linspace(0, np.pi, 11)
        power = lambda t, d=d: np.sin(t) ** (d - 2)
        zones = [
            scipy.integrate.quad(power, a, b)[0] for a, b in itertools.pairwise(edges)
        ]
        np.testing.assert_allclose(
            zone_volumes(10, d), np.array(zones) / np.sum(zones), rtol=1e-9
        )


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="Use `CircleDensity` for d = 2"):
        ZonalDensity.from_function(32, np.ones_like, d=2)
    with pytest.raises(InvalidInputError, match="must not be negative"):
        CircleDensity.from_function(32, np.cos)
    with pytest.raises(UnknownNameError):
        spherical_law("moons", 3)
    with pytest.raises(InvalidInputError, match="numbers of the density `vmf`"):
        spherical_law("vmf:x", 3)
    start = CircleDensity.from_function(32, np.ones_like)
    with pytest.raises(InvalidInputError, match=r"stepped by `cfl\(\)`"):
        flow(attentions["softmax"](I2, I2, I2), start, [0.0, 1.0], stepping=fixed(0.1))
    keys = {"measure": "zonal", "d": 2, "t": 1.0}
    with pytest.raises(InvalidInputError, match="`measure = circle`"):
        execute(parse(keys), out=tmp_path / "a.zarr")
    for bad in ({"space": "sphere"}, {"n": 5}, {"mask": "causal"}, {"dt": 0.1}):
        with pytest.raises(InvalidInputError, match=f"leave out `{next(iter(bad))}`"):
            parse({"measure": "circle", **bad})
    with pytest.raises(InvalidInputError, match="unlike `circle` and `zonal`"):
        parse({"measure": "grid", "space": "sphere"})


@pytest.mark.parametrize("measure", ["circle", "zonal"])
def test_a_run_continues_from_a_stored_frame(measure: str, tmp_path: Path) -> None:
    keys = {"measure": measure, "beta": 4.0, "noise": 0.05, "frames": 3}
    law = {"init": "vmf:1", "cells": 32}
    execute(parse({**keys, **law, "t": 1.0}), out=tmp_path / "whole.zarr")
    execute(parse({**keys, **law, "t": 0.5}), out=tmp_path / "half.zarr")
    rest = {**keys, "t": 1.0, "at": 0.5, "source": str(tmp_path / "half.zarr")}
    execute(parse(rest), out=tmp_path / "rest.zarr")
    whole, last = (open_run(tmp_path / f"{name}.zarr") for name in ("whole", "rest"))
    # Steps end at frames, so both have the same steps up to the first one of the rest.
    np.testing.assert_allclose(last["order"][-1], whole["order"][-1], atol=1e-6)
    assert {"density", "mean", "factor", "effective_rank"} <= set(whole)
    with pytest.raises(InvalidInputError, match="leave out `cells`"):
        execute(parse({**rest, "cells": 64}), out=tmp_path / "other.zarr")
