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
from experiments.trained.campaign import Arm, Campaign
from experiments.trained.campaigns import CAMPAIGNS
from experiments.trained.campaigns.earlier import (
    EARLIER_CHARACTERS,
    EARLIER_SOLIDS,
    EARLIER_SORTING,
)
from experiments.trained.campaigns.sorts import CURVES
from experiments.trained.comparison import arm_numbers, findings
from experiments.trained.comparison import table as comparison_table
from experiments.trained.costs import HEAD, PAGE, TITLE, table
from experiments.trained.protocol import Search
from experiments.trained.records import RECORDS, Archive, Line, read_lines, scores
from experiments.trained.verdicts import has_converged
from experiments.trained.verdicts import verdicts as compare
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
    "campaign",
    [EARLIER_SOLIDS, EARLIER_SORTING, EARLIER_CHARACTERS],
    ids=["solids", "sorting", "characters"],
)
def test_verdicts_on_untuned_attention_are_withheld(campaign: Campaign):
    numbers = findings(campaign, Case()).numbers
    for claim, outcomes in numbers["verdicts"].items():
        for outcome in outcomes.values():
            assert outcome["conclusion"] == "withdrawn: attention not tuned", claim
            # what was measured is still shown
            assert f"{outcome['mean']:+.2f} (" in str(comparison_table(numbers))


def lines(rng: np.random.Generator, spec: TrainSpec, shares: list[float]) -> list[Line]:
    """Synthetic records with these accuracies, one network for each seed."""
    records = []
    for seed, share in zip(spec.seeds, shares, strict=True):
        right = rng.permutation(np.arange(200) < round(200 * share))
        bits = np.packbits(right).tobytes().hex()
        line = {"seed": seed, "n_samples": 200, "correct": bits, "epochs": [0, 1]}
        losses = {"train_loss": [0.5], "test_loss": [2.0, 0.6]}
        records.append({**line, **losses, "seconds": 6.0, "device": "none"})
    return records


def compare_variants(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, campaign: Campaign
) -> dict[str, dict[str, dict[str, Any]]]:
    """Verdicts where the second variant has two percent more correct samples."""
    first = next(iter(campaign.candidates.values())).variant

    def lines_of(self: Archive, spec: TrainSpec) -> list[Line]:
        drop = 0.02 * (spec.variant == first)
        return lines(rng, spec, [0.8 + 0.01 * s - drop for s in range(len(spec.seeds))])

    monkeypatch.setattr(Archive, "lines", lines_of)
    return findings(campaign, Case("paper")).numbers["verdicts"]


