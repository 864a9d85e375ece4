"""A network's forward pass as a run, against NumPy; records of model runs."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import report_store
from bert_reference import TEXT, Reference, write
from conftest import CommandResult
from numpy.random import Generator
from scipy.special import softmax

import meanfield
from meanfield import models, runs
from meanfield.errors import InvalidInputError, StoreError
from meanfield.measures import Points
from meanfield.spec import parse, parse_axes
from meanfield.storage import RunStore, export

Command = Callable[..., CommandResult]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "tiny")


@pytest.fixture
def keys(folder: Path) -> dict[str, object]:
    return {"model": str(folder), "text": TEXT, "forward": True}


def states_of(folder: Path) -> np.ndarray:
    ids = models.load(folder).encode(TEXT, limit=16).ids
    return np.stack(Reference(folder).hidden_states(ids))


def last_of(result: runs.Result) -> np.ndarray:
    (measure,) = result.measures
    assert isinstance(measure, Points)
    return np.asarray(measure.tokens.x)


def test_frames_match_the_networks_hidden_states(
    folder: Path, keys: dict, tmp_path: Path
) -> None:
    path = tmp_path / "run.zarr"
    result = runs.execute(parse(keys), out=path)
    RunStore.open(path).check()
    data, expected = meanfield.open(path), states_of(folder)
    assert result.outcome.name == "finished"
    np.testing.assert_array_equal(data["time"], [0, 1, 2])
    np.testing.assert_allclose(data["x"], expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(last_of(result), data["x"][-1])
    single = runs.execute(parse({**keys, "precision": "single"}))
    np.testing.assert_array_equal(last_of(single), np.float32(data["x"][-1]))


def test_a_finished_run_is_reported_and_an_interrupted_one_recomputed(
    folder: Path, keys: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, spec = tmp_path / "run.zarr", parse(keys)

    def cut(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("meanfield.runs.execution._segment.forward_pass", cut)
        with pytest.raises(KeyboardInterrupt):
            runs.execute(spec, out=path)
    assert RunStore.open(path).frames == 0
    for _ in range(2):
        assert runs.resume(path).outcome.name == "finished"
        x = meanfield.open(path)["x"]
        np.testing.assert_allclose(x, states_of(folder), rtol=1e-11, atol=1e-12)


def test_attention_matches_the_network_and_omits_the_last_state(
    folder: Path, keys: dict, tmp_path: Path
) -> None:
    path = tmp_path / "run.zarr"
    runs.execute(parse(keys), out=path)
    data = runs.add_attention(path, runs.dataset(path), [1.0, 2.0])
    np.testing.assert_array_equal(data["snapshot"], [1])
    expected = softmax(Reference(folder).scores(1, states_of(folder)[1]), axis=-1)
    np.testing.assert_allclose(data["attention"][0], expected, rtol=1e-9)


def test_a_flow_ending_at_a_layer_edge_shows_the_layer_before(
    folder: Path, keys: dict, tmp_path: Path
) -> None:
    """The maps of its last frame, and their titles."""
    path = tmp_path / "run.zarr"
    flow = {"model": keys["model"], "text": TEXT, "t": 1.0, "frames": 2, "rtol": 1e-2}
    runs.execute(parse(flow), out=path)
    data = runs.dataset(path)
    np.testing.assert_array_equal(data["layer"], [0, 0])
    maps = runs.add_attention(path, data, [1.0])["attention"]
    expected = softmax(Reference(folder).scores(0, data["x"].values[-1]), axis=-1)
    np.testing.assert_allclose(maps[0], expected, rtol=1e-9)


def test_a_flow_starts_from_the_state_between_two_layers(
    folder: Path, keys: dict, tmp_path: Path, cli: Command
) -> None:
    assert cli("simulate", "--model", folder, "--text", TEXT, "--forward",
               "--out", "own.zarr").code == 0  # fmt: skip
    result = cli("simulate", "--from", "own.zarr", "--at", "1", "--t", "1.01",
               "--frames", "2", "--rtol", "1e-2", "--out", "on.zarr")  # fmt: skip
    assert result.code == 0, result.err
    data = meanfield.open(tmp_path / "on.zarr")
    np.testing.assert_allclose(data["x"][0], states_of(folder)[1], atol=1e-12)
    assert "forward" not in data.attrs["spec"]
    assert data["word"].values[:2].tolist() == ["[CLS]", "the"]
    np.testing.assert_array_equal(data["layer"], [1, 1])


def test_commands_describe_a_forward_pass(
    folder: Path, cli: Command, tmp_path: Path
) -> None:
    command = ("simulate", "--model", folder, "--text", TEXT, "--forward")
    result = cli(*command, "--out", "run.zarr")
    assert "forward pass of tiny: 9 tokens of “" in result.out
    assert "steps" not in result.out
    assert "softmax" not in result.out
    assert "to read the model and apply it" in cli(*command, "--dry-run").out
    assert "all 3 frames match their digests" in cli("show", "run.zarr", "--check").out
    assert meanfield.open("run.zarr").attrs["title"] == "forward pass of tiny: tokens"
    assert cli("report", "run.zarr").code == 0
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "forward = true" in page
    assert "MLPs are left out" not in page


def test_forward_passes_are_rejected_by_flow_commands(
    keys: dict, tmp_path: Path
) -> None:
    axes = parse_axes("seed=0|1")
    with pytest.raises(InvalidInputError, match="leave out `forward`"):
        runs.sweep(parse(keys), axes, out=tmp_path / "sweep")
    with pytest.raises(InvalidInputError, match="leave out `forward`"):
        runs.sides(parse(keys), ["points", "gaussian"])
    with pytest.raises(InvalidInputError, match="no use for `measure`: leave it out"):
        parse({**keys, "measure": "gaussian"})


def test_a_models_run_is_read_with_words_and_layers_without_the_model(
    rng: Generator, tmp_path: Path
) -> None:
    keys = {"model": "gone", "text": "words", "t": 2.0, "model_layers": [4, 1]}
    path, x = tmp_path / "run.zarr", report_store.moving_tokens(rng, n=3, frames=5)
    words = {"words": ["[CLS]", "words", "[SEP]"], "n_layers": 6}
    data = meanfield.open(report_store.finished_run(path, x, keys, words))
    assert data["word"].values.tolist() == words["words"]
    np.testing.assert_array_equal(data["layer"], [4, 4, 1, 1, 1])
    assert "words" not in data.attrs
    export(data, tmp_path / "run.csv")
    table = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True)
    np.testing.assert_array_equal(table["layer"][::3], data["layer"])


@pytest.mark.parametrize("words", ["words", ["one", "two"], [1, 2, 3]])
def test_invalid_stored_words_count_as_damage(
    words: object, rng: Generator, tmp_path: Path
) -> None:
    keys = {"model": "gone", "text": "words", "t": 2.0}
    x = report_store.moving_tokens(rng, n=3)

    def write_and_open() -> None:
        meanfield.open(
            report_store.finished_run(tmp_path / "run", x, keys, {"words": words})
        )

    with pytest.raises(StoreError, match="words"):
        write_and_open()


@pytest.mark.parametrize(
    ("stdin", "code", "expected_text"),
    [
        ("\ufeffthe cat sat\n".encode(), 0, "the cat sat"),  # as Windows editors write
        (b"@the --cat", 0, " @the --cat"),  # neither a file nor an option
        (b" \n", 3, "is empty"),
        (b"\xff", 3, "must be UTF-8 text"),
    ],
)
def test_a_text_comes_from_standard_input(
    folder: Path,
    cli: Command,
    monkeypatch: pytest.MonkeyPatch,
    stdin: bytes,
    code: int,
    expected_text: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    result = cli("simulate", "--model", folder, "--text", "-", "--forward", "--json")
    assert result.code == code, result.err
    assert (
        expected_text == json.loads(result.out)["text"]
        if code == 0
        else expected_text in result.err
    )


def test_several_texts_give_one_row_each(folder: Path, cli: Command) -> None:
    texts = ["the cat", "the cat sat on the mat"]
    options = [word for text in texts for word in ("--text", text)]
    command = ("models", "compare", folder, *options, "--rtol", "1e-2")
    report = json.loads(cli(*command, "--precision", "double", "--json").out)
    assert [row["text"] for row in report["texts"]] == texts
    for text, row in zip(texts, report["texts"], strict=True):
        single = models.compare(models.load(folder), text, rtol=1e-2)
        ranks = [depth["network_rank"] for depth in row["depths"]]
        assert ranks == [depth.network_rank for depth in single.depths]
    lines = cli(*command, "--precision", "double").out.splitlines()
    rows = [line for line in lines if line.startswith("“")]
    assert [row.split("”")[0][1:] for row in rows] == texts
    assert cli(*command, "--out", "both.png").code == 2
