"""Gradient flows of energies as runs: stored, resumed, plotted, reported, rejected."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import CommandResult

from meanfield import runs
from meanfield.errors import InvalidInputError, MeanfieldError, UnsupportedError
from meanfield.spec import parse, parse_axes

Command = Callable[..., CommandResult]

SHORT = {"t": 0.2, "frames": 5, "segment": 2}
A = [[0.6, 0.2], [0.2, 0.3]]
TARGET = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]
DESCENTS: dict[str, dict[str, Any]] = {
    "interaction": {"n": 6, "d": 2, "A": A, "flow_of": "interaction"},
    "sinkhorn": {"n": 6, "d": 2, "A": A, "flow_of": "sinkhorn"},
    "potential": {
        "n": 6,
        "d": 2,
        "flow_of": "potential",
        "options": {"matrix": [[2.0, 0.5], [0.5, 1.0]], "centre": [1.0, -1.0]},
    },
    "divergence": {
        "n": 6,
        "d": 2,
        "flow_of": "sinkhorn-divergence",
        "options": {"target": TARGET, "bandwidth": 0.5},
    },
    "gaussian entropy": {
        "measure": "gaussian",
        "flow_of": "entropy,potential",
        "cov": 3.0,
    },
    "gaussian internal": {
        "measure": "gaussian",
        "flow_of": "internal",
        "options": {"m": 3.0},
    },
    "gaussian divergence": {
        "measure": "gaussian",
        "flow_of": "sinkhorn-divergence",
        "options": {"mean": 1.0, "cov": 0.5},
    },
    "heat": {"measure": "grid", "flow_of": "entropy", "cells": 40, "half_width": 6},
    "porous": {
        "measure": "grid",
        "flow_of": "internal",
        "cells": 40,
        "half_width": 6,
        "options": {"m": 2.0},
    },
    "fast": {
        "measure": "grid",
        "flow_of": "internal",
        "cells": 40,
        "domain": [-4, 4],
        "options": {"m": 0.7},
    },
    "keller-segel": {
        "measure": "grid",
        "flow_of": "keller-segel",
        "d": 2,
        "cells": 24,
        "half_width": 6,
        "options": {"chi": 20.0},
    },
    "gaussian keller-segel": {
        "measure": "gaussian",
        "flow_of": "keller-segel",
        "d": 2,
        "options": {"chi": 20.0},
    },
}
# Fast diffusion has tails of a power of the distance at once, which meet the walls.
ENDINGS = {"fast": ("escape",)}
# Mostly those that compile slowly.
SLOW = ("sinkhorn", "divergence", "heat", "porous", "fast", "keller-segel")


def stop_after_one(progress: runs.Progress) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow_cases(
    "gaussian keller-segel",
    "interaction",
    "gaussian divergence",
    "gaussian entropy",
    *SLOW,
)
@pytest.mark.parametrize("name", list(DESCENTS))
def test_a_gradient_flow_decreases_its_energy_and_resumes(
    name: str, tmp_path: Path
) -> None:
    spec = parse({**SHORT, **DESCENTS[name]})
    whole = runs.execute(spec, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=tmp_path / "cut", report=stop_after_one)
    resumed_result = runs.resume(tmp_path / "cut")
    a, b = (runs.dataset(tmp_path / name) for name in ("whole", "cut"))
    for variable in a.variables:
        assert a[variable].values.tobytes() == b[variable].values.tobytes()
    E = a["energy"].values
    assert np.all(np.diff(E) < 0)
    for result in (whole, resumed_result, runs.resume(tmp_path / "whole")):
        assert result.energy_change is not None
        assert result.energy_change.is_decreasing
        assert float(result.energy_change.first) == E[0]
        assert float(result.energy_change.last) == E[-1]
        assert float(result.energy_change.rise) == np.max(np.diff(E))
    assert result.outcome.name in ENDINGS.get(name, ("finished", "unresolved"))
    assert a.attrs["title"].startswith("gradient flow of ")


@pytest.mark.parametrize("name", list(DESCENTS))
def test_a_gradient_flow_runs_in_single_precision(name: str) -> None:
    """Also options that are numbers or lists are rounded to single precision."""
    spec = parse({**SHORT, **DESCENTS[name], "precision": "single"})
    with jax.enable_x64(False):
        member = runs.member(spec)
        parts = jax.tree.leaves((member.dynamics, member.measure.coordinates))
    assert {str(part.dtype) for part in parts if hasattr(part, "dtype")} == {"float32"}


def test_an_energy_that_is_infinite_does_not_fall() -> None:
    fall = runs.EnergyChange.from_values(np.array([np.inf, np.inf]))
    assert not fall.is_decreasing
    assert fall.text.startswith("unknown")


def test_energy_decrease_records_the_largest_rise() -> None:
    fall = runs.EnergyChange.from_values(np.array([3.0, 4.0, 1.0])).add_frames(
        np.array([0.5, 0.75])
    )
    assert (fall.first, fall.last, fall.rise) == (3.0, 0.75, 1.0)
    assert not fall.is_decreasing
    assert "rose by up to 1" in fall.text


def test_a_potential_contracts_tokens_as_its_exponential(tmp_path: Path) -> None:
    keys = {**SHORT, **DESCENTS["potential"]}
    runs.execute(parse(keys), out=tmp_path / "run")
    data = runs.dataset(tmp_path / "run")
    H, c = (np.array(keys["options"][key]) for key in ("matrix", "centre"))
    values, U = np.linalg.eigh(H)
    decay = U @ np.diag(np.exp(-values * keys["t"])) @ U.T
    x = data["x"].values
    np.testing.assert_allclose(
        x[-1], c + (x[0] - c) @ decay, atol=1e-8
    )  # rtol of steps
    z = x - c
    E = np.mean(np.einsum("tni,ij,tnj->tn", z, H, z), axis=1) / 2
    np.testing.assert_allclose(data["energy"], E, rtol=1e-12)


@pytest.mark.slow
def test_an_interaction_moves_tokens_as_the_attention_that_follows_it() -> None:
    """Unnormalised attention with V = −A is the flow; repulsion by −A is none."""
    keys = {**SHORT, "n": 6, "d": 2, "A": A}
    down = runs.execute(parse({**keys, "flow_of": "interaction"}))
    V = (-np.array(A)).tolist()
    attention = runs.execute(parse({**keys, "attention": "exp", "V": V}))
    x, y = (np.asarray(r.measures[0].coordinates) for r in (down, attention))
    np.testing.assert_allclose(x, y, atol=1e-8)


def test_a_gaussian_relaxes_to_the_minimum_of_its_free_energy() -> None:
    """dS/dt = 2 − 2S for the entropy and ½|x|²: S = 1 + (S₀ − 1)e^{−2t}."""
    spec = {"measure": "gaussian", "flow_of": "entropy,second-moment", "cov": 3.0}
    result = runs.execute(parse({**spec, "t": 0.7, "frames": 3, "mean": 1.0}))
    mean, covariance = runs.moments_of(result.measures[0])
    np.testing.assert_allclose(covariance, 1 + 2 * np.exp(-1.4), rtol=1e-8)
    np.testing.assert_allclose(mean, np.exp(-0.7), rtol=1e-8)
    assert "among Gaussians" in result.note


INVALID_SPECS: dict[str, tuple[dict[str, Any], type[MeanfieldError], str]] = {
    "entropy": ({"flow_of": "entropy"}, UnsupportedError, "no entropy"),
    "internal": ({"flow_of": "internal"}, UnsupportedError, "no internal energy"),
    "target": ({"flow_of": "sinkhorn-divergence"}, UnsupportedError, "got a Gaussian"),
    "value": ({"flow_of": "interaction", "V": 2.0}, InvalidInputError, "out `V`"),
    "attention": (
        {"flow_of": "interaction", "attention": "l2"},
        InvalidInputError,
        "out `attention`",
    ),
    "scores": (
        {"flow_of": "second-moment", "A": 2.0},
        InvalidInputError,
        "`A` is for scores",
    ),
    "bandwidth": (
        {"flow_of": "second-moment", "epsilon": 2.0},
        InvalidInputError,
        "`epsilon` is for scores",
    ),
    "option": (
        {"flow_of": "internal", "measure": "grid", "options": {"n": 2}},
        InvalidInputError,
        "no option `n`",
    ),
    "unknown": ({"flow_of": "entrpy"}, MeanfieldError, "did you mean `entropy`"),
    "exponent": (
        {"flow_of": "internal", "measure": "grid", "options": {"m": 0.3}},
        InvalidInputError,
        "above d/",
    ),
    "no density": (
        {"flow_of": "entropy", "measure": "gaussian", "cov": 0.0},
        InvalidInputError,
        "infinite at the initial",
    ),
    "no slope": (
        {"flow_of": "logarithmic", "measure": "gaussian", "cov": [[1.0, 0], [0, 0]]},
        InvalidInputError,
        "or its gradient is infinite",
    ),
    "no mean of exponentials": (
        {"flow_of": "interaction", "measure": "gaussian", "A": 1.0, "cov": 2.0},
        InvalidInputError,
        "infinite at the initial",
    ),
    "logarithms of tokens": (
        {"flow_of": "logarithmic", "d": 2},
        UnsupportedError,
        "infinite logarithmic self-energy",
    ),
    "logarithms of a line": (
        {"flow_of": "keller-segel", "measure": "grid"},
        UnsupportedError,
        "d = 1",
    ),
    "shear": (
        {
            "flow_of": "entropy",
            "measure": "grid",
            "d": 2,
            "box": "affine",
            "cells": 16,
            "half_width": 4,
        },
        UnsupportedError,
        "does not shear",
    ),
    "tokens for a Gaussian": (
        {
            "flow_of": "sinkhorn-divergence",
            "measure": "gaussian",
            "options": {"target": [[0.0], [1.0]]},
        },
        MeanfieldError,
        "must be a Gaussian too; got tokens",
    ),
    "two targets": (
        {
            "flow_of": "sinkhorn-divergence",
            "options": {"target": [[0.0], [1.0]], "mean": 1.0},
        },
        InvalidInputError,
        "Leave out `mean`",
    ),
}


@pytest.mark.parametrize("name", list(INVALID_SPECS))
def test_energies_without_gradient_flow_are_rejected_before_the_start(
    name: str, tmp_path: Path
) -> None:
    keys, error, words = INVALID_SPECS[name]
    with pytest.raises(error, match=words) as error_info:
        runs.execute(parse({**SHORT, **keys}), out=tmp_path / "run")
    assert "\n" not in str(error_info.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_gradient_flows_work_from_the_command_line(
    cli: Command, tmp_path: Path
) -> None:
    np.save(tmp_path / "target.npy", np.array(TARGET))
    common = ("--n", "6", "--d", "2", "--t", "0.2", "--frames", "4")
    flow = ("--flow-of", "sinkhorn-divergence", "--options", "target=@target.npy")
    result = cli("simulate", *common, *flow, "--out", "run", "--json")
    assert result.code == 0, result.err
    report, data = json.loads(result.out), runs.dataset(tmp_path / "run")
    assert report["flow_of"] == ["sinkhorn-divergence"]
    assert report["attention"] is None
    assert report["assumed"] == {}
    assert report["energy_change"]["is_decreasing"] is True
    assert report["energy_change"]["last"] == float(data["energy"][-1])
    output = cli("simulate", *common, *flow).out
    assert "points down sinkhorn-divergence" in " ".join(output.split())
    assert "lower at each frame" in " ".join(output.split())
    for panel in ("energy", "tokens"):
        assert cli("plot", "run", "--panel", panel).code == 0
    assert cli("resume", "run").code == 0
    failure = cli("simulate", *common, "--flow-of", "entropy")
    assert failure.code == 2
    assert failure.err.strip().count("\n") == 0


@pytest.mark.slow
def test_a_sweep_varies_the_energy_and_its_options(tmp_path: Path) -> None:
    spec = parse({"measure": "gaussian", "flow_of": "internal", "t": 0.1})
    result = runs.sweep(spec, parse_axes("options.m=1|2"), out=tmp_path / "a")
    assert result.endings == {"finished": 2}
    spec = parse({"measure": "gaussian", "t": 0.1})
    axes = parse_axes("flow_of=entropy|second-moment")
    assert runs.sweep(spec, axes, out=tmp_path / "b").endings == {"finished": 2}


@pytest.mark.slow
def test_a_run_continues_along_another_energy(cli: Command, tmp_path: Path) -> None:
    options = ("--measure", "gaussian", "--t", "0.1", "--frames", "3")
    assert cli("simulate", *options, "--V=-1", "--A", "1", "--out", "first").code == 0
    more_options = ("--from", "first", "--flow-of", "interaction", "--t", "0.2")
    result = cli("simulate", *more_options, "--out", "second", "--json")
    assert result.code == 0, result.err
    continued = cli("simulate", "--from", "second", "--attention", "l2", "--t", "0.3")
    assert continued.code == 0, continued.err