def test_verdicts_compare_equal_seeds(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    """Seeds differ by far more than variants, but paired differences resolve them."""
    solids = EARLIER_SOLIDS
    eight = solids.protocols["paper"]._replace(seeds=tuple(range(8)))
    tuned = {
        name: dataclasses.replace(candidate, tuned=())
        for name, candidate in solids.candidates.items()
    }
    campaign = dataclasses.replace(solids, protocols={"paper": eight}, candidates=tuned)
    verdicts = compare_variants(rng, monkeypatch, campaign)
    verdict_at_64 = verdicts["Sinkhorn 21 over softmax"]["64"]
    assert verdict_at_64["conclusion"] == "reproduced"
    np.testing.assert_allclose(
        [verdict_at_64["mean"], verdict_at_64["deviation"]], [2, 0], atol=1e-9
    )
    assert (
        verdict_at_64["n_pairs"] == 5
    )  # of eight seeds, three share a fold with another
    assert verdicts["Sinkhorn 21 over Sinkhorn 3"]["64"]["mean"] == 0


def test_sharper_and_hard_sorts_are_compared_with_the_tuned_networks(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    def lines_of(self: Archive, spec: TrainSpec) -> list[Line]:
        temperature = spec.variant.options["temperature"]
        if spec.validation_split or spec.distinct_samples:
            score = -abs(np.log10(temperature / 0.1))
            short = {"means": {"correct": score}, "train_loss": 0.01, "first_loss": 2.0}
            return [short for _ in spec.seeds]
        assert temperature == 0.1  # as tuned
        share = 0.8 if spec.recipe.epochs == 30 else 0.82
        share = share if spec.recipe.annealing is None else 0.85
        networks = lines(rng, spec, [share] * len(spec.seeds))
        hard = lines(rng, spec, [0.9] * len(spec.seeds))
        curves = {name: [[[0.5]], [[0.5]]] for name in CURVES}
        return [
            {**line, **curves, "hard": other["correct"]}
            for line, other in zip(networks, hard, strict=True)
        ]

    monkeypatch.setattr(Archive, "lines", lines_of)
    comparison = findings(CAMPAIGNS["sorts"], Case("paper"))
    assert comparison.numbers["epochs"] == 50
    outcomes = comparison.numbers["verdicts"]
    means = {claim: outcome["4000"]["mean"] for claim, outcome in outcomes.items()}
    assert means == pytest.approx(
        {
            "sharp over initial": 5,
            "hard over initial": 10,
            "sharp over longer": 3,
            "hard over longer": 8,
        }
    )
    assert {*comparison.data["networks"]} == {"score"}  # its networks have no curves


@pytest.mark.parametrize(("gain", "rate"), [(1, 8e-3), (-1, 2.5e-4)])
def test_the_best_setting_is_chosen_by_validation(
    gain: int, rate: float, monkeypatch: pytest.MonkeyPatch
):
    """The best learning rate is 8e-3 for a score, and 2.5e-4 for a loss."""

    def lines_of(self: Archive, spec: TrainSpec) -> list[Line]:
        assert spec.validation_split
        far = abs(np.log2(spec.recipe.learning_rate / rate))
        options = spec.variant.options
        far += abs(np.log10(options["temperature"] / 0.1)) + (options["slices"] != 4)
        return [{"means": {"correct": -gain * far}} for _ in spec.seeds]

    monkeypatch.setattr(Archive, "lines", lines_of)
    campaign = dataclasses.replace(CAMPAIGNS["patches"], gain=gain)
    spec = campaign.tuned_spec(Case("paper"), "sliced", "7")
    assert spec.recipe.learning_rate == rate
    kept = {name: spec.variant.options[name] for name in ("temperature", "slices")}
    assert kept == {"temperature": 0.1, "slices": 4}
    search = campaign.search(Case("paper"), "sliced", "7")
    assert search is not None
    assert search.is_complete
    assert search.at_end == []
    assert max(search.finals, key=lambda pair: pair[1])[0] == search.best


def arm(losses: list[float], gate_loss: float | None = None) -> Arm:
    """Networks with these training losses, and test losses of 2 before training."""
    networks: list[Line] = [
        {"train_loss": [1.9, loss], "test_loss": [2.0, loss]} for loss in losses
    ]
    return Arm(TrainSpec("patches", *CASE), networks, None, gate_loss)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([0.1, 0.1, 0.1, 1.5], [True, True, True, False]),
        ([0.001, 0.001, 0.01], [True, True, True]),  # all losses are small
        ([1.5, 1.5, 1.5], [True, True, True]),  # which the gate is for
        ([1.3, 1.3, 1.3, 1.9], [True, True, True, False]),  # three medians are too many
    ],
)
def test_networks_that_did_not_converge(losses: list[float], expected: list[bool]):
    assert has_converged(arm(losses).lines).tolist() == expected


def test_an_attention_that_fails_the_gate_is_not_trained():
    assert arm([0.1]).is_trained
    assert arm([0.1], 0.1).is_trained
    assert not arm([0.1], 0.11).is_trained


