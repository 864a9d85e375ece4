"""Training: epochs, folders, parameters, the command."""

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult
from extending_page import CLI
from jaxtyping import Array
from scipy import special, stats
from training_cases import PROJECTIONS, RECIPE, VARIANTS, Weights, make_pairs_task, spec

from meanfield import models
from meanfield._folders import templates
from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    SimulationError,
    StoreError,
    UnsupportedError,
)
from meanfield.measures import Points
from meanfield.training import (
    Progress,
    Recipe,
    Split,
    TrainFolder,
    TrainSpec,
    Variant,
    export,
    resume,
    tasks,
    train,
)


@pytest.mark.slow_cases("sinkhorn", "differential", "esp-soft", "sparse-sinkhorn")
@pytest.mark.parametrize("name", VARIANTS)
def test_arrays_are_trained_and_constants_stay(name: str, tmp_path: Path):
    train(spec(name, recipe=dataclasses.replace(RECIPE, epochs=1)), tmp_path / "a")
    folder = TrainFolder(tmp_path / "a")
    first, last = (
        folder.read("weights-0000.safetensors"),
        folder.read("weights-0001.safetensors"),
    )
    names = ("epsilon", "temperature", "tau", "noise", "query_bias", "key_bias")
    for place in first:
        stays = place.endswith(names)
        assert np.array_equal(first[place], last[place]) == stays, place


def test_frozen_slices_are_not_trained(tmp_path: Path):
    variant = dataclasses.replace(VARIANTS["esp-soft"], frozen_arrays=("directions",))
    recipe = dataclasses.replace(RECIPE, epochs=1)
    train(dataclasses.replace(spec(recipe=recipe), variant=variant), tmp_path / "a")
    folder = TrainFolder(tmp_path / "a")
    places = folder.read("weights-0001.safetensors")
    (name,) = [place for place in places if place.endswith("directions")]
    first = folder.read("weights-0000.safetensors")
    assert np.array_equal(first[name], places[name])


def test_losses_match_a_handwritten_network(tmp_path: Path):
    """Softmax in a block with pre-norm, and Adam as published."""
    train(spec(seeds=(3,)), tmp_path / "a")
    folder, task = TrainFolder(tmp_path / "a"), make_pairs_task()(count=200)
    w = {k: v[0] for k, v in folder.read("weights-0000.safetensors").items()}
    split = task.split(3)
    items = {name: jnp.asarray(array) for name, array in task.samples().items()}
    head = "encoder.blocks.0.part.heads."
    constants = {k: v for k, v in w.items() if k.endswith(("epsilon", "_bias"))}
    constants = {k: v for k, v in constants.items() if k.startswith(head)}
    trained_arrays = {k: jnp.asarray(v) for k, v in w.items() if k not in constants}

    def network(w: Weights, x: Array):
        x = x @ w["embedding.weight"].T + w["embedding.bias"][None]
        c = x - x.mean(axis=1, keepdims=True)
        z = c / jnp.sqrt((c**2).mean(axis=1, keepdims=True) + 1e-5)
        z = z * w["encoder.blocks.0.pre_norm.weight"][None]
        z = z + w["encoder.blocks.0.pre_norm.bias"][None]
        for h in range(2):
            q, k = z @ w[head + "score.Q"][h].T, z @ w[head + "score.K"][h].T
            P = jax.nn.softmax(q @ k.T / np.sqrt(8.0), axis=1)
            x = (
                x
                + P
                @ (z @ w[head + "value_projection"][h].T)
                @ w[head + "output_projection"][h].T
            )
        return x.mean(axis=0) @ w["output_layer.weight"].T + w["output_layer.bias"]

    def loss(w: Weights, batch: Array):
        def cross_entropy(x: Array, label: Array):
            return -jax.nn.log_softmax(network(w, x))[label]

        return jnp.mean(
            jax.vmap(cross_entropy)(items["points"][batch], items["label"][batch])
        )

    slope = jax.jit(jax.value_and_grad(loss))
    m = v = jax.tree.map(jnp.zeros_like, trained_arrays)
    count = 0
    for epoch, rate in ((1, 3e-3), (2, 3e-3), (3, 3e-4)):
        order = np.random.default_rng([3, 1, epoch]).permutation(split.train)
        losses = []
        for batch in order.reshape(-1, 20):
            count += 1
            value, g = slope(trained_arrays, batch)
            losses.append(float(value))
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, v, g)
            trained_arrays = jax.tree.map(
                lambda w, m, v, c=count, rate=rate: (
                    w
                    - rate * (m / (1 - 0.9**c)) / (jnp.sqrt(v / (1 - 0.999**c)) + 1e-8)
                ),
                trained_arrays,
                m,
                v,
            )
        loss_in_log = folder.record().log[epoch]["train_loss"][0]
        assert abs(loss_in_log - np.mean(losses)) < 1e-4


class _InterruptedByTest(Exception):
    pass


def _files(folder: Path) -> dict[str, bytes]:
    names = [f for f in folder.iterdir() if f.name != "seconds.json"]
    return {f.name: f.read_bytes() for f in names}


