"""Protocol of the comparisons of trained networks: search, limits, control."""

import jax.numpy as jnp
import numpy as np

from experiments.trained.protocol import CONTROL, Candidate, Search
from experiments.trained.tuning import search_ladders
from meanfield._typing import PRNGKey
from meanfield.training import Variant
from meanfield.training.tasks import Patches


def test_a_search_ends_where_no_neighbour_is_better():
    ladders = {"a": tuple(range(10)), "b": tuple(range(10))}
    score = lambda at: -((at["a"] - 7) ** 2) - (at["b"] - 2) ** 2
    search = search_ladders(score, {"a": 1, "b": 5}, ladders)
    assert search.best == {"a": 7, "b": 2}
    assert search.is_complete
    tried = [tuple(setting.values()) for setting, _ in search.scores]
    assert {(6, 2), (8, 2), (7, 1), (7, 3)} <= set(tried)
    assert len(tried) == len(set(tried))


def test_a_search_stops_after_its_budget():
    ladders = {"a": tuple(range(100))}
    search = search_ladders(lambda at: at["a"], {"a": 0}, ladders, budget=9)
    assert search.best == {"a": 8}
    assert len(search.scores) == 9
    assert not search.is_complete


def test_ends_of_ladders_are_reported_unless_they_are_limits():
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
