"""Records of the internals of trained networks, one for each seed.

The record of a network on images contains errors of column sums, and the quantities
measured in `depths.py` and `heads.py`. Quantities of heads are averaged over the heads
of a layer at each stored epoch; for the last epoch the record also contains them for
each head. The record of a network on sets contains the quantities measured in
`cloud_sizes.py`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.trained.internals.cloud_sizes import measure_sizes
from experiments.trained.internals.depths import measure_depths
from experiments.trained.internals.heads import HeadNumbers, head_numbers
from experiments.trained.records import Line, common_entries, round_digits
from meanfield.training import Encoder, Record, SelfAttention, TrainFolder, network
from meanfield.training.tasks.patches import PatchNetwork
from meanfield.training.tasks.solids import SetNetwork

IMAGES = 50  # number of test images that are measured for each seed
SIZES = 16, 64, 256  # numbers of points in a cloud; networks are trained with 64


def image_lines(folder: Path) -> list[Line]:
    """Records of networks on images, from a finished training run."""
    return _lines(folder, _image_line)


def set_lines(folder: Path) -> list[Line]:
    """Records of networks on sets, from a finished training run."""
    return _lines(folder, _set_line)


def _lines(
    folder: Path, line_of_seed: Callable[[Path, Record, int], Line]
) -> list[Line]:
    common, record = common_entries(folder), TrainFolder(folder).record()
    with jax.enable_x64(False), jax.default_matmul_precision("highest"):  # noqa: FBT003
        return [
            {"seed": seed, **common, **line_of_seed(folder, record, i)}
            for i, seed in enumerate(record.spec.seeds)
        ]


def _image_line(folder: Path, record: Record, i: int) -> Line:
    """Measurements of one seed's network on images, at each stored epoch."""
    seed, epochs = record.spec.seeds[i], TrainFolder(folder).epochs
    test = record.spec.splits()[i].test[:IMAGES]
    images = jnp.asarray(record.spec.build_task().samples()["image"][test])
    numbers, depths = [], []
    for epoch in epochs:
        trained = network(folder, seed=seed, epoch=epoch)
        assert isinstance(trained, PatchNetwork)
        numbers.append(numbers_of_heads(trained.encoder))
        mus = jax.vmap(trained.tokens)(images)
        depths.append(measure_depths(trained.encoder, mus))
    names = HeadNumbers._fields
    log = [record.log[epoch] for epoch in epochs]
    return {
        "epochs": epochs,
        "correct": as_lists([entry["test"]["correct"][i] for entry in log]),
        "columns": as_lists([_over_heads(entry["columns"]["rms"][i]) for entry in log]),
        "layers": {
            name: as_lists([n[name].mean(1) for n in numbers]) for name in names
        },
        "heads": {name: as_lists(numbers[-1][name]) for name in names},
        "depths": {n: as_lists([values[n] for values in depths]) for n in depths[0]},
    }


def _over_heads(rms: Sequence[Sequence[float]]) -> np.ndarray:
    """Root mean squares of each layer, from the root mean squares of its heads."""
    return np.sqrt(np.mean(np.square(rms), axis=1))


def _set_line(folder: Path, record: Record, i: int) -> Line:
    """Measurements of one seed's network on sets, before and after training."""
    epochs = [0, record.epoch]
    loaded = [network(folder, seed=record.spec.seeds[i], epoch=e) for e in epochs]
    networks = [part for part in loaded if isinstance(part, SetNetwork)]
    assert len(networks) == len(epochs)
    distances = measure_sizes(networks, SIZES)
    log = [record.log[epoch] for epoch in epochs]
    return {
        "epochs": epochs,
        "correct": as_lists([entry["test"]["correct"][i] for entry in log]),
        "sizes": list(SIZES),
        **{name: as_lists(values) for name, values in distances.items()},
    }


def numbers_of_heads(encoder: Encoder) -> dict[str, np.ndarray]:
    """The quantities of `HeadNumbers`, as arrays by layer and head."""
    parts = [block.part for block in encoder.blocks]
    numbers = [head_numbers(p) for p in parts if isinstance(p, SelfAttention)]
    return {
        name: np.stack([getattr(part, name) for part in numbers])
        for name in HeadNumbers._fields
    }


def as_lists(values: Sequence[Any] | np.ndarray) -> Any:
    """Nested lists of numbers with four digits; `None` in place of NaN or infinity."""
    return _without_nan(round_digits(np.asarray(values, np.float64).tolist()))


def _without_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nan(value) for value in values]
    return values if np.isfinite(values) else None
