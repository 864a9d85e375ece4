"""Runs with a context: a file, a run, a law; and invalid contexts."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandResult
from helpers import assert_close
from reference import Parameters, Sides, velocity_across
from scipy.linalg import expm

from meanfield import runs
from meanfield.dynamics import Cross, StaticContext
from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    MeanfieldError,
    ResourceError,
)
from meanfield.measures import Gaussian, Grid, Points
from meanfield.runs import Setup, member
from meanfield.runs.setup import _memory
from meanfield.runs.setup._context import Frames
from meanfield.spec import parse, parse_axes, resolve_paths
from meanfield.storage import RunStore

Run = Callable[..., CommandResult]
EYE = np.eye(2)
ENCODER = {"n": 4, "d": 2, "A": -1.0, "t": 0.4, "frames": 5}
TIMES = {"t": 0.4, "frames": 5, "segment": 2}
Q, K = [[0.4, -0.2], [0.1, 0.9]], [[1.0, 0.3], [-0.5, 0.2]]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "encoder.zarr"
    runs.execute(parse({**ENCODER, "weights": [0.1, 0.2, 0.3, 0.4]}), out=path)
    return path


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    np.save(tmp_path / "c.npy", np.random.default_rng(3).normal(size=(6, 2)))
    return tmp_path / "c.npy"


def even(x: np.ndarray) -> np.ndarray:
    return np.full(len(x), 1 / len(x))


def velocity_of(spec: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Initial states, their weights, and their velocities."""
    setup = member(parse(spec))
    mu = setup.measure
    assert isinstance(mu, Points)
    v = setup.dynamics.field(0.0, mu)(mu.tokens)
    return np.asarray(mu.tokens.x), np.asarray(mu.weights), np.asarray(v)


def frames_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = runs.dataset(path)
    return data["x"].values, data["weight"].values


@pytest.mark.slow_cases("--1")
@pytest.mark.parametrize(("when", "frame"), [("", -1), (":0.2", 2), (":moving", 0)])
def test_a_context_run_is_read_at_its_end_or_a_given_time(
    when: str, frame: int, encoder: Path
):
    """With its weights, which differ from those of the queries."""
    spec = {"attention": "sinkhorn", "Q": Q, "K": K, "n": 3, "t": 0.3}
    x, u, v = velocity_of({**spec, "context": f"{encoder}{when}"})
    frames, w = frames_of(encoder)
    p = Parameters(np.array(Q), np.array(K), EYE)
    sides = Sides(x, u, frames[frame], w)
    np.testing.assert_allclose(v, velocity_across("sinkhorn", p, x, sides), atol=1e-9)


def test_a_context_is_read_once_for_all_draws(
    encoder: Path, monkeypatch: pytest.MonkeyPatch
):
    """And for all terms that use it; each draw has its own matrices."""
    paths, read = [], Frames.__init__
    monkeypatch.setattr(
        Frames,
        "__init__",
        lambda frames, path: (paths.append(path), read(frames, path))[1],
    )
    look = {"context": f"{encoder}:moving", "A": "normal"}
    spec = parse({**TIMES, "n": 3, "draws": 3, **look, "terms": [look]})
    setups = Setup(spec).members()
    assert len(paths) == 1
    mu = setups[0].measure
    assert isinstance(mu, Points)
    first, second, _ = (m.dynamics.field(0.0, mu)(mu.tokens) for m in setups)
    assert not np.allclose(first, second)


def test_a_layer_of_a_decoder_adds_self_and_cross_attention(tokens: Path):
    """The second has heads and a mask inside, and its own context in a term."""
    term = {"context": f"@{tokens}", "Q": Q, "K": K, "heads": 2, "mask": "causal"}
    x, u, v = velocity_of({"A": -1.0, "n": 3, "terms": [term]})
    y, q, k = np.load(tokens), np.array(Q), np.array(K)
    expected = velocity_across(
        "softmax", Parameters(-EYE, EYE, EYE), x, Sides(x, u, x, u)
    )
    for head in (0, 1):
        rows, V = slice(head, head + 1), np.diag(EYE[head])
        p = Parameters(q[rows], k[rows], V)
        for i in range(3):  # sees the keys up to its share of the sequence
            visible = y[: 2 * (i + 1)]
            sides = Sides(x, u, visible, even(visible))
            expected[i] += velocity_across("softmax", p, x[i : i + 1], sides)[0]
    assert_close(v, expected, ulps=1000, scale=1.0)


