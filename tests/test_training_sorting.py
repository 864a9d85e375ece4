"""Sorting networks: samples, causality, padding, greedy decoding, edit distance."""

import functools
import itertools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import to_single

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.training import Variant
from meanfield.training._arrays import arrays_by_name
from meanfield.training._epochs import NOISE, Trainer, TrainState, orders, role_keys
from meanfield.training._export import layers_of
from meanfield.training.tasks import Sorting, edit_distance

VARIANTS = {
    "softmax": Variant("softmax"),
    "local": Variant("softmax", mask="block-local:1/2"),
    "sparse": Variant("sparse-sinkhorn", {"blocks": 2}),
}
SHORT = Sorting(length=2, n_train=400, n_test=50)
SEEDS = 0, 1


def test_targets_are_sorted_and_tests_are_up_to_twice_as_long():
    task = Sorting(length=6, n_train=800, n_test=40)
    items, split = task.samples(), task.split(3)
    for source, target, n in zip(*items.values(), strict=True):
        assert target[:n].tolist() == sorted(source[:n].tolist())
        assert (target[n:] == 12).all()
        assert (source[n:] == 12).all()
    assert (items["source"].shape, items["target"].shape) == ((1200, 12), (1200, 13))
    train, test = (np.bincount(items["length"][numbers]) for numbers in split)
    assert (len(train), len(test)) == (7, 13)
    assert train[0] == 0
    assert train[1:].min() > 800 / 6 / 2
    symbols = items["source"][items["source"] < 12]
    assert np.bincount(symbols).min() > len(symbols) / 12 * 0.8
    assert task.samples()["source"].tobytes() == items["source"].tobytes()


def test_five_folds_leave_out_a_fifth_each_and_share_no_test():
    task = Sorting(length=6, n_train=800, n_test=40)
    splits = [task.split(seed) for seed in range(5)]
    assert {len(split.train) for split in splits} == {800}
    tests = np.concatenate([split.test for split in splits])
    assert sorted(tests) == list(range(1000, 1200))
    missing = [set(range(1000)) - set(split.train) for split in splits]
    assert len(set.union(*missing)) == 1000
    for part, expected_part in zip(task.split(7), splits[2], strict=True):
        np.testing.assert_array_equal(part, expected_part)


@pytest.mark.parametrize(
    "options", [{"length": 0}, {"n_test": 0}, {"n_train": 0}, {"n_train": 401}]
)
def test_invalid_sorting_options_are_rejected(options: dict[str, Any]):
    with pytest.raises(InvalidInputError, match="got"):
        Sorting(**options)


def test_more_blocks_than_places_are_rejected(key: PRNGKey):
    with pytest.raises(InvalidInputError, match="at most 4, twice `length`"):
        SHORT.network(key, Variant("sparse-sinkhorn", {"blocks": 5}))


def test_the_encoder_layers_are_exported(key: PRNGKey):
    arrays = arrays_by_name(SHORT.network(key, VARIANTS["softmax"]))
    assert len(layers_of(arrays, Path())) == 2 * 4  # layers, arrays of each
    with pytest.raises(UnsupportedError, match="no unmasked self-attention layer"):
        layers_of(arrays_by_name(SHORT.network(key, VARIANTS["local"])), Path())


def test_a_decoder_of_another_attention_is_rejected(key: PRNGKey):
    with pytest.raises(
        InvalidInputError, match="`softmax` or `as-encoder`; got `causal`"
    ):
        Sorting(decoder="causal")
    for variant in (Variant("sinkhorn"), Variant("softmax", mask="strided:1/2")):
        with pytest.raises(
            UnsupportedError, match=r"no causal form .* `softmax, mask block-local`"
        ):
            Sorting(length=2, decoder="as-encoder").network(key, variant)


@pytest.mark.slow_cases("as-encoder-local")
@pytest.mark.parametrize(
    ("decoder", "name"),
    [("softmax", "softmax"), ("as-encoder", "local"), ("as-encoder", "sparse")],
    ids=lambda value: value,
)
def test_later_symbols_do_not_change_scores(decoder: str, name: str, key: PRNGKey):
    task = Sorting(length=4, decoder=decoder)
    network = to_single(task.network(key, VARIANTS[name]))
    source, target = jnp.array([3, 1, 7, 1, 5, 0, 8, 8]), jnp.array([0, 1, 1, 3, 5, 7])
    scores = eqx.filter_jit(lambda target: network(source, jnp.array(6), target))
    for t in range(len(target) - 1):
        changed_scores = np.asarray(scores(target.at[t].set(6)))
        assert np.array_equal(changed_scores[: t + 1], scores(target)[: t + 1])
        assert not np.array_equal(changed_scores[t + 1], scores(target)[t + 1])


@pytest.mark.slow_cases("sparse", "local")
@pytest.mark.parametrize("name", VARIANTS)
def test_padding_symbols_have_no_effect(name: str, key: PRNGKey):
    network = to_single(Sorting(length=4).network(key, VARIANTS[name]))
    source, target = jnp.array([3, 1, 7, 1, 5]), jnp.array([1, 1, 3, 5, 7, 8])
    longer = jnp.append(source, jnp.array([2, 8, 0]))
    scores = eqx.filter_jit(network)
    bare = scores(source, jnp.array(5), target)
    padded_scores = scores(longer, jnp.array(5), target)
    np.testing.assert_allclose(padded_scores, bare, rtol=0, atol=1e-5)
    longer_scores = scores(longer, jnp.array(6), target)
    assert np.abs(longer_scores - bare).max() > 1e-2


