"""Networks of the training tasks against the same networks in plain NumPy."""

from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain_networks as plain
import pytest

from meanfield._typing import PRNGKey
from meanfield.errors import UnsupportedError
from meanfield.training import Recipe, TrainFolder, TrainSpec, Variant, evaluate, train
from meanfield.training._arrays import arrays_by_name

SLICED = {"slices": 3, "temperature": 0.1, "power": 1, "tau": 0.1, "epsilon": 4.0}
SPARSE = {"blocks": 2, "W_B": "normal:0.05"}
Sample = dict[str, np.ndarray]
RECIPE = Recipe(epochs=1, batch_size=50, learning_rate=3e-3)
N_SAMPLES = 60
Answers = tuple[np.ndarray, np.ndarray]  # scores (answers, classes), right classes


def answer_label(
    network: Callable[..., np.ndarray], field: str
) -> Callable[..., Answers]:
    return lambda weights, name, sample: (
        network(weights, name, np.asarray(sample[field], np.float64)),
        np.array([sample["label"]]),
    )


def answer_symbols(weights: plain.Arrays, name: str, sample: Sample) -> Answers:
    n, target = int(sample["length"]), sample["target"]
    scores = plain.sequence_network(weights, name, sample["source"][:n], target)
    return scores[: n + 1], target[: n + 1]


def answer_characters(weights: plain.Arrays, name: str, sample: Sample) -> Answers:
    text = sample["text"].astype(int)
    name = plain.CAUSAL.get(name, name)
    return plain.character_network(weights, name, text[:-1]), text[1:]


ANSWERS = {
    "patches": answer_label(plain.patch_network, "image"),
    "parity": answer_label(plain.patch_network, "image"),
    "solids": answer_label(plain.set_network, "points"),
    "sorting": answer_symbols,
    "characters": answer_characters,
}
OPTIONS = {
    "patches": {"patch": 14, "shift": 2},
    "parity": {"patch": 14, "layers": 2, "count": 40},
    "solids": {"points": 16},
    "sorting": {"length": 4, "n_train": 800, "n_test": 60, "decoder": "as-encoder"},
    "characters": {"context": 16, "layers": 1, "windows": 800},
}
CELLS = [
    ("patches", Variant("softmax", {"epsilon": 2.0})),
    ("patches", Variant("esp-soft", SLICED)),
    ("parity", Variant("sinkhorn", {"iterations": 5})),
    ("parity", Variant("differential")),
    ("solids", Variant("softmax")),
    ("solids", Variant("sinkhorn", {"iterations": 5})),
    ("sorting", Variant("softmax")),
    ("sorting", Variant("sparse-sinkhorn", SPARSE)),
]
TEXTS = [
    ("characters", Variant("softmax", mask="causal")),
    ("characters", Variant("sparse-sinkhorn-causal", SPARSE)),
]


def of_cells(*cells: tuple[str, Variant]) -> pytest.MarkDecorator:
    name_of = lambda value: getattr(value, "attention", value)
    return pytest.mark.parametrize(("task", "variant"), cells, ids=name_of)


def score_sample(
    task: str, variant: Variant, weights: plain.Arrays, sample: Sample
) -> tuple[float, bool | None]:
    """Loss and correctness of a sample in NumPy; `None` if two scores nearly tie."""
    double = {name: np.asarray(array, np.float64) for name, array in weights.items()}
    scores, right = ANSWERS[task](double, variant.attention, sample)
    scores_of_right = np.take_along_axis(scores, right[:, None], axis=1)[:, 0]
    loss = np.mean(np.logaddexp.reduce(scores, axis=1) - scores_of_right)
    low, high = np.sort(scores, axis=1)[:, -2:].T
    is_tie = np.min(high - low) < 1e-3
    is_right = np.all(np.argmax(scores, axis=1) == right)
    return float(loss), None if is_tie else bool(is_right)


@of_cells(*CELLS)
def test_scores_of_networks_with_large_scores(
    task: str, variant: Variant, key: PRNGKey
):
    """Random networks, whose queries and keys are tripled."""
    part = TrainSpec(task, variant, RECIPE, (2,), OPTIONS[task]).build_task()
    triple = lambda path, leaf: 3 * leaf if path[-1].name in {"Q", "K"} else leaf
    with jax.enable_x64(False), jax.default_matmul_precision("highest"):
        arrays, rest = eqx.partition(part.network(key, variant), eqx.is_array)
        arrays = jax.tree_util.tree_map_with_path(triple, arrays)
        network = eqx.combine(arrays, rest)
        measures = eqx.filter_jit(lambda item: part.measures(network, item, None))
        for number in range(4):
            sample = {name: array[number] for name, array in part.samples().items()}
            item = {name: jnp.asarray(array) for name, array in sample.items()}
            measured = measures(item)
            loss, correct = score_sample(task, variant, arrays_by_name(arrays), sample)
            assert float(measured["loss"]) == pytest.approx(loss, rel=2e-4, abs=2e-5)
            assert correct in {None, bool(measured["correct"])}


@pytest.mark.slow
@of_cells(*CELLS, *TEXTS)
def test_scores_of_trained_networks(task: str, variant: Variant, tmp_path: Path):
    """The same answers and losses on test samples, after an epoch at a high rate."""
    spec = TrainSpec(task, variant, RECIPE, (2,), OPTIONS[task])
    try:
        samples = spec.build_task().samples()
    except UnsupportedError as error:  # `make texts` installs the texts
        if task != "characters":
            raise
        pytest.skip(str(error))
    record = train(spec, tmp_path / "run")
    last = max(record.weights)
    arrays = TrainFolder(tmp_path / "run").read(last, record.weights[last])
    weights = {name: array[0] for name, array in arrays.items()}
    tests = spec.splits()[0].test[:N_SAMPLES]
    measured = evaluate(tmp_path / "run")
    for place, number in enumerate(tests):
        sample = {name: array[number] for name, array in samples.items()}
        loss, correct = score_sample(task, variant, weights, sample)
        actual = measured["loss"][0, place]
        assert actual == pytest.approx(loss, rel=2e-4, abs=2e-5)
        if "correct" in measured:
            assert correct in {None, bool(measured["correct"][0, place])}
