"""Figures of trained networks: their records, and a quick version of each."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_reportable

from experiments.gallery import FOLDER
from experiments.trained.__main__ import main as train_parts
from experiments.trained.campaign import Campaign
from experiments.trained.campaigns import CAMPAIGNS
from experiments.trained.comparison import findings
from experiments.trained.costs import HEAD, PAGE, TITLE, table
from experiments.trained.records import RECORDS, Archive, Line, read_lines, scores
from meanfield.errors import MeanfieldError, UnsupportedError
from meanfield.reproduce import Case, load
from meanfield.training import TrainSpec
from meanfield.training.tasks._bible import PACKAGE

NETWORK_FIGURES = [
    "sander2022-fig2-trained",
    "sander2022-fig6",
    "sander2022-table1",
    "shahbazi2025-table1",
    "shahbazi2025-table1-sorts",
    "tay2020-table1",
    "tay2020-table4",
    "trained-hypotheses",
]


def assert_agree(actual: object, expected: object) -> None:
    """Equal to 1e-12: last digits of distances depend on the processor."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(actual, list | tuple) and isinstance(expected, list):
        for pair in zip(actual, expected, strict=True):
            assert_agree(*pair)
    elif isinstance(actual, float):
        assert actual == pytest.approx(expected, rel=1e-12, nan_ok=True)
    else:
        assert actual == expected


@pytest.mark.parametrize("name", NETWORK_FIGURES)
def test_a_figure_is_reproduced_from_its_records(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    def fail_if_trained(self: Archive, spec: TrainSpec) -> list[Line]:
        pytest.fail(f"{spec} is not recorded")

    monkeypatch.setattr(Archive, "_trained", fail_if_trained)
    actual = load(name).compute(Case())
    record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert_agree(actual.numbers, record["numbers"])
    assert_reportable(load(name), actual)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORK_FIGURES)
def test_the_quick_size_gives_no_verdict(name: str):
    try:
        actual = load(name).compute(Case("quick"))
    except UnsupportedError as error:
        if PACKAGE not in str(error):  # which `make test-slow` installs
            raise
        pytest.skip(str(error))
    assert_reportable(load(name), actual)
    assert actual.numbers["seeds"] <= 2
    words = json.dumps(actual.numbers)
    assert "not enough seeds" in words or name == "trained-hypotheses"
    assert "reproduced" not in words
    assert load(name).draw(actual).axes


@pytest.mark.parametrize(
    ("name", "is_untuned"),
    [
        ("sander2022-fig6", "sliced"),
        ("sander2022-table1", "sliced"),
        ("shahbazi2025-table1", "sliced"),
        ("shahbazi2025-table1-sorts", ""),  # all variants are sliced
        ("tay2020-table1", ""),
    ],
)
def test_verdicts_on_untuned_attention_are_withheld(name: str, is_untuned: str):
    record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    verdicts = record["numbers"]["verdicts"]
    words = {
        (claim, outcome["conclusion"]): outcome["mean"]
        for claim, outcomes in verdicts.items()
        for outcome in outcomes.values()
        if outcome["conclusion"]
    }
    assert all(
        (word == "withdrawn: attention not tuned") == (is_untuned in claim)
        for claim, word in words
    )
    for mean in words.values():  # what was measured is still shown
        assert f"{mean:+.2f} (" in str(record["table"])


def lines(rng: np.random.Generator, spec: TrainSpec, shares: list[float]) -> list[Line]:
    """Synthetic records with these accuracies, one network for each seed."""
    records = []
    for seed, share in zip(spec.seeds, shares, strict=True):
        right = rng.permutation(np.arange(200) < round(200 * share))
        bits = np.packbits(right).tobytes().hex()
        line = {"seed": seed, "n_samples": 200, "correct": bits, "epochs": [0, 1]}
        records.append({**line, "train_loss": [0.5], "seconds": 6.0, "device": "none"})
    return records


