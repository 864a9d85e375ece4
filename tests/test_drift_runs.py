"""The drift of a spec: inline, from files, by layer; in every command."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import CommandResult
from helpers import assert_close
from reference import Parameters, velocity

from meanfield import runs
from meanfield.errors import InvalidInputError, MeanfieldError
from meanfield.measures import Points
from meanfield.plotting.reading.description import description
from meanfield.runs import sides
from meanfield.runs.records._inputs import Inputs
from meanfield.spec import parse, parse_axes, read_toml

Command = Callable[..., CommandResult]
M = np.array([[-0.6, 0.9], [-0.2, 0.4]])
B = np.array([0.5, -1.0])
UNIT = Parameters(np.eye(2), np.eye(2), np.eye(2))


def perceptron(rng: np.random.Generator, width: int) -> dict[str, np.ndarray]:
    shapes = {"W1": (width, 2), "b1": (width,), "W2": (2, width), "b2": (2,)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def perceptron_output(p: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ p["W1"].T + p["b1"], 0) @ p["W2"].T + p["b2"]


def as_lists(p: dict[str, np.ndarray]) -> dict:
    return {name: array.tolist() for name, array in p.items()}


def drift_velocities(values: dict, t: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Initial tokens, and their velocities beyond those with V = 1."""
    setup = runs.member(parse({"n": 5, "d": 2, "t": 4.0, **values}))
    assert isinstance(setup.measure, Points)
    mu = setup.measure
    v = jax.jit(lambda dynamics, t: dynamics.field(t, mu)(mu.tokens))(setup.dynamics, t)
    x = np.asarray(mu.tokens.x)
    return x, v - velocity("softmax", UNIT, x, x, np.ones(5))


def test_a_drift_is_affine_or_a_perceptron(rng: np.random.Generator):
    x, added_velocity = drift_velocities({"drift": {"M": M.tolist(), "b": B.tolist()}})
    assert_close(added_velocity, x @ M.T + B, ulps=1000)
    x, added_velocity = drift_velocities({"drift": {"M": -0.5, "b": 2}})
    assert_close(added_velocity, 2 - 0.5 * x, ulps=1000)
    p = perceptron(rng, 3)
    x, added_velocity = drift_velocities({"drift": as_lists(p)})
    assert_close(added_velocity, perceptron_output(p, x), ulps=1000)
    x, added_velocity = drift_velocities({"drift": {"W1": -1, "W2": 2}})
    assert_close(added_velocity, 2 * np.maximum(-x, 0), ulps=1000)


def test_layers_have_their_own_drifts_of_either_kind(rng: np.random.Generator):
    """That of the run, a perceptron, a wider one, and none."""
    p, wide = perceptron(rng, 2), perceptron(rng, 4)
    layers = [
        {"t": 0.0},
        {"t": 1.0, "drift": as_lists(p)},
        {"t": 2.0, "drift": as_lists(wide)},
        {"t": 3.0, "drift": {"M": 0}},
    ]
    spec = {"drift": {"M": M.tolist()}, "layers": layers}
    for t, expected in (
        (0.5, lambda x: x @ M.T),
        (1.5, lambda x: perceptron_output(p, x)),
        (2.5, lambda x: perceptron_output(wide, x)),
        (3.5, lambda x: 0 * x),
    ):
        x, added_velocity = drift_velocities(spec, t)
        assert_close(added_velocity, expected(x), ulps=1000, scale=1.0)
    nodes = [{"t": 0.0, "drift": {"M": 1}}, {"t": 2.0, "drift": {"M": 3, "b": 4}}]
    x, added_velocity = drift_velocities(
        {"layers": nodes, "depth": "interpolated"}, 1.0
    )
    assert_close(added_velocity, 2 * x + 2, ulps=1000)


def test_layers_share_the_drift_of_the_run():
    layers = [{"t": 0.0}, {"t": 1.0, "A": 1}]
    x, added_velocity = drift_velocities(
        {"drift": {"M": M.tolist()}, "layers": layers}, 1.5
    )
    assert_close(added_velocity, x @ M.T, ulps=1000)


@pytest.mark.parametrize(
    ("drift", "words"),
    [
        ({"N": 1}, "`drift` has the unknown key `N`: give Mx + b (`M`, `b`) or W2"),
        ({"W1": 1}, "`drift` is a perceptron, which needs `W2`"),
        ({"W2": 1, "b1": 0}, "`drift` is a perceptron, which needs `W1`"),
        ({"M": 1, "W1": 1, "W2": 1}, "`drift` must be either Mx + b"),
        ({"M": [[1, 2]]}, "`drift.M` must be a 2 × 2 matrix"),
        ({"M": [[1, 2], [3]]}, "`drift.M` has rows of different lengths"),
        ({"M": ["a"]}, "`drift.M` must be finite: a number"),
        ({"M": float("nan")}, "`drift.M` must be finite: a number"),
        ({"M": "m.npy"}, "`drift.M` must be a number, a list of rows, @FILE.npy"),
        ({"M": "@none.npy"}, "There is no file `none.npy`"),
        ({"b": [1, 2, 3]}, "imply different dimensions"),
        ({"W1": [[1, 2]], "W2": [[1, 1]]}, "`drift.W2` must be a matrix with 1 col"),
        ({"W1": [[1, 2]], "W2": [[1]]}, "`drift.W2` must be a 2 × 1 matrix"),
        ({"W1": [[1, 2]], "W2": 1, "b1": [1, 2]}, "`drift.b1` must hold 1 numbers"),
        ({}, "`drift`"),
    ],
)
def test_invalid_drifts_are_rejected_in_one_line(drift: dict, words: str):
    with pytest.raises(MeanfieldError) as error_info:
        runs.member(parse({"n": 3, "d": 2, "drift": drift}))
    assert words in str(error_info.value)
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"terms": [{"drift": {"M": 1}}]}, "there is no key `terms.0.drift`"),
        ({"model": "minilm", "text": "a", "drift": {"M": 1}}, "leave out `drift`"),
        (
            {"drift": {"M": 1}, "layers": [{"t": 0.0, "drift": {"M": 2}}]},
            "all `layers` have their own `drift`",
        ),
        ({"drift": {"M": 1}, "observe": "energy"}, "plus a `drift`"),
    ],
)
def test_a_drift_belongs_to_a_run_and_its_layers(values: dict, words: str):
    with pytest.raises(InvalidInputError, match=re.escape(words)):
        runs.execute(parse({"n": 3, "t": 0.1, **values}))