def test_layers_share_one_context(tokens: Path):
    layers: list[dict] = [{"t": 0.0, "A": -1.0}, {"t": 0.1, "A": 1.0}]
    setup = member(parse({"n": 3, "context": f"@{tokens}", "layers": layers}))
    assert isinstance(setup.dynamics, Cross)
    assert isinstance(setup.dynamics.context, StaticContext)  # and no layer has another
    for law in ({"context": f"@{tokens}"}, {"context": "gaussian", "context_mean": 1}):
        layers[1]["context"] = f"@{tokens}" if "context_mean" in law else "gaussian"
        with pytest.raises(InvalidInputError, match="must have the same `context`"):
            member(parse({"n": 3, **law, "layers": layers}))


@pytest.mark.parametrize("key", [{"context": "gaussian"}, {"options": "tau=1"}])
def test_run_keys_that_every_layer_overrides_are_rejected(key: dict):
    (name,) = key
    layers = [{"t": t, **key} for t in (0.0, 0.1)]
    with pytest.raises(
        InvalidInputError, match=f"all `layers` have their own `{name}`"
    ):
        parse({"attention": "esp", "layers": layers, **key})
    parse({"attention": "esp", "layers": layers})


def stop_after_one(_: runs.Progress) -> None:
    raise KeyboardInterrupt


def stored_bytes(path: Path) -> dict[str, bytes]:
    data = runs.dataset(path)
    return {str(name): data[name].values.tobytes() for name in data.variables}


def test_a_resumed_run_has_the_same_context_or_is_rejected(tokens: Path, encoder: Path):
    """A file and a moving run: the same bytes, and no other tokens."""
    folder = tokens.parent
    term = {"context": f"{encoder}:moving", "V": 0.5}
    spec = parse({"n": 3, "A": -1.0, "context": f"@{tokens}", "terms": [term], **TIMES})
    runs.execute(spec, out=folder / "whole")
    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=folder / "cut", report=stop_after_one)
    moves = RunStore.open(folder / "cut").attrs["inputs"]["flow"]
    assert set(moves) == {str(tokens), str(encoder)}
    bytes_before = tokens.read_bytes()
    np.save(tokens, np.zeros((6, 2)))
    with pytest.raises(InputFileError, match=r"c.npy` has changed since"):
        runs.resume(folder / "cut")
    tokens.unlink()
    with pytest.raises(InputFileError, match=r"c.npy` cannot be read"):
        runs.resume(folder / "cut")
    tokens.write_bytes(bytes_before)
    runs.resume(folder / "cut")
    assert stored_bytes(folder / "cut") == stored_bytes(folder / "whole")
    assert (
        runs.dataset(folder / "cut")
        .attrs["title"]
        .startswith("softmax attention to a context + 1 more")
    )


INVALID_SPECS = {
    "a mean alone": ({"context_mean": 1.0}, "`context_mean` needs `context"),
    "a covariance of a run": (
        {"context": "RUN", "context_cov": 2.0},
        "`context_cov` needs `context",
    ),
    "a file without @": ({"context": "c.npy"}, "must name a file as `@c.npy`"),
    "no run": ({"context": "nowhere"}, "There is no run at `nowhere`"),
    "no such frame": ({"context": "RUN:0.27"}, "no frame at t = 0.27"),
    "a longer run": ({"context": "RUN:moving", "t": 3.0}, "shorten the run"),
    "another dimension": ({"context": "RUN", "d": 3}, "imply different dimensions"),
    "a covariance of another size": (
        {"context": "gaussian", "context_cov": [[1.0]], "d": 2},
        "columns of context_cov: 1",
    ),
    "a model": (
        {"context": "gaussian", "model": "minilm", "text": "a"},
        "leave out `context`",
    ),
    "an energy": (
        {"context": "gaussian", "observe": "energy"},
        "this run has `context`",
    ),
    "a plan of tokens with a Gaussian": (
        {"context": "gaussian", "attention": "esp"},
        "weights of `esp` attention depend on",
    ),
    "a Gaussian before tokens": (
        {"context": "RUN", "measure": "gaussian"},
        "attends to tokens does not stay Gaussian",
    ),
}


@pytest.mark.parametrize("name", INVALID_SPECS)
def test_incompatible_context_keys_are_rejected(name: str, encoder: Path):
    values, message = INVALID_SPECS[name]
    context = str(values.get("context", "gaussian")).replace("RUN", str(encoder))
    values = {**values, **({"context": context} if "context" in values else {})}
    with pytest.raises(MeanfieldError, match=message):
        runs.start(parse({"n": 3, **values}))


