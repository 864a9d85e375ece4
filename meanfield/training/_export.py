"""Export of the heads of one trained network as a checkpoint for `meanfield.models`."""

import json
import re
from pathlib import Path

import numpy as np

from meanfield._writing import writing
from meanfield.errors import InvalidInputError, StoreError, UnsupportedError
from meanfield.models.checkpoint import CONFIG, WEIGHTS
from meanfield.models.trained_network import ARRAYS, NAME, array_name
from meanfield.storage.disk import damage_message, replace_text

from ._folder import TrainFolder

HEADS = re.compile(r"(.*\.part\.heads)\.score\.Q")  # no path of cross-attention matches
PLACES = dict(zip(ARRAYS, ("score.Q", "score.K", *ARRAYS[2:]), strict=True))


def export(folder: Path, out: Path, *, seed: int, epoch: int | None = None) -> Path:
    """Writes the heads of one network to a folder that `models.load` reads.

    Args:
        folder: folder of the training run.
        out: new folder for the model.
        seed: seed of the network.
        epoch: epoch of the weights: 0, a power of two, or the last epoch (the default).

    Raises:
        InputFileError: if there is no training run, or it needs a plugin.
        StoreError: if a file is damaged.
        InvalidInputError: if there is no such seed or epoch, or `out` exists.
        UnsupportedError: if the network has no self-attention with queries and keys.
        ResourceError: if the folder cannot be written.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import Recipe, TrainSpec, Variant
        >>> from meanfield.training import export, train
        >>> recipe = Recipe(epochs=1, batch_size=1000, learning_rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 28})
        >>> _ = train(spec, Path("digits"))
        >>> from meanfield import models
        >>> checkpoint = models.load(export(Path("digits"), Path("heads"), seed=3))
        >>> models.read(checkpoint).sizes.head_dimension
        64
    """
    train_folder = TrainFolder(folder)
    record = train_folder.record()
    epoch_number = record.epoch if epoch is None else epoch
    weights = train_folder.weights(seed, epoch_number)
    arrays = layers_of(weights, folder)
    shape = arrays[array_name(0, "Q")].shape
    if len(shape) != 3:
        raise StoreError(damage_message(folder, "its heads are not those of a network"))
    h, k, d = shape
    sizes = {"n_heads": h, "dimension": d, "head_dimension": k}
    config = {
        "model_type": NAME,
        "n_layers": len(arrays) // len(ARRAYS),
        **sizes,
        "seed": seed,
        "epoch": epoch_number,
        "training": record.spec.as_json(),
    }
    _write(out, config, arrays)
    return out


def layers_of(weights: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
    """The arrays of all self-attention layers, in the order of the layers.

    Raises:
        UnsupportedError: if there is no such layer.
        StoreError: if a layer lacks an array.
    """
    roots = [match[1] for match in map(HEADS.fullmatch, weights) if match]
    if not roots:
        raise UnsupportedError(
            f"The networks of `{folder}` have no unmasked self-attention layer with "
            "queries and keys, and a model consists of such layers only."
        )
    number = lambda root: [int(n) for n in re.findall(r"\d+", root)]
    names = {
        array_name(layer, array): f"{root}.{PLACES[array]}"
        for layer, root in enumerate(sorted(roots, key=number))
        for array in ARRAYS
    }
    if not weights.keys() >= set(names.values()):
        raise StoreError(damage_message(folder, "a layer lacks an array of its heads"))
    return {name: weights[place] for name, place in names.items()}


def _write(out: Path, config: dict[str, object], arrays: dict[str, np.ndarray]) -> None:
    if out.exists():
        raise InvalidInputError(f"`{out}` exists; name another folder.")
    with writing(out):
        out.mkdir(parents=True)
    TrainFolder(out).write(WEIGHTS, arrays)
    replace_text(out / CONFIG, json.dumps(config, indent=1) + "\n")