@pytest.mark.slow_cases("local")
@pytest.mark.parametrize("name", ["local", "sparse"])
def test_every_length_has_a_finite_gradient(name: str, key: PRNGKey):
    """Empty blocks, and sorts so sharp that weights underflow."""
    options = {"blocks": 4, "W_B": "normal:10"}
    sharp = Variant("sparse-sinkhorn", options)
    variant = sharp if name == "sparse" else VARIANTS[name]
    task = Sorting(length=4, n_train=80, n_test=8)
    network = to_single(task.network(key, variant))
    items = {k: jnp.asarray(array[-40:]) for k, array in task.samples().items()}
    assert set(items["length"].tolist()) == set(range(1, 9))

    def slope(item: dict[str, jax.Array]) -> eqx.Module:
        loss = lambda network: task.measures(network, item, key)["loss"]
        return eqx.filter_grad(loss)(network)

    slopes = eqx.filter_jit(eqx.filter_vmap(slope))(items)
    for leaf in jax.tree.leaves(eqx.filter(slopes, eqx.is_array)):
        assert np.isfinite(leaf).all()


@functools.cache
def trained_networks(epochs: int) -> tuple[Trainer, TrainState, np.ndarray]:
    """Networks trained to sort two or three symbols, and the first losses."""
    with jax.enable_x64(False):
        trainer = Trainer(SHORT, "adam", SHORT.samples())
        state = trainer.start(VARIANTS["softmax"], SEEDS)
        trains = np.stack([SHORT.split(seed).train for seed in SEEDS])
        losses = []
        for epoch in range(1, epochs + 1):
            batches = jnp.asarray(orders(SEEDS, epoch, trains, 40))
            keys, rate = role_keys(SEEDS, NOISE), jnp.asarray(3e-3, jnp.float32)
            state, loss = trainer.run_epoch(state, batches, keys, rate)
            losses.append(np.asarray(loss).mean(axis=0))
    return trainer, state, np.stack(losses)


def evaluate_networks(epochs: int) -> dict[str, np.ndarray]:
    trainer, state, _ = trained_networks(epochs)
    tests = np.stack([SHORT.split(seed).test for seed in SEEDS])
    with jax.enable_x64(False):
        measures = trainer.evaluate(state, jnp.asarray(tests))
    return {name: np.asarray(values) for name, values in measures.items()}


@pytest.mark.slow
def test_networks_learn_to_sort_at_training_length():
    _, _, losses = trained_networks(8)
    assert np.all(losses[-1] < losses[0] / 2)
    measures = evaluate_networks(8)
    within = measures["length"] <= 2
    # Of four symbols and the end, two places by chance are both right once in 25.
    assert measures["correct"][within].mean() > 0.5
    np.testing.assert_array_equal(measures["within"], measures["correct"] * within)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_teacher_forced_accuracy_implies_greedy_accuracy(seed: int):
    """A loop of greedy decoding, and an edit distance in Python."""
    _, state, _ = trained_networks(8)
    take = lambda leaf: leaf[seed] if eqx.is_array(leaf) else leaf
    network = jax.tree.map(take, state.networks)
    scores = eqx.filter_jit(lambda *args: jax.vmap(network)(*args))
    numbers = SHORT.split(seed).test
    items = {name: array[numbers] for name, array in SHORT.samples().items()}
    places = range(items["target"].shape[1])
    with jax.enable_x64(False):
        greedy = np.zeros_like(items["target"])
        for t in places:
            args = items["source"], items["length"], greedy
            greedy[:, t] = np.argmax(scores(*map(jnp.asarray, args))[:, t], axis=-1)
        distance = jax.lax.map(
            lambda item: SHORT.distance(network, item),
            {name: jnp.asarray(array) for name, array in items.items()},
            batch_size=50,
        )
    counts = items["length"]
    pairs = list(zip(greedy.tolist(), items["target"].tolist(), counts, strict=True))
    right = [text[: n + 1] == target[: n + 1] for text, target, n in pairs]
    np.testing.assert_array_equal(evaluate_networks(8)["correct"][seed], right)
    assert 0.2 < np.mean(right) < 0.9
    upto = lambda symbols: symbols[: [*symbols, 4].index(4)]
    edits = [levenshtein(upto(text), target[:n]) / n for text, target, n in pairs]
    np.testing.assert_allclose(distance, edits, rtol=1e-6)


def levenshtein(first: list[int], second: list[int]) -> int:
    """The edit distance by its definition, without a table."""
    if not first or not second:
        return len(first) + len(second)
    (a, *rest), (b, *second_rest) = first, second
    if a == b:
        return levenshtein(rest, second_rest)
    return 1 + min(
        levenshtein(rest, second),
        levenshtein(first, second_rest),
        levenshtein(rest, second_rest),
    )


def test_edit_distance_matches_its_definition(rng: np.random.Generator):
    distance = jax.jit(edit_distance)
    for m, n in itertools.product(range(6), range(6)):
        first, second = rng.integers(0, 3, 6), rng.integers(0, 3, 6)
        lengths = jnp.array(m), jnp.array(n)
        expected = levenshtein(first[:m].tolist(), second[:n].tolist())
        assert distance(jnp.asarray(first), jnp.asarray(second), lengths) == expected