@pytest.mark.parametrize("heads", [1, 2])
def test_context_mean_is_a_vector_for_any_heads(heads: int):
    """It also fixes the dimension."""
    of_heads = {"heads": heads, "A": [1.0] * heads, "V": [1.0] * heads}
    law = {"context": "gaussian", "context_mean": [1.0, -2.0]}
    setup = member(parse({"measure": "gaussian", **of_heads, **law}))
    assert isinstance(setup.dynamics, Cross)
    assert isinstance(setup.dynamics.context, StaticContext)
    context = setup.dynamics.context.measure
    assert isinstance(setup.measure, Gaussian)
    assert isinstance(context, Gaussian)
    assert setup.measure.mean.shape == (2,)
    np.testing.assert_array_equal(context.mean, [1.0, -2.0])


def test_a_context_must_have_the_right_dimension(
    tokens: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch
):
    """Dense sums over pairs with all keys; interpolated frames."""
    monkeypatch.setattr(_memory, "physical_memory", lambda: 4_000)
    spec = {"n": 1, "d": 2, "frames": 2, "t": 0.3}
    runs.start(parse({**spec, "context": f"{encoder}:0.2"}))
    with pytest.raises(ResourceError, match="A moving context needs about"):
        runs.start(parse({**spec, "context": f"{encoder}:moving"}))
    np.save(tokens, np.ones((200, 2)))
    runs.start(parse({**spec, "context": f"@{tokens}"}))
    with pytest.raises(ResourceError, match="sums over 200 keys of 1 tokens"):
        runs.start(parse({**spec, "context": f"@{tokens}", "reduction": "dense"}))
    inner = np.ones((200, 2)).tolist()
    drift = {"W1": inner, "W2": np.transpose(inner).tolist()}
    with pytest.raises(ResourceError, match="1 tokens in dimension 2 need"):
        runs.start(parse({**spec, "drift": drift}))


def test_context_files_are_resolved_from_the_spec(tmp_path: Path):
    values = {
        "context": "enc.zarr:moving",
        "terms": [{"context": "@c.npy"}, {"context": "gaussian"}],
    }
    actual = resolve_paths(values, tmp_path)
    assert actual["context"] == f"{tmp_path}/enc.zarr:moving"
    assert actual["terms"][0]["context"] == f"@{tmp_path}/c.npy"
    assert actual["terms"][1]["context"] == "gaussian"


def test_a_sweep_varies_the_law_of_a_context(tmp_path: Path):
    r"""$\Sigma(t) = e^{2tc}\Sigma$ for keys of covariance $c$ and scores $x\cdot y$."""
    spec = {"measure": "gaussian", "context": "gaussian", "t": 0.3, "rtol": 1e-8}
    axes = parse_axes("context_cov=0.5|1.5")
    runs.sweep(parse(spec), axes, out=tmp_path / "s")
    traces = runs.sweep_dataset(tmp_path / "s")["trace"].values
    np.testing.assert_allclose(traces, np.exp([0.3, 0.9]), rtol=1e-6)


@pytest.mark.slow
def test_a_comparison_has_one_context_for_all(cli: Run):
    """Tokens and their Gaussian, with a law as context, stay equal."""
    run = cli("compare", "--measures", "points,gaussian", "--context", "gaussian",
              "--context-cov", "[[0.5,0.2],[0.2,0.4]]", "--context-mean", "1",
              "--n", "2000", "--init", "antithetic", "--t", "0.5", "--frames", "3",
              "--json")  # fmt: skip
    assert run.code == 0, run.err
    pair = json.loads(run.out)["pairs"][0]
    assert max(pair["mean_gap"]) < 1e-6


@pytest.mark.slow  # its error bars are other grids
def test_a_density_with_a_gaussian_context_moves_linearly():
    r"""$x' = \Sigma_YAx + \alpha_Y$ for softmax: the moments of its cells."""
    spec = {"measure": "grid", "cells": 64, "A": -1.0, "t": 0.4, "context": "gaussian"}
    result = runs.execute(parse({**spec, "context_mean": 0.5, "frames": 2}))
    flow_matrix = expm(0.4 * np.array([[-1.0, 0.5], [0.0, 0.0]]))
    density = result.measures[0]
    assert isinstance(density, Grid)
    mean, covariance = density.mean, density.covariance
    np.testing.assert_allclose(mean, flow_matrix[0, 1], rtol=1e-3)
    np.testing.assert_allclose(covariance, flow_matrix[0, 0] ** 2, rtol=2e-3)
