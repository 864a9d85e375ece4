"""Observed energies of runs: recorded, resumed, reported, plotted, rejected."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandResult
from energy_reference import interaction, sinkhorn_dual
from reference import Parameters, dot, squared_distance

from meanfield import runs
from meanfield.errors import InvalidInputError, UnknownNameError, UnsupportedError
from meanfield.plotting import panels
from meanfield.spec import parse, parse_axes
from meanfield.storage import RunStore, export

Command = Callable[..., CommandResult]

A = [[-0.6, 0.2], [0.2, -0.3]]
POINTS = {"n": 6, "d": 2, "A": A, "V": 0.7, "t": 0.6, "frames": 9, "segment": 3}
GAUSSIAN = {"measure": "gaussian", "A": A, "t": 0.6, "frames": 9, "segment": 3}
WEIGHTS = [0.1, 0.5, 0.0, 1.3, 0.7, 0.2]
OBSERVED_SPECS = {
    "points": {**POINTS, "observe": ["energy", "second-moment"], "weights": WEIGHTS},
    "draws": {**POINTS, "A": "normal", "draws": 2, "observe": ["energy"]},
    "starts": {**GAUSSIAN, "starts": "random:3", "observe": ["energy", "entropy"]},
    "blow-up": {
        **GAUSSIAN,
        "A": 1.0,
        "V": [[1.0, 0.0], [0.0, 1.0]],
        "cov": 2.0,
        "observe": ["energy"],
    },
}


@pytest.mark.slow_cases("l2")
@pytest.mark.parametrize(
    "attention", ["softmax", "l2", pytest.param("sinkhorn", marks=pytest.mark.slow)]
)
def test_the_energy_of_each_frame_is_recorded(attention: str, tmp_path: Path) -> None:
    keys = {**POINTS, "frames": 17, "segment": 6}
    spec = parse({**keys, "attention": attention, "observe": "energy"})
    result = runs.execute(spec, out=tmp_path / "run")
    data = runs.dataset(tmp_path / "run")
    p = Parameters(np.array(A), np.eye(2), 0.7 * np.eye(2))
    energy = {
        "softmax": interaction(dot, p),
        "l2": interaction(squared_distance, p),
        "sinkhorn": sinkhorn_dual(p),
    }[attention]
    weights = data["weight"].values
    expected = [energy(x, weights) for x in data["x"].values]
    np.testing.assert_allclose(data["energy"], expected, rtol=1e-11)
    # Simpson's rule over pairs of steps of h = 0.0375: h^4 of a rate of order ten.
    rate, h = data["dissipation"].values, float(data["time"][1])
    integral = h / 3 * (rate[:-2:2] + 4 * rate[1:-1:2] + rate[2::2])
    np.testing.assert_allclose(integral, np.diff(expected[::2]), atol=1e-5)
    assert np.max(np.abs(integral)) > 1e-3
    final = {name: float(value) for name, value in result.observables.items()}
    names = ("energy", "dissipation", "steepest")
    assert final == {name: float(data[name][-1]) for name in names}


def stop_after_one(progress: runs.Progress) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow_cases("draws", "blow-up", "starts")
@pytest.mark.parametrize("name", list(OBSERVED_SPECS))
def test_a_resumed_run_has_observed_the_same_bytes(name: str, tmp_path: Path) -> None:
    spec = parse(OBSERVED_SPECS[name])
    whole = runs.execute(spec, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=tmp_path / "cut", report=stop_after_one)
    resumed_result = runs.resume(tmp_path / "cut")
    a, b = (runs.dataset(tmp_path / name) for name in ("whole", "cut"))
    assert {str(v) for v in a.variables} == {str(v) for v in b.variables}
    for variable in a.variables:
        assert a[variable].values.tobytes() == b[variable].values.tobytes()
    second = runs.resume(tmp_path / "whole")
    for result in (whole, resumed_result, second):
        for variable, final in result.observables.items():
            assert np.asarray(final).tobytes() == (
                np.ascontiguousarray(a[variable].values[..., -1]).tobytes()
            )
    assert set(whole.observables) == {
        str(v)
        for v in a.data_vars
        if str(v).startswith(("energy", "dissipation", "steepest"))
    }


def test_a_resumed_run_without_a_stored_rate_continues(tmp_path: Path) -> None:
    """Version 0.2.0 recorded energies and their rates, but no `steepest`."""
    old = Path(__file__).parent / "data" / "0.2.0" / "tokens"
    path = Path(shutil.copytree(old, tmp_path / "tokens"))
    assert "steepest" not in runs.dataset(path)
    result = runs.resume(path)
    data = runs.dataset(path)
    assert data.sizes["time"] == 5
    assert "steepest" not in data
    for name in ("energy", "dissipation"):
        assert np.isfinite(data[name]).all()
        assert float(result.observables[name]) == float(data[name][-1])
    assert set(result.observables) == {"energy", "dissipation"}
    assert len(panels["energy"](data).axes[1].lines) == 2


INVALID_SPECS = {
    "no energy": ({"attention": "sigmoid"}, InvalidInputError, "is not the gradient"),
    "half-steps": (
        {"attention": "sinkhorn", "iterations": 3},
        InvalidInputError,
        "iterations",
    ),
    "heads": ({"heads": 2}, InvalidInputError, "`heads`"),
    "mask": ({"mask": "causal"}, InvalidInputError, "`mask`"),
    "layers": ({"layers": [{"t": 0.0}]}, InvalidInputError, "`layers`"),
    "terms": ({"terms": [{"A": 1.0}]}, InvalidInputError, "`terms`"),
    "unknown": ({"observe": "entrpy"}, UnknownNameError, "entropy"),
    "density": ({"observe": "entropy"}, UnsupportedError, "no density"),
}


@pytest.mark.parametrize("name", list(INVALID_SPECS))
def test_unobservable_energies_are_rejected_before_the_start(
    name: str, tmp_path: Path
) -> None:
    change, error, words = INVALID_SPECS[name]
    with pytest.raises(error, match=words):
        runs.execute(
            parse({**POINTS, "observe": "energy", **change}), out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def test_energies_of_the_measure_alone_are_observed_of_any_run() -> None:
    spec = {**POINTS, "heads": 2, "mask": "causal", "observe": "second-moment"}
    result = runs.execute(parse({**spec, "layers": [{"t": 0.0}, {"t": 0.3, "V": 2.0}]}))
    mean, covariance = runs.moments_of(result.measures[0])
    expected = (np.trace(covariance) + mean @ mean) / 2
    np.testing.assert_allclose(result.observables["energy_second_moment"], expected)


@pytest.mark.slow
def test_a_rate_matches_the_layer_that_acts_at_its_time(tmp_path: Path) -> None:
    """Scores of zero: every token moves with V m, and d/dt ½ E|x|² = m·V m."""
    layers = [{"t": 0.0, "V": -1.0}, {"t": 0.25, "V": 2.0}, {"t": 0.75, "V": 0.5}]
    keys = {"n": 6, "d": 2, "A": 0.0, "mean": [1.0, 2.0], "t": 1.0, "frames": 6}
    spec = {**keys, "segment": 2, "layers": layers, "observe": "second-moment"}
    for measure in ("points", "gaussian"):
        runs.execute(parse({**spec, "measure": measure}), out=tmp_path / measure)
        data = runs.dataset(tmp_path / measure)
        mean = data["x"].mean("token") if measure == "points" else data["mean"]
        acting = [-1.0, -1.0, 2.0, 2.0, 0.5, 0.5]  # at t = 0, 0.2, … 1
        expected = acting * np.sum(mean.values**2, axis=1)
        np.testing.assert_allclose(
            data["dissipation_second_moment"], expected, rtol=1e-12
        )


def test_names_are_given_once_and_not_to_a_sweep(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="twice"):
        parse({**POINTS, "observe": ["energy", "energy"]})
    spec = parse({**GAUSSIAN, "observe": "energy"})
    with pytest.raises(InvalidInputError, match="cannot observe `energy`"):
        runs.sweep(spec, parse_axes("V=-1|1"), out=tmp_path / "s")


def test_observed_energies_are_reported_listed_and_plotted(
    cli: Command, tmp_path: Path
) -> None:
    options = ["--n", "5", "--d", "2", "--t", "0.5", "--frames", "6", "--A=-1"]
    result = cli("simulate", *options, "--observe", "energy", "--out", "run", "--json")
    assert result.code == 0
    report, data = json.loads(result.out), runs.dataset(tmp_path / "run")
    assert report["energy"] == float(data["energy"][-1])
    assert report["dissipation"] == float(data["dissipation"][-1])
    assert "dissipation" in cli("simulate", *options, "--observe", "energy").out
    assert cli("plot", "run", "--panel", "energy").code == 0
    assert (tmp_path / "run-energy.pdf").exists()
    rows = json.loads(cli("list", "energies", "--json").out)
    names = {"interaction", "interaction-l2", "sinkhorn", "entropy", "second-moment"}
    names |= {"internal", "potential", "sinkhorn-divergence", "logarithmic"}
    names |= {"keller-segel"}
    assert {row["name"] for row in rows} == names
    failure = cli("simulate", *options, "--observe", "energy", "--attention", "relu")
    assert failure.code == 2
    assert failure.err.strip().count("\n") == 0


@pytest.mark.slow
def test_observed_energies_are_exported_and_drawn(tmp_path: Path) -> None:
    path = tmp_path / "run"
    runs.execute(parse(OBSERVED_SPECS["starts"]), out=path)
    data = runs.dataset(path)
    export(data, tmp_path / "run.csv")
    header = (tmp_path / "run.csv").read_text().splitlines()[0].split(",")
    assert header[-6:] == [
        *("energy", "dissipation", "steepest"),
        *("energy_entropy", "dissipation_entropy", "steepest_entropy"),
    ]
    with np.load(export_npz(data, tmp_path)) as arrays:
        np.testing.assert_array_equal(arrays["energy"], data["energy"])
    figure = panels["energy"](data)
    assert [axes.get_ylabel() for axes in figure.axes[:2]] == [
        "energy $E$",
        "entropy $E$",
    ]
    bare = data.drop_vars([v for v in data.data_vars if "energy" in str(v)])
    with pytest.raises(InvalidInputError, match="--observe energy"):
        panels["energy"](bare)


def test_the_panel_compares_differences_with_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run"
    runs.execute(parse({**POINTS, "frames": 41, "observe": "energy"}), out=path)
    bottom = panels["energy"](runs.dataset(path)).axes[1]
    recorded_rates, differences, _ = (
        np.asarray(line.get_xydata()) for line in bottom.lines
    )
    between = np.interp(differences[:, 0], recorded_rates[:, 0], recorded_rates[:, 1])
    np.testing.assert_allclose(differences[:, 1], between, rtol=1e-3)  # h²
    assert RunStore.open(path).spec["observe"] == ["energy"]


def export_npz(data: object, folder: Path) -> Path:
    export(data, folder / "run.npz")  # pyright: ignore[reportArgumentType]
    return folder / "run.npz"