def test_the_gate_withholds_verdicts_and_keeps_differences(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    """Sinkhorn attention fits the few samples, softmax does not."""
    solids = EARLIER_SOLIDS
    recipe = solids.protocols["paper"].recipe
    protocol = solids.protocols["paper"]._replace(gate=recipe)
    tuned = {
        name: dataclasses.replace(candidate, tuned=())
        for name, candidate in solids.candidates.items()
    }
    campaign = dataclasses.replace(
        solids, protocols={"paper": protocol}, candidates=tuned
    )
    softmax = tuned["softmax"].variant

    def lines_of(self: Archive, spec: TrainSpec) -> list[Line]:
        if spec.distinct_samples is None:
            shift = 0.02 * (spec.variant == softmax)
            return lines(rng, spec, [0.8 - shift - 0.01 * s for s in spec.seeds])
        assert spec.distinct_samples == 40
        last = 1.0 if spec.variant == softmax else 0.01
        return [
            {"means": {}, "train_loss": last, "first_loss": 2.0} for _ in spec.seeds
        ]

    monkeypatch.setattr(Archive, "lines", lines_of)
    verdicts = findings(campaign, Case()).numbers["verdicts"]
    outcome = verdicts["Sinkhorn 21 over softmax"]["64"]
    assert outcome["conclusion"] == "not trained"
    assert outcome["mean"] == pytest.approx(2)
    assert verdicts["Sinkhorn 21 over Sinkhorn 3"]["64"]["conclusion"] == "undecided"


def arms_of_patches(
    rng: np.random.Generator, condition: str, searches: dict[str, Search]
) -> dict[tuple[str, str], Arm]:
    """Networks of all attentions; those of Sinkhorn are two points better."""
    variant, recipe, _ = CASE
    spec = TrainSpec("patches", variant, recipe, tuple(range(4)))
    shares = {"Sinkhorn": 0.82}
    return {
        (name, condition): Arm(
            spec, lines(rng, spec, [shares.get(name, 0.8)] * 4), searches.get(name), 0.0
        )
        for name in CAMPAIGNS["patches"].candidates
    }


@pytest.mark.parametrize(
    ("condition", "searches", "expected"),
    [
        ("14", {"softmax": True, "Sinkhorn": False}, "reproduced"),
        ("14", {"softmax": False, "Sinkhorn": True}, "not fully tuned"),
        ("28", {"softmax": True, "Sinkhorn": True}, "contradicted"),  # of equality
    ],
)
def test_an_attention_loses_only_if_its_search_is_complete(
    condition: str, searches: dict[str, bool], expected: str, rng: np.random.Generator
):
    middle = {"learning rate": 1}
    arms = arms_of_patches(
        rng,
        condition,
        {
            k: Search(middle, [(middle, 0.5)], is_complete=v)
            for k, v in searches.items()
        },
    )
    row = compare(CAMPAIGNS["patches"], arms)["Sinkhorn over softmax"][condition]
    assert row["conclusion"] == row["converged"]["conclusion"] == expected


def test_numbers_of_settings_that_diverge_are_json(rng: np.random.Generator):
    middle, high = {"learning rate": 1}, {"learning rate": 16}
    search = Search(middle, [(middle, 0.5), (high, -np.inf)], is_complete=True)
    arm = arms_of_patches(rng, "7", {"softmax": search})["softmax", "7"]
    numbers = arm_numbers(CAMPAIGNS["patches"], arm._replace(gate_loss=np.inf))
    assert json.loads(json.dumps(numbers, allow_nan=False))["search"]["scores"] == [
        [1, 0.5],
        [16, None],
    ]
    assert numbers["gate_loss"] is None


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
        ("patches:softmax:7:0", "the form CAMPAIGN:ATTENTION:CONDITION"),
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
    CAMPAIGNS["patches"].candidates["softmax"].variant,
    CAMPAIGNS["patches"].protocols["quick"].recipe,
    (0,),
)


def test_training_costs_are_reported():
    assert PAGE.read_text(encoding="utf-8") == TITLE + table(RECORDS)
    rows = table(RECORDS).removeprefix(HEAD).splitlines()
    solids = [row for row in rows if row.startswith("| solids")]
    assert sum(int(row.split("|")[4]) for row in solids) >= 40
