"""Annealed parameters, and evaluation with other attentions."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extending_page import CLI
from training_cases import RECIPE, VARIANTS, spec

from meanfield.errors import InvalidInputError
from meanfield.training import (
    Annealing,
    Recipe,
    TrainFolder,
    TrainSpec,
    Variant,
    evaluate,
    resume,
    train,
)

SOFT = {"slices": 3, "tau": 0.1, "power": 1}
ANNEALING = Annealing("temperature", 0.5, delay=1)


def annealed_spec(annealing: Annealing | None = ANNEALING) -> TrainSpec:
    recipe = dataclasses.replace(RECIPE, annealing=annealing)
    return spec(
        variant=Variant("esp-soft", {**SOFT, "temperature": 0.8}), recipe=recipe
    )


def numbers(folder: Path, epoch: int, name: str) -> np.ndarray:
    """The values of a parameter, of all seeds and heads."""
    arrays = TrainFolder(folder).read(f"weights-{epoch:04d}.safetensors")
    (actual,) = [array for place, array in arrays.items() if place.endswith(name)]
    return actual


@pytest.mark.slow
def test_a_parameter_is_annealed_at_its_milestones_only(tmp_path: Path):
    train(annealed_spec(), tmp_path / "a")
    for epoch, temperature in ((0, 0.8), (1, 0.8), (2, 0.4), (3, 0.2)):
        np.testing.assert_allclose(
            numbers(tmp_path / "a", epoch, "temperature"), temperature, rtol=1e-6
        )
        np.testing.assert_allclose(numbers(tmp_path / "a", epoch, "tau"), 0.1)


@pytest.mark.slow
def test_before_the_first_milestone_annealing_changes_nothing(tmp_path: Path):
    logs = [
        train(annealed_spec(annealing), tmp_path / name).log
        for name, annealing in (("falls", ANNEALING), ("stays", None))
    ]
    assert logs[0][:2] == logs[1][:2]
    assert logs[0][2] != logs[1][2]


def test_interrupted_annealing_ends_with_the_same_bytes(tmp_path: Path):
    class InterruptedByTest(Exception): ...

    def interrupt(step: Any) -> None:
        raise InterruptedByTest

    whole = train(annealed_spec(), tmp_path / "whole")
    with pytest.raises(InterruptedByTest):
        train(annealed_spec(), tmp_path / "cut", report=interrupt)
    for _ in range(2):
        with pytest.raises(InterruptedByTest):
            resume(tmp_path / "cut", report=interrupt)
    assert resume(tmp_path / "cut") == whole  # its digests too


def test_annealing_round_trips_and_is_stored_only_if_set():
    assert TrainSpec.from_json(annealed_spec().as_json()) == annealed_spec()
    assert "annealing" not in spec().as_json()  # earlier records are found


@pytest.mark.parametrize(
    ("annealing", "message"),
    [
        (Annealing("temperature", 0.5, delay=3), "0 to 2; got 3"),
        (Annealing("temperature", 0.5, delay=-1), "0 to 2; got -1"),
        (Annealing("temperature", 0.0, delay=1), "between 0 and 1; got 0"),
        (Annealing("temperature", 1.0, delay=1), "between 0 and 1; got 1"),
        (Annealing("temperature", np.inf, delay=1), "between 0 and 1; got inf"),
        (Annealing("temperature", np.nan, delay=1), "between 0 and 1; got nan"),
    ],
)
def test_invalid_annealing_is_rejected(annealing: Annealing, message: str):
    with pytest.raises(InvalidInputError, match=message):
        Recipe(epochs=3, batch_size=1, learning_rate=1.0, annealing=annealing)


def test_annealing_a_missing_parameter_is_rejected(tmp_path: Path):
    with pytest.raises(InvalidInputError, match=r"`temperature`.*known: epsilon"):
        train(
            dataclasses.replace(annealed_spec(), variant=Variant("softmax")),
            tmp_path / "a",
        )
    assert not (tmp_path / "a").exists()


def test_annealing_an_array_is_rejected(tmp_path: Path):
    soft = Variant("esp-soft", SOFT, frozen_arrays=("directions",))
    recipe = dataclasses.replace(
        RECIPE, annealing=Annealing("directions", 0.5, delay=0)
    )
    with pytest.raises(InvalidInputError, match="no number `directions`"):
        train(spec(variant=soft, recipe=recipe), tmp_path / "a")


def test_annealing_to_zero_is_rejected(tmp_path: Path):
    """Before training starts: sorts at temperature zero are NaN."""
    with pytest.raises(InvalidInputError, match=r"fall to .*e-42.* nearer to 1"):
        train(annealed_spec(Annealing("temperature", 3e-21, delay=1)), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_evaluation_keeps_the_causal_mask(tmp_path: Path):
    """Softmax under the mask of the networks is their own attention."""
    train(spec(variant=Variant("softmax", mask="causal")), tmp_path / "a")
    with_mask, without_mask = (
        evaluate(tmp_path / "a"),
        evaluate(tmp_path / "a", Variant("softmax")),
    )
    np.testing.assert_array_equal(with_mask["loss"], without_mask["loss"])


@pytest.mark.slow
def test_softmax_equals_sinkhorn_of_one_half_step(tmp_path: Path):
    train(spec("softmax"), tmp_path / "a")
    softmax_loss = evaluate(tmp_path / "a")
    sinkhorn_loss = evaluate(tmp_path / "a", Variant("sinkhorn", {"iterations": 1}))
    more_iterations = evaluate(tmp_path / "a", Variant("sinkhorn", {"iterations": 5}))
    np.testing.assert_allclose(sinkhorn_loss["loss"], softmax_loss["loss"], atol=1e-5)
    assert np.abs(more_iterations["loss"] - softmax_loss["loss"]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.slow_cases("frozen_names0")
@pytest.mark.parametrize("frozen_names", [(), ("directions",)])
def test_hard_sorts_equal_soft_sorts_at_zero_temperature(
    frozen_names: tuple[str, ...], tmp_path: Path
):
    """On trained slices, or on fixed random ones."""
    soft = Variant("esp-soft", {**SOFT, "temperature": 0.8}, frozen_arrays=frozen_names)
    train(spec(variant=soft), tmp_path / "a")
    losses = [
        evaluate(tmp_path / "a", variant)["loss"]
        for variant in (
            Variant("esp", {"slices": 3, "tau": 0.1}),
            Variant("esp-soft", {**SOFT, "temperature": 1e-9}),
            Variant("esp-soft", {**SOFT, "temperature": 0.8}),
        )
    ]
    np.testing.assert_allclose(losses[0], losses[1], atol=1e-5)
    np.testing.assert_allclose(losses[2], evaluate(tmp_path / "a")["loss"], atol=1e-6)
    assert np.abs(losses[0] - losses[2]).max() > 1e-3


def test_an_attention_with_other_arrays_is_rejected(tmp_path: Path):
    train(spec("softmax"), tmp_path / "a")
    with pytest.raises(InvalidInputError, match="the arrays of the trained `softmax`"):
        evaluate(tmp_path / "a", VARIANTS["esp-soft"])


def test_train_anneals_and_evaluates(cli: CLI, tmp_path: Path):
    start = (
        "train start patches --attention esp-soft --options slices=2,power=1 "
        "--task-options patch=28 --epochs 2 --batch-size 1000 --seeds 0,1 "
        "--annealing temperature:0.5:1 --out digits --json"
    )
    result = cli(*start.split())
    assert result.code == 0, result.err
    assert json.loads(result.out)["spec"]["annealing"] == ["temperature", 0.5, 1]
    hard = ("digits", "--attention", "esp", "--options", "slices=2")
    report = json.loads(cli("train", "evaluate", *hard, "--json").out)
    assert report["attention"] == "esp, slices 2"
    assert report["original"]["correct"] == json.loads(result.out)["test"]["correct"]
    table = cli("train", "evaluate", *hard).out
    assert table.split()[:4] == ["seed", "correct,", "original", "loss,"]
    assert "median" in table
    failure = cli(
        "train", "start", "patches", "--annealing", "temperature:x", "--out", "b"
    )
    assert failure.code == 2
    assert "temperature:0.8:30; got `temperature:x`" in failure.err