def compare_variants(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, campaign: Campaign
) -> dict[str, dict[str, dict[str, Any]]]:
    """Verdicts where the second variant has two percent more correct samples."""
    first, *_ = campaign.variants.values()

    def lines_of(self: Archive, spec: TrainSpec) -> list[Line]:
        drop = 0.02 * (spec.variant == first)
        return lines(rng, spec, [0.8 + 0.01 * s - drop for s in range(len(spec.seeds))])

    monkeypatch.setattr(Archive, "lines", lines_of)
    return findings(campaign, Case("paper")).numbers["verdicts"]


def test_verdicts_compare_equal_seeds(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    """Seeds differ by far more than variants, but paired differences resolve them."""
    solids = CAMPAIGNS["solids"]
    eight = solids.protocols["paper"]._replace(seeds=tuple(range(8)))
    campaign = dataclasses.replace(solids, protocols={"paper": eight})
    verdicts = compare_variants(rng, monkeypatch, campaign)
    verdict_at_64 = verdicts["Sinkhorn 21 over softmax"]["64"]
    assert verdict_at_64["conclusion"] == "reproduced"
    np.testing.assert_allclose(
        [verdict_at_64["mean"], verdict_at_64["deviation"]], [2, 0], atol=1e-9
    )
    assert (
        verdict_at_64["n_pairs"] == 5
    )  # of eight seeds, three share a fold with another
    low, high = verdict_at_64["bootstrap"]
    assert low < 2 < high  # a subset of the samples
    assert verdicts["Sinkhorn 21 over Sinkhorn 3"]["64"]["mean"] == 0


def test_the_best_learning_rate_is_chosen_by_validation(
    monkeypatch: pytest.MonkeyPatch,
):
    """The smallest value wins for a loss, the largest for other metrics."""

    def lines_of(self: Archive, spec: TrainSpec) -> list[Line]:
        assert spec.validation_split
        return [
            {"bits": [spec.recipe.learning_rate, 2 * spec.recipe.learning_rate]}
            for _ in spec.seeds
        ]

    monkeypatch.setattr(Archive, "lines", lines_of)
    least = CAMPAIGNS["characters"]
    arm = (Case("paper"), "softmax", "64")
    assert least.tuned_spec(*arm).recipe.learning_rate == 5e-4
    assert (
        dataclasses.replace(least, gain=1).tuned_spec(*arm).recipe.learning_rate == 2e-3
    )


def test_a_truncated_record_line_is_overwritten(tmp_path: Path):
    archive = Archive(tmp_path / "lines.jsonl", lambda folder: [])
    archive.add([{"seed": 0}])
    with archive.file.open("a") as stream:
        stream.write('{"seed": 1, "cut')
    assert read_lines(archive.file) == [{"seed": 0}]
    archive.add([{"seed": 2}])
    assert read_lines(archive.file) == [{"seed": 0}, {"seed": 2}]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("patchs", "did you mean `patches`"),
        ("patches:sofmax", "did you mean `softmax`"),
        ("patches:softmax:9", "known: 28, 14, 7"),
        ("patches:softmax:7:first", "seeds such as 0,1,2"),
        ("patches:softmax:7:0:1", "seeds such as 0,1,2"),
    ],
)
def test_untrainable_variants_are_named(part: str, message: str):
    with pytest.raises(MeanfieldError, match=re.escape(message)):
        train_parts([part])


def test_correctness_bits_round_trip(rng: np.random.Generator):
    (line,) = lines(rng, TrainSpec("patches", *CASE), [0.25])
    assert scores(line, "correct").sum() == 50
    assert scores({"bits": [1.5, 2.0]}, "bits").tolist() == [1.5, 2.0]


CASE = (
    CAMPAIGNS["patches"].variants["softmax"],
    CAMPAIGNS["patches"].protocols["quick"].recipe,
    (0,),
)


def test_training_costs_are_reported():
    assert PAGE.read_text(encoding="utf-8") == TITLE + table(RECORDS)
    rows = table(RECORDS).removeprefix(HEAD).splitlines()
    sevens = [row for row in rows if "patch 7" in row and "NVIDIA" in row]
    assert sum(int(row.split("|")[4]) for row in sevens) >= 30