def test_an_interrupted_training_ends_with_the_same_bytes(tmp_path: Path):
    def interrupt(step: Progress):
        raise _InterruptedByTest

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(spec(), whole)
    with pytest.raises(_InterruptedByTest):
        train(spec(), parts, report=interrupt)
    (parts / "state-0002.safetensors").write_bytes(b"cut off before its commit")
    with pytest.raises(_InterruptedByTest):
        resume(parts, report=interrupt)
    resume(parts)
    assert _files(whole) == _files(parts)


def test_batched_seeds_train_like_single_ones(tmp_path: Path):
    batch = train(spec(seeds=(4, 7)), tmp_path / "both").log[-1]
    single_log = train(spec(seeds=(7,)), tmp_path / "alone").log[-1]
    assert abs(batch["train_loss"][1] - single_log["train_loss"][0]) < 1e-4


@pytest.mark.slow
def test_shuffled_labels_give_chance_accuracy(tmp_path: Path):
    class ShuffledTask(make_pairs_task()):
        def samples(self):
            items = super().samples()
            label = np.random.default_rng(1).permutation(items["label"])
            return {**items, "label": label}

    tasks.register("shuffled")(dataclasses.dataclass(frozen=True)(ShuffledTask))
    recipe = dataclasses.replace(RECIPE, epochs=4)
    seeds = tuple(range(4))
    actual = train(
        TrainSpec("shuffled", VARIANTS["sinkhorn"], recipe, seeds), tmp_path / "a"
    )
    correct = round(sum(actual.log[-1]["test"]["correct"]) * 120)
    assert stats.binomtest(correct, 120 * len(seeds)).pvalue > 1e-3


def test_the_log_has_the_columns_of_the_matrices(tmp_path: Path):
    run = spec(recipe=dataclasses.replace(RECIPE, epochs=1), seeds=(2,))
    entry = train(run, tmp_path / "a").log[0]["columns"]
    task = make_pairs_task()(count=200)
    with jax.enable_x64(False):
        network = task.network(jax.random.fold_in(jax.random.key(2), 0), run.variant)
    items, test = task.samples(), task.split(2).test[:50]
    matrices, plans = [], eqx.filter_jit(task.plans)
    for i in test:
        item = {name: jnp.asarray(array[i]) for name, array in items.items()}
        matrices.append(np.asarray(plans(network, item)))
    sums = np.stack(matrices).sum(axis=3)[:, 0]  # samples, heads, columns
    rms = np.sqrt(((sums - 1) ** 2).mean(axis=(0, 2)))
    np.testing.assert_allclose(entry["rms"][0][0], rms, rtol=1e-4)
    near = ((sums >= 0.5) & (sums <= 2)).mean(axis=(0, 2))
    np.testing.assert_allclose(entry["fraction_near"][0][0], near, atol=1e-12)
    median = np.quantile(sums, 0.5, axis=(0, 2))
    quantiles = np.asarray(entry["quantiles"])[0, 0]
    np.testing.assert_allclose(quantiles[:, 2], median, rtol=1e-4)
    rows = np.stack(matrices)[:, 0]  # samples, heads, queries, keys
    perplexity = np.exp(stats.entropy(rows, axis=-1)) / rows.shape[-1]
    expected = perplexity.mean(axis=(0, 2))
    np.testing.assert_allclose(entry["relative_perplexity"][0][0], expected, rtol=1e-4)


def test_the_validation_split_never_uses_the_test_set():
    split = Split(np.arange(8, 100), np.arange(8))
    validation = split.validation_split()
    assert not set(validation.train) & set(validation.test)
    assert {*validation.train, *validation.test} == set(split.train)
    assert len(validation.test) == 23


def test_few_samples_are_repeated_to_fill_an_epoch():
    run = dataclasses.replace(spec(), distinct_samples=7)
    assert TrainSpec.from_json(run.as_json()) == run
    (few, *_), (all_samples, *_) = run.splits(), spec().splits()
    assert few.train.shape == all_samples.train.shape
    np.testing.assert_array_equal(few.test, all_samples.test)
    assert set(few.train) == set(all_samples.train[:7])
    counts = np.bincount(few.train)
    assert np.ptp(counts[counts > 0]) <= 1
    with pytest.raises(InvalidInputError, match="`distinct_samples` must be from 1"):
        dataclasses.replace(run, distinct_samples=10**6).splits()


def test_a_network_overfits_few_samples(tmp_path: Path):
    recipe = dataclasses.replace(RECIPE, epochs=30, learning_rate=1e-2)
    run = dataclasses.replace(spec(recipe=recipe, seeds=(1,)), distinct_samples=4)
    log = train(run, tmp_path / "a").log
    assert log[-1]["train_loss"][0] < 0.1 * log[1]["train_loss"][0]


def test_a_non_finite_loss_stops_and_keeps_the_last_epoch(tmp_path: Path):
    run = spec(recipe=dataclasses.replace(RECIPE, learning_rate=1e30))
    with pytest.raises(SimulationError, match="not finite in epoch"):
        train(run, tmp_path / "a")
    assert TrainFolder(tmp_path / "a").record().epoch < 3


