"""Trajectories as sequences of measures, as datasets, and in plots."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import meanfield
from meanfield import Gaussian, Points, Trajectory, attentions, flow, runs
from meanfield.dynamics import stack_trees
from meanfield.errors import FrameIndexError, InvalidInputError, WrongKindError
from meanfield.plotting import panels
from meanfield.spec import parse

TIMES = np.linspace(0.0, 1.0, 5)
VARIANCES = 2 / (1 + 4 * TIMES)  # from 2, for A = -1 and V = 1


@pytest.fixture(scope="module")
def run() -> Trajectory[Gaussian]:
    return flow(*line(-1.0), TIMES)


@pytest.fixture(scope="module")
def blow_up_trajectory() -> Trajectory[Gaussian]:
    """From 2, for A = 1, 2/(1 - 4t): infinite at 1/4, after two frames."""
    return flow(*line(1.0), TIMES / 2)


@pytest.fixture(scope="module")
def family() -> Trajectory[Gaussian]:
    """An ensemble with initial variances 1 and 2."""
    attention, _ = line(-1.0)
    members = [Gaussian.from_moments([0.0], [[start]]) for start in (1.0, 2.0)]
    starts = stack_trees(members)
    return jax.vmap(lambda start: flow(attention, start, TIMES))(starts)


def line(A: float) -> tuple[Any, Gaussian]:
    identity = jnp.eye(1)
    attention = attentions["softmax"](A * identity, identity, identity)
    return attention, Gaussian.from_moments([0.0], [[2.0]])


def variances(measures: Any) -> list[float]:
    return [float(mu.covariance[0, 0]) for mu in measures]


def test_a_trajectory_is_the_sequence_of_its_measures(run: Trajectory[Gaussian]):
    assert len(run) == 5
    np.testing.assert_allclose(variances(run), VARIANCES, rtol=1e-8)
    np.testing.assert_allclose(variances([run[3], run[-1]]), VARIANCES[[3, 4]], 1e-8)
    np.testing.assert_allclose(run.covariance[:, 0, 0], VARIANCES, rtol=1e-8)
    assert run.mean.shape == (5, 1)
    np.testing.assert_array_equal(run.mean[3], run[3].mean)
    for index in (5, -6):
        with pytest.raises(FrameIndexError, match="has 5"):
            run[index]


@pytest.mark.parametrize(
    "frames",
    [slice(1, 3), slice(None, None, 2), slice(-2, None), slice(4, 1), slice(0, 99)],
)
def test_a_slice_is_the_trajectory_of_its_frames(
    run: Trajectory[Gaussian], frames: slice
):
    part = run[frames]
    np.testing.assert_array_equal(part.ts, TIMES[frames])
    np.testing.assert_allclose(variances(part), VARIANCES[frames], rtol=1e-8)
    assert int(part.n_saved) == len(part) == len(TIMES[frames])
    np.testing.assert_array_equal(part.final.covariance, run.final.covariance)


@pytest.mark.parametrize("frames", [slice(None, None, -1), slice(0.5), slice("a", 2)])
def test_a_slice_of_other_kinds_is_rejected(run: Trajectory[Gaussian], frames: slice):
    with pytest.raises(WrongKindError, match="whole numbers, with a positive step"):
        run[frames]


def test_real_frames_of_a_slice_are_counted(blow_up_trajectory: Trajectory[Gaussian]):
    assert blow_up_trajectory.status.ending == "blow-up"
    assert int(blow_up_trajectory.n_saved) == 2
    counts = [int(blow_up_trajectory[a:b].n_saved) for a, b in ((0, 1), (1, 4), (3, 5))]
    assert counts == [1, 1, 0]


def test_an_ensemble_trajectory_is_indexed_by_member(family: Trajectory[Gaussian]):
    for i, start in enumerate((1.0, 2.0)):
        expected = start / (1 + 2 * start * TIMES)
        np.testing.assert_allclose(variances(family.member(i)), expected, rtol=1e-8)
    for act in (len, list, lambda r: r[0], lambda r: r.covariance):
        with pytest.raises(WrongKindError, match="ensemble of 2 flows"):
            act(family)
    with pytest.raises(FrameIndexError, match="no flow 2: this ensemble has 2 flows"):
        family.member(2)
    with pytest.raises(WrongKindError, match="one flow"):
        family.member(0).member(0)


def test_an_ensemble_is_a_dataset_of_runs(family: Trajectory[Gaussian]):
    data = family.to_xarray()
    assert data["factor"].dims == ("run", "time", "coord", "rank")
    assert data["status"].dims == data["t_star"].dims == ("run",)
    expected = [s / (1 + 2 * s * TIMES) for s in (1.0, 2.0)]
    np.testing.assert_allclose(data["factor"][..., 0, 0] ** 2, expected, rtol=1e-8)


CASES = {
    "tokens": {"A": -1.0, "n": 4, "d": 2},
    "a Gaussian": {"measure": "gaussian", "A": -1.0, "cov": 2.0},
    "a blow-up": {"measure": "gaussian", "A": 1.0, "cov": 2.0},
    "single precision": {"measure": "gaussian", "A": -1.0, "precision": "single"},
    "a density": {"measure": "grid", "A": -1.0, "cells": 64, "t": 0.1},
    "a plane density": {"measure": "grid", "A": -1.0, "d": 2, "cells": 32, "t": 0.01},
}
LONG = {"a density", "a plane density", "single precision"}


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.slow] if c in LONG else []) for c in CASES],
)
def test_the_dataset_matches_the_stored_run(case: str, tmp_path: Path):
    spec = parse({"t": 1.0, "frames": 5, **CASES[case]})
    runs.execute(spec, out=tmp_path / "run")
    stored_dataset = meanfield.open(tmp_path / "run")
    start = runs.start(spec)
    member = start.members[0]
    trajectory = flow(
        member.dynamics, member.measure, start.ts, stepping=start.stepping
    ).to_xarray()
    assert trajectory.sizes == stored_dataset.sizes
    for name, variable in stored_dataset.variables.items():
        assert trajectory[name].dims == variable.dims, name
        assert trajectory[name].dtype == variable.dtype, name
        np.testing.assert_allclose(trajectory[name], variable, rtol=1e-4, atol=1e-6)
    assert set(trajectory.variables) == set(stored_dataset.variables)
    for name in ("kind", "dtype", "versions", "device"):
        assert trajectory.attrs[name] == stored_dataset.attrs[name]
    flags = [d["status"].attrs["flag_meanings"] for d in (trajectory, stored_dataset)]
    assert flags[0] == flags[1]


def test_a_flow_that_ended_early_ends_with_its_last_state(
    blow_up_trajectory: Trajectory[Gaussian],
):
    data = blow_up_trajectory.to_xarray()
    np.testing.assert_array_equal(
        data["time"], [*TIMES[:2] / 2, blow_up_trajectory.stop_time]
    )
    last = data["factor"].values[-1]
    np.testing.assert_array_equal(last, blow_up_trajectory.final.factor)
    assert "finite time" in data["status"].attrs["reason"]
    assert float(data["t_star"]) == pytest.approx(0.25, rel=1e-6)


def test_datasets_are_rejected_inside_jit(run: Trajectory[Gaussian]):
    with pytest.raises(InvalidInputError, match="on the result"):
        jax.jit(lambda r: r.to_xarray())(run)


def test_panels_draw_a_trajectory(run: Trajectory[Gaussian]):
    assert dir(run.plot) == sorted(panels)
    assert "cone" in repr(run.plot)
    figure = run.plot.spectrum()
    assert figure._repr_png_().startswith(b"\x89PNG")
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), VARIANCES, rtol=1e-8)
    with pytest.raises(AttributeError, match="did you mean `tokens`"):
        run.plot.token()
    assert not hasattr(run.plot, "_repr_html_")


def test_panels_of_a_trajectory_accept_styles(run: Trajectory[Gaussian]):
    assert run.plot.spectrum(title="said", width=3.4).get_suptitle() == "said"
    inches = run.plot.spectrum(width="254mm").get_figwidth()
    assert inches == pytest.approx(10.0)
    with pytest.raises(InvalidInputError, match="did you mean `width`"):
        run.plot.spectrum(widht=3.4)
    with pytest.raises(InvalidInputError, match="`colour` does nothing"):
        run.plot.spectrum(colour="norm")


def test_plotting_tokens_needs_no_positions():
    attention, _ = line(-1.0)
    tokens = Points.uniform(np.array([[1.0], [-1.0], [0.5]]))
    data = flow(attention, tokens, TIMES).to_xarray()
    assert isinstance(data, xr.Dataset)
    assert set(data.data_vars) >= {"x", "weight"}
    assert "position" not in data
