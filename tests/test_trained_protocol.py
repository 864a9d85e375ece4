"""Protocol of the comparisons of trained networks: search, limits, control."""

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import RECIPE, spec

from experiments.trained import records
from experiments.trained.campaigns import CAMPAIGNS
from experiments.trained.protocol import CONTROL, TUNING_SEEDS, Candidate, Search
from experiments.trained.tuning import search_grids
from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError, SimulationError
from meanfield.training import TrainSpec, Variant
from meanfield.training.tasks import Patches


def test_a_search_ends_where_no_neighbour_is_better():
    grids = {"a": tuple(range(10)), "b": tuple(range(10))}
    score = lambda at: -((at["a"] - 7) ** 2) - (at["b"] - 2) ** 2
    search = search_grids(score, {"a": 1, "b": 5}, grids)
    assert search.best == {"a": 7, "b": 2}
    assert search.is_complete
    tried = [tuple(setting.values()) for setting, _ in search.scores]
    assert {(6, 2), (8, 2), (7, 1), (7, 3)} <= set(tried)
    assert len(tried) == len(set(tried))


def test_a_search_stops_after_its_budget():
    grids = {"a": tuple(range(100))}
    search = search_grids(lambda at: at["a"], {"a": 0}, grids, budget=9)
    assert search.best == {"a": 8}
    assert len(search.scores) == 9
    assert not search.is_complete


def test_ends_of_grids_are_reported_unless_they_are_limits():
    best = {"temperature": 1e-5, "slices": "axis", "iterations": 41, "tau": 0.1}
    assert Search(best, [], is_complete=True).at_end == ["temperature", "iterations"]


def test_the_control_has_uniform_weights(key: PRNGKey):
    network = Patches(patch=7).network(key, CONTROL.variant)
    image = jnp.asarray(Patches(patch=7).samples()["image"][3])
    plans = network.encoder.plans(network.tokens(image))
    np.testing.assert_allclose(plans, 1 / 17, rtol=1e-6)


def test_the_bandwidth_is_tuned_as_a_multiple():
    sinkhorn = Variant("sinkhorn", {"epsilon": 4.0, "iterations": 5})
    candidate = Candidate(sinkhorn, ("epsilon", "iterations"))
    start = candidate.start
    assert start == {"learning rate": 1, "epsilon": 1, "iterations": 5}
    assert candidate.variant_at(start) == sinkhorn
    sharper = candidate.variant_at({**start, "epsilon": 1 / 4, "iterations": 11})
    assert sharper.options == {"epsilon": 1.0, "iterations": 11}


def test_a_setting_that_diverges_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Tuning goes on with other settings; compared networks must not diverge."""
    monkeypatch.setattr(records, "UNFINISHED", tmp_path / "unfinished")
    diverging = dataclasses.replace(RECIPE, learning_rate=1e30)
    run = spec(recipe=diverging, seeds=(0,))
    for_tuning = dataclasses.replace(
        records.tuning_archive("pairs", "quick"), file=tmp_path / "tuning.jsonl"
    )
    (line,) = for_tuning.lines(run)
    assert (line["means"], line["train_loss"]) == (None, None)
    assert line["first_loss"] > 0
    with monkeypatch.context() as patch:
        patch.setattr(records, "train", lambda *_, **__: pytest.fail("trained again"))
        assert for_tuning.lines(run) == [line]
    compared = dataclasses.replace(
        records.archive("pairs", "quick"), file=tmp_path / "compared.jsonl"
    )
    with pytest.raises(SimulationError, match="not finite"):
        compared.lines(run)


@pytest.mark.parametrize("bad", [-np.inf, np.nan])
def test_a_search_avoids_settings_that_diverge(bad: float):
    grid = {"a": tuple(range(6))}
    score = lambda at: bad if at["a"] > 2 else float(at["a"])
    assert search_grids(score, {"a": 1}, grid).best == {"a": 2}


def test_a_search_does_not_start_where_training_diverges():
    with pytest.raises(InvalidInputError, match="diverges with the first setting"):
        search_grids(lambda _: -np.inf, {"a": 1}, {"a": (0, 1, 2)})


@pytest.mark.parametrize("name", ["patches", "parity", "solids", "sorting"])
def test_no_compared_network_is_tested_on_validation_samples(name: str):
    campaign = CAMPAIGNS[name]
    protocol = campaign.protocols["paper"]
    variant = campaign.candidates["softmax"].variant
    for condition, options in protocol.conditions.items():
        of_seeds = TrainSpec(name, variant, protocol.recipe, protocol.seeds, options)
        tests = np.concatenate([split.test for split in of_seeds.splits()])
        tuned = dataclasses.replace(
            of_seeds,
            seeds=TUNING_SEEDS,
            options=protocol.conditions[campaign.tuning_condition or condition],
            validation_split=True,
        )
        for split in tuned.splits():
            assert not np.isin(split.test, tests).any()


def test_finalists_are_the_best_settings_and_the_first():
    score = lambda at: -abs(at["a"] - 3.0)
    search = search_grids(score, {"a": 0}, {"a": tuple(range(6))})
    assert search.finalists == [{"a": 0}, {"a": 3}, {"a": 2}]
    single_search = search_grids(score, {"a": 3}, {"a": (3,)})
    assert single_search.finalists == [{"a": 3}]
