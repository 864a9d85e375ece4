"""Figures of networks that are trained: their records, and a quick look at each."""

import json
from typing import Any

import numpy as np
import pytest
from helpers import assert_reportable

from experiments.gallery import FOLDER
from experiments.trained.campaign import Campaign
from experiments.trained.campaigns import CAMPAIGNS
from experiments.trained.compared import findings
from experiments.trained.costs import HEAD, table
from experiments.trained.records import RECORDS, Archive, Line, scores
from meanfield.errors import UnsupportedError
from meanfield.reproduce import Case, load
from meanfield.training import TrainSpec

OF_NETWORKS = ["sander2022-fig2-trained", "sander2022-fig6"]


@pytest.mark.parametrize("name", OF_NETWORKS)
def test_a_figure_is_found_again_in_its_records(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    def trained(self: Archive, spec: TrainSpec) -> list[Line]:
        pytest.fail(f"{spec} is not recorded")

    monkeypatch.setattr(Archive, "_trained", trained)
    found = load(name).compute(Case())
    record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert found.numbers == record["numbers"]
    assert_reportable(load(name), found)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_NETWORKS)
def test_a_quick_look_says_nothing_of_two_seeds(name: str):
    try:
        found = load(name).compute(Case("quick"))
    except UnsupportedError as error:
        pytest.skip(str(error))
    assert_reportable(load(name), found)
    assert found.numbers["seeds"] <= 2
    assert "reproduced" not in found.numbers.get("words", "")
    assert load(name).draw(found).axes


def lines(rng: np.random.Generator, spec: TrainSpec, shares: list[float]) -> list[Line]:
    """As if networks had been trained that are right so often, one of each seed."""
    made = []
    for seed, share in zip(spec.seeds, shares, strict=True):
        right = rng.permutation(np.arange(200) < round(200 * share))
        bits = np.packbits(right).tobytes().hex()
        line = {"seed": seed, "items": 200, "correct": bits, "epochs": [0, 1]}
        made.append({**line, "train_loss": [0.5], "seconds": 6.0, "device": "none"})
    return made


def compared(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, campaign: Campaign
) -> dict[str, dict[str, dict[str, Any]]]:
    """Verdicts where the second variant has two items in a hundred more."""
    first, *_ = campaign.variants.values()

    def known(self: Archive, spec: TrainSpec) -> list[Line]:
        less = 0.02 * (spec.variant == first)
        return lines(rng, spec, [0.8 + 0.01 * s - less for s in range(len(spec.seeds))])

    monkeypatch.setattr(Archive, "lines", known)
    return findings(campaign, Case("paper")).numbers["verdicts"]


def test_verdicts_are_of_the_same_seeds(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    """Seeds differ by far more than variants do, and pairs see it all the same."""
    verdicts = compared(rng, monkeypatch, CAMPAIGNS["solids"])
    more = verdicts["Sinkhorn 21 over softmax"]["256"]
    assert more["word"] == "reproduced"
    np.testing.assert_allclose([more["mean"], more["deviation"]], [2, 0], atol=1e-9)
    low, high = more["bootstrap"]
    assert low < 2 < high  # items are fewer than all there are
    assert verdicts["Sinkhorn 21 over Sinkhorn 3"]["256"]["mean"] == 0


def test_marks_come_back_from_their_bits(rng: np.random.Generator):
    (line,) = lines(rng, TrainSpec("patches", *CASE), [0.25])
    assert scores(line, "correct").sum() == 50
    assert scores({"bits": [1.5, 2.0]}, "bits").tolist() == [1.5, 2.0]


CASE = (
    CAMPAIGNS["patches"].variants["softmax"],
    CAMPAIGNS["patches"].protocols["quick"].recipe,
    (0,),
)


def test_what_trainings_took_is_told():
    rows = table(RECORDS).removeprefix(HEAD).splitlines()
    sevens = [row for row in rows if "patch 7" in row and "NVIDIA" in row]
    assert sum(int(row.split("|")[4]) for row in sevens) >= 30