def test_folders_reject_foreign_content(tmp_path: Path):
    place = tmp_path / "a"
    with pytest.raises(InputFileError, match="no training"):
        resume(place)
    train(spec(recipe=dataclasses.replace(RECIPE, epochs=1)), place)
    with pytest.raises(InvalidInputError, match="already holds a training run"):
        train(spec(), place)
    (state,) = place.glob("state-*")
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.write_bytes(bytes(data))
    with pytest.raises(StoreError, match="changed since it was written"):
        resume(place)
    (place / "training.json").write_text("{}")
    with pytest.raises(StoreError, match="is damaged"):
        resume(place)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": ()}, "one or more"),
        ({"seeds": (1, 1)}, "distinct numbers"),
        ({"options": {"colour": 3}}, "unexpected keyword"),
        ({"seeds": (-1,)}, "from 0 to"),
        ({"recipe": Recipe(1, 1000, 1e-3)}, "at most 160, the number"),
        ({"variant": Variant("sinkhorn", {"iteration": 5})}, "mean `iterations`"),
        ({"variant": Variant("esp-soft", {}, ("direction",))}, "mean `directions`"),
    ],
)
def test_impossible_training_specs_are_rejected(
    changes: dict[str, Any], message: str, tmp_path: Path
):
    with pytest.raises(InvalidInputError, match=message):
        train(spec(**changes), tmp_path / "a")


@pytest.mark.parametrize(
    "change", [{"epochs": 0}, {"batch_size": -1}, {"learning_rate": 0.0}]
)
def test_optimiser_settings_must_be_positive(change: dict[str, float]):
    with pytest.raises(InvalidInputError, match="must be positive"):
        dataclasses.replace(RECIPE, **change)


def test_exported_heads_match_the_network(tmp_path: Path):
    run = spec(recipe=dataclasses.replace(RECIPE, epochs=2), seeds=(5, 3))
    train(run, tmp_path / "a")
    export(tmp_path / "a", tmp_path / "heads", seed=3, epoch=1)
    checkpoint = models.load(tmp_path / "heads")
    assert checkpoint.config["epoch"] == 1
    w = TrainFolder(tmp_path / "a").read("weights-0001.safetensors")
    root = "encoder.blocks.0.part.heads."
    Q, K = (w[f"{root}score.{n}"][1].astype(float) for n in "QK")
    for h, actual in enumerate(models.inspect(checkpoint).heads):
        A = K[h].T @ Q[h] / np.sqrt(8.0)
        eigenvalues = np.linalg.eigvalsh((A + A.T) / 2)
        assert abs(actual.smallest - eigenvalues[0]) < 1e-12
        assert abs(actual.largest - eigenvalues[-1]) < 1e-12
    rng = np.random.default_rng(0)
    mu = Points.uniform(rng.normal(size=(5, 16)))
    velocity = models.layers(checkpoint).field(0.5, mu)(mu.tokens)
    x = np.asarray(mu.tokens.x)
    expected = np.zeros_like(x)
    for h in range(2):
        P = special.softmax((x @ Q[h].T) @ (x @ K[h].T).T / np.sqrt(8.0), axis=1)
        reading, writing = (w[root + n][1][h].astype(float) for n in PROJECTIONS)
        expected += P @ x @ reading.T @ writing.T
    np.testing.assert_allclose(velocity, expected, rtol=0, atol=1e-12)
    for change, message in (
        ({"seed": 4}, "no seed 4"),
        ({"epoch": 3}, "use one of 0, 1, 2"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            export(tmp_path / "a", tmp_path / "b", **{"seed": 3, **change})
    with pytest.raises(UnsupportedError, match="no words"):
        models.read(checkpoint).embedding(np.array([1]))


def test_train_runs_resumes_and_compares(cli: CLI, tmp_path: Path):
    plugin = str(shutil.copy(templates()["task"], tmp_path / "mine.py"))
    start = (
        "train",
        "start",
        "pairs2",
        "--epochs",
        "2",
        "--batch-size",
        "20",
        "--seeds",
    )
    (tmp_path / "mine.py").write_text(
        Path(plugin).read_text().replace('"pairs"', '"pairs2"')
    )
    options = ("--task-options", "count=100", "--plugin", plugin)
    first: CommandResult = cli(*start, "0:3", *options, "--out", "first")
    assert first.code == 0, first.err
    second = cli(
        *start, "0:3", "--learning-rate", "0.01", *options, "--out", "second", "--json"
    )
    assert second.code == 0, second.err
    output = cli("train", "show", "first", "second", "--plugin", plugin)
    assert "undecided" in output.out
    few = cli(*start, "0:3", *options, "--distinct-samples", "4", "--out", "few")
    assert re.search(r"distinct samples +4\n", few.out)
    failure = cli("train", "show", "first", "few", "--plugin", plugin)
    assert "must have the same `distinct_samples`; got None and 4" in failure.err
    third = cli(*start, "0,5,6", *options, "--out", "third")
    assert third.code == 0
    failure = cli("train", "show", "first", "third", "--plugin", plugin)
    assert failure.code == 2
    assert "must have the same `seeds`; got (0, 1, 2) and (0, 5, 6)" in failure.err
