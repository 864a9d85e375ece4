"""What is recorded of the insides of trained networks, of each seed a line.

A line has the numbers of `heads.py`, their means over the heads of a layer at each
epoch that has weights, and head by head at the last; columns of matrices; and the
numbers of `depths.py`. Of sets it has those of `more_points.py`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.trained.insides.depths import over_depth
from experiments.trained.insides.heads import HeadNumbers, head_numbers
from experiments.trained.insides.more_points import by_size
from experiments.trained.records import Line, origin, short
from meanfield.training import Encoder, Record, SelfAttention, TrainFolder, network
from meanfield.training.tasks.patches import PatchNetwork
from meanfield.training.tasks.solids import SetNetwork

IMAGES = 50  # of the test of each seed, whose tokens are followed
SIZES = 16, 64, 256  # points; networks are taught by 64


def lines_of_images(folder: Path) -> list[Line]:
    """The lines of networks of patches."""
    return _lines(folder, _of_images)


def lines_of_sets(folder: Path) -> list[Line]:
    """The lines of set transformers."""
    return _lines(folder, _of_sets)


def _lines(folder: Path, of_seed: Callable[[Path, Record, int], Line]) -> list[Line]:
    common, record = origin(folder), TrainFolder(folder).record()
    with jax.enable_x64(False), jax.default_matmul_precision("highest"):  # noqa: FBT003
        return [
            {"seed": seed, **common, **of_seed(folder, record, i)}
            for i, seed in enumerate(record.spec.seeds)
        ]


def _of_images(folder: Path, record: Record, i: int) -> Line:
    """What one seed has inside, by epoch."""
    seed, epochs = record.spec.seeds[i], TrainFolder(folder).epochs
    test = record.spec.splits()[i].test[:IMAGES]
    images = jnp.asarray(record.spec.build_task().samples()["image"][test])
    numbers, depths = [], []
    for epoch in epochs:
        own = network(folder, seed=seed, epoch=epoch)
        assert isinstance(own, PatchNetwork)
        numbers.append(of_heads(own.encoder))
        depths.append(over_depth(own.encoder, jax.vmap(own.tokens)(images)))
    names = HeadNumbers._fields
    log = [record.log[epoch] for epoch in epochs]
    return {
        "epochs": epochs,
        "correct": listed([entry["test"]["correct"][i] for entry in log]),
        "columns": listed([_over_heads(entry["columns"]["rms"][i]) for entry in log]),
        "layers": {name: listed([n[name].mean(1) for n in numbers]) for name in names},
        "heads": {name: listed(numbers[-1][name]) for name in names},
        "depths": {n: listed([found[n] for found in depths]) for n in depths[0]},
    }


def _over_heads(rms: Sequence[Sequence[float]]) -> np.ndarray:
    """Root mean squares by layer and head, as those of layers."""
    return np.sqrt(np.mean(np.square(rms), axis=1))


def _of_sets(folder: Path, record: Record, i: int) -> Line:
    """What one seed makes of more points, before the first epoch and after the last."""
    epochs = [0, record.epoch]
    made = [network(folder, seed=record.spec.seeds[i], epoch=e) for e in epochs]
    networks = [own for own in made if isinstance(own, SetNetwork)]
    assert len(networks) == len(epochs)
    log = [record.log[epoch] for epoch in epochs]
    return {
        "epochs": epochs,
        "correct": listed([entry["test"]["correct"][i] for entry in log]),
        "sizes": list(SIZES),
        **{name: listed(found) for name, found in by_size(networks, SIZES).items()},
    }


def of_heads(encoder: Encoder) -> dict[str, np.ndarray]:
    """The numbers of heads, by layer and head."""
    parts = [block.part for block in encoder.blocks]
    numbers = [head_numbers(p) for p in parts if isinstance(p, SelfAttention)]
    return {
        name: np.stack([getattr(own, name) for own in numbers])
        for name in HeadNumbers._fields
    }


def listed(values: Sequence[Any] | np.ndarray) -> Any:
    """Lists of numbers to four digits; `None` where one is not finite."""
    return _without_nan(short(np.asarray(values, np.float64).tolist()))


def _without_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nan(value) for value in values]
    return values if np.isfinite(values) else None