def test_a_drift_fixes_the_dimension():
    spec = parse({"n": 3, "drift": {"W1": np.ones((4, 3)).tolist(), "W2": 1}})
    assert runs.member(spec).measure.dimension == 3
    assert runs.member(parse({"n": 3, "drift": {"b": [1, 2]}})).measure.dimension == 2


def test_drift_files_are_stored_with_the_run(tmp_path: Path):
    """From TOML, relative to it; a killed run resumes to the same bytes."""
    np.save(tmp_path / "m.npy", M)
    np.savetxt(tmp_path / "b.csv", B, delimiter=",")
    (tmp_path / "run.toml").write_text(
        "n = 6\nt = 0.4\nframes = 5\nsegment = 2\nA = -1\n"
        '[drift]\nM = "@m.npy"\nb = "@b.csv"\n'
    )
    spec = parse(read_toml(tmp_path / "run.toml"))
    names = {Path(name).name for name in Inputs.from_spec(spec).start}
    assert names == {"m.npy", "b.csv"}
    runs.execute(spec, out=tmp_path / "whole")

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=tmp_path / "run", report=stop)
    (tmp_path / "m.npy").unlink()
    assert runs.resume(tmp_path / "run").outcome.name == "finished"
    data, whole = (runs.dataset(tmp_path / name) for name in ("run", "whole"))
    np.testing.assert_array_equal(data["x"], whole["x"])
    assert "with a drift" in data.attrs["title"]
    assert "+ drift: M = [[−0.6, 0.9], [−0.2, 0.4]], b = [" in description(data)
    assert data.attrs["spec"]["drift"]["M"] == M.tolist()


def test_sweeps_vary_a_part_of_a_drift(tmp_path: Path):
    """σ' = 2 (−σ² + mσ) rests at m, and never blows up; b does not enter it."""
    spec = parse({"measure": "gaussian", "A": -1, "t": 30.0, "drift": {"b": 0}})
    out = tmp_path / "sweep"
    runs.sweep(spec, parse_axes("drift.M=0.5:2:4"), out=out)
    data = runs.sweep_dataset(out)
    np.testing.assert_allclose(data["trace"], [0.5, 1.0, 1.5, 2.0], rtol=1e-7)
    assert "drift.M" not in description(data)


@pytest.mark.slow
def test_the_command_line_takes_a_drift(cli: Command, tmp_path: Path):
    """σ' = 2(σ² − 3σ) from 2, below the threshold 3; without the drift it blows up."""
    options = "--measure=gaussian --A=1 --t=1 --frames=3 --json"
    base = ("simulate", *options.split())
    assert json.loads(cli(*base, "--cov=2").out)["ending"] == "blow-up"
    result = cli(*base, "--cov=2", "--drift", "M=-3,b=1", "--out", "run")
    assert result.code == 0, result.err
    variance = json.loads(result.out)["covariance"][0][0]
    np.testing.assert_allclose(variance, 6 / (2 + np.exp(6.0)), rtol=1e-8)
    above = json.loads(cli(*base, "--drift", "M=-3", "--cov", "4").out)
    np.testing.assert_allclose(above["t_star"], np.log(4) / 6, rtol=1e-7)
    assert cli("plot", "run").code == 0
    failure = cli(*base, "--drift", "W1=1,W2=1")
    assert failure.code == 2
    assert "Use points, a grid, `projected`, or an affine drift" in failure.err
    projected_result = cli(*base, "--drift", "W1=1,W2=1", "--projected", "--dry-run")
    assert projected_result.code == 0
    assert cli(*base, "--drift", "W1=1").err.count("\n") == 1


def test_comparisons_take_a_drift():
    """A Gaussian with a perceptron is projected, with a note."""
    for drift, is_exact in (({"M": -1}, True), ({"W1": 1, "W2": -1}, False)):
        spec = parse({"n": 20, "A": -1, "t": 0.1, "frames": 3, "drift": drift})
        tokens, gaussian = sides(spec, ("points", "gaussian")).members
        assert tokens.is_exact
        assert (gaussian.is_exact, gaussian.spec.projected) == (is_exact, not is_exact)
