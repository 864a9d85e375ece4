"""Networks of the training tasks against the same networks in plain NumPy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain_networks as plain
import pytest

from meanfield._typing import PRNGKey
from meanfield.training import Recipe, TrainFolder, TrainSpec, Variant, evaluate, train
from meanfield.training._arrays import arrays_by_name

SLICED = {"slices": 3, "temperature": 0.1, "power": 1, "tau": 0.1, "epsilon": 4.0}
Network = Callable[[Any, str, np.ndarray], np.ndarray]
RECIPE = Recipe(epochs=1, batch_size=50, learning_rate=3e-3)
N_SAMPLES = 60
NETWORKS = {
    "patches": ("image", plain.patch_network),
    "parity": ("image", plain.patch_network),
    "solids": ("points", plain.set_network),
}
OPTIONS = {
    "patches": {"patch": 14, "shift": 2},
    "parity": {"patch": 14, "layers": 2, "count": 40},
    "solids": {"points": 16},
}
CELLS = [
    ("patches", Variant("softmax", {"epsilon": 2.0})),
    ("patches", Variant("esp-soft", SLICED)),
    ("parity", Variant("sinkhorn", {"iterations": 5})),
    ("parity", Variant("differential")),
    ("solids", Variant("softmax")),
    ("solids", Variant("sinkhorn", {"iterations": 5})),
]
of_all_cells = pytest.mark.parametrize(
    ("task", "variant"), CELLS, ids=lambda value: getattr(value, "attention", value)
)


def score_sample(
    task: str, variant: Variant, weights: plain.Arrays, sample: dict[str, np.ndarray]
) -> tuple[float, bool | None]:
    """Loss and correctness of a sample in NumPy; `None` if two scores nearly tie."""
    field, network = NETWORKS[task]
    double = {name: np.asarray(array, np.float64) for name, array in weights.items()}
    item = np.asarray(sample[field], np.float64)
    scores = network(double, variant.attention, item)
    loss = np.logaddexp.reduce(scores) - scores[sample["label"]]
    low, high = np.sort(scores)[-2:]
    is_tie = high - low < 1e-3
    return float(loss), None if is_tie else bool(np.argmax(scores) == sample["label"])


@of_all_cells
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
@of_all_cells
def test_scores_of_trained_networks(task: str, variant: Variant, tmp_path: Path):
    """The same answers and losses on test samples, after an epoch at a high rate."""
    spec = TrainSpec(task, variant, RECIPE, (2,), OPTIONS[task])
    record = train(spec, tmp_path / "run")
    last = max(record.weights)
    arrays = TrainFolder(tmp_path / "run").read(last, record.weights[last])
    weights = {name: array[0] for name, array in arrays.items()}
    samples, tests = spec.build_task().samples(), spec.splits()[0].test[:N_SAMPLES]
    measured = evaluate(tmp_path / "run")
    for place, number in enumerate(tests):
        sample = {name: array[number] for name, array in samples.items()}
        loss, correct = score_sample(task, variant, weights, sample)
        actual = measured["loss"][0, place]
        assert actual == pytest.approx(loss, rel=2e-4, abs=2e-5)
        assert correct in {None, bool(measured["correct"][0, place])}
