"""Hidden states of a network and the flow of its attention, against NumPy and SciPy."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bert_reference import TEXT, Reference, synthetic_arrays, write
from conftest import CommandResult
from scipy.integrate import solve_ivp

from meanfield import models
from meanfield.errors import InputFileError

Command = Callable[..., CommandResult]
GENTLE = 0.25  # scale of the random weights: their flow grows by some powers of ten


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    arrays = {
        name: array if "embeddings" in name else np.float32(GENTLE) * array
        for name, array in synthetic_arrays().items()
    }
    return write(tmp_path / "tiny", arrays=arrays)


def states_of(folder: Path) -> list[np.ndarray]:
    ids = models.load(folder).encode(TEXT, limit=16).ids
    return Reference(folder).hidden_states(ids)


def flow_of(folder: Path) -> list[np.ndarray]:
    """The attention of each layer for one unit of time, by another integrator."""
    reference, clouds = Reference(folder), states_of(folder)[:1]
    for layer in range(2):
        start = clouds[-1]
        move = lambda t, x, layer=layer, shape=start.shape: reference.attention(
            layer, x.reshape(shape)
        ).ravel()
        run = solve_ivp(move, (0, 1), start.ravel(), "DOP853", rtol=1e-11, atol=1e-11)
        clouds.append(run.y[:, -1].reshape(start.shape))
    return clouds


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum(a * b) / np.sqrt(np.sum(a**2) * np.sum(b**2)))


def test_hidden_states_match_the_network(folder: Path) -> None:
    states, _ = models.hidden_states(models.load(folder), TEXT)
    np.testing.assert_allclose(states, states_of(folder), rtol=1e-11, atol=1e-12)


def test_the_parts_of_a_layer_are_the_networks_and_add_up(folder: Path) -> None:
    reference = Reference(folder)
    states, parts = models.hidden_states(models.load(folder), TEXT)
    for layer, part in enumerate(parts):
        x = states[layer]
        attention = reference.attention(layer, x)
        np.testing.assert_allclose(part.attention, attention, rtol=1e-11, atol=1e-12)
        root = f"encoder.layer.{layer}"
        y = reference.norm(f"{root}.attention.output.LayerNorm", x + attention)
        output = reference.norm(f"{root}.output.LayerNorm", y + part.mlp)
        np.testing.assert_allclose(output, states[layer + 1], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(x + part.displacement, output, atol=1e-12)


def test_the_numbers_match_the_network_and_of_its_attention(folder: Path) -> None:
    comparison = models.compare(models.load(folder), TEXT, rtol=1e-10)
    assert comparison.endings == ("finished", "finished")
    data = comparison.dataset()  # which has a column for each number of both tables
    for axis, rows in {"depth": comparison.depths, "layer": comparison.shares}.items():
        for name in rows[0]._fields[1:]:
            values = [getattr(row, name) for row in rows]
            assert data[name].dims == (axis,)
            np.testing.assert_array_equal(data[name], values)
    for row, x, z in zip(
        comparison.depths, states_of(folder), flow_of(folder), strict=True
    ):
        start, tokens = states_of(folder)[0], range(len(x))
        expected = {
            "distance": np.linalg.norm(z - x),
            "initial_distance": np.linalg.norm(start - x),
        }
        for name, value in expected.items():
            gap = value / np.linalg.norm(x)
            assert getattr(row, name) == pytest.approx(gap, rel=1e-7, abs=1e-12)
        if row.layers:
            wanted_cosine = cosine(z - start, x - start)
            assert row.cosine == pytest.approx(wanted_cosine, rel=1e-7)
        for name, cloud in (("network", x), ("flow", z)):
            pairs = [cosine(cloud[i], cloud[j]) for i in tokens for j in range(i)]
            similarity = getattr(row, f"{name}_similarity")
            assert similarity == pytest.approx(np.mean(pairs), rel=1e-7)
            p = np.linalg.eigvalsh(np.cov(cloud.T)).clip(1e-300)
            p = p / p.sum()
            rank = getattr(row, f"{name}_rank")
            assert rank == pytest.approx(np.exp(-np.sum(p * np.log(p))), rel=1e-7)
    assert comparison.depths[0].distance == 0


def test_shares_of_a_displacement_add_up_to_it(folder: Path) -> None:
    comparison = models.compare(models.load(folder), TEXT, rtol=1e-2)
    states, reference = states_of(folder), Reference(folder)
    for row, x, after in zip(comparison.shares, states, states[1:], strict=False):
        attention, change = reference.attention(row.layer, x), after - x
        share = np.sum(attention * change) / np.sum(change**2)
        assert row.attention == pytest.approx(share, rel=1e-9)
        assert row.attention_cosine == pytest.approx(
            cosine(attention, change), rel=1e-9
        )
        assert row.attention + row.mlp + row.norm == pytest.approx(1, rel=1e-12)
        size = np.linalg.norm(change) / np.linalg.norm(x)
        assert row.displacement == pytest.approx(size, rel=1e-9)


def test_the_command_reports_each_layer_and_plots(
    folder: Path, tmp_path: Path, cli: Command
) -> None:
    words = tmp_path / "words.txt"
    words.write_text(TEXT)
    command = (
        "models",
        "compare",
        str(folder),
        "--text",
        f"@{words}",
        "--rtol",
        "1e-3",
    )
    result = cli(*command, "--precision", "double", "--out", str(tmp_path / "both.png"))
    assert result.code == 0, result.err
    assert "without its layer norms and MLPs" in result.out
    assert "nearer to the network than the embedding is" in result.out
    assert (tmp_path / "both.png").stat().st_size > 10_000
    report = json.loads(cli(*command, "--precision", "double", "--json").out)
    assert [row["layers"] for row in report["depths"]] == [0, 1, 2]
    assert report["words"][:3] == ["[CLS]", "the", "cat"]
    assert report["depths"][0]["cosine"] is None
    for row in report["shares"]:
        assert f"{row['displacement']:.3g}" in result.out


def test_unplottable_requests_are_rejected_before_the_flow(
    folder: Path, tmp_path: Path, cli: Command
) -> None:
    command = (
        "models",
        "compare",
        str(folder),
        "--text",
        TEXT,
        "--precision",
        "double",
    )
    result = cli(*command, "--out", str(tmp_path / "both.gif"))
    assert (result.code, result.out) == (2, "")
    assert ".pdf, .png, .svg" in result.err


def test_an_unknown_activation_is_rejected_by_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "swish", config={"hidden_act": "swish"})
    with pytest.raises(
        InputFileError, match=r"activation `swish`, but only gelu, gelu_new"
    ):
        models.hidden_states(models.load(folder), TEXT)
    models.layers(models.load(folder))  # the attention alone needs no activation


def test_a_perceptron_of_another_size_is_rejected(tmp_path: Path) -> None:
    folder = write(tmp_path / "wide", config={"intermediate_size": 21})
    with pytest.raises(InputFileError, match=r"shape \(20, 12\).*asks for \(21, 12\)"):
        models.hidden_states(models.load(folder), TEXT)
