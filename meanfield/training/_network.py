"""Access to a single trained network."""

from collections.abc import Sequence
from pathlib import Path

import equinox as eqx

from ._arrays import fill_template
from ._epochs import WEIGHTS, role_keys, single_precision
from ._folder import TrainFolder
from ._record import check_same_code


def network(
    folder: Path, *, seed: int, epoch: int | None = None, plugins: Sequence[Path] = ()
) -> eqx.Module:
    """One network of a training run, as its task builds it, in single precision.

    Args:
        folder: folder of the training run.
        seed: seed of the network.
        epoch: epoch of the weights: 0 (initial weights), a power of two, or the last
            epoch (the default).
        plugins: plugin files of the training run.

    Raises:
        InputFileError: if there is no training run, or a plugin is missing or changed.
        InvalidInputError: if there is no such seed or epoch.
        StoreError: if a file is damaged, or was written by another version.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import flow
        >>> from meanfield.training import Recipe, TrainSpec, Variant
        >>> from meanfield.training import network, train
        >>> recipe = Recipe(epochs=1, batch_size=1000, learning_rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 14})
        >>> _ = train(spec, Path("digits"))
        >>> trained = network(Path("digits"), seed=3)
        >>> image = spec.build_task().samples()["image"][0]
        >>> mu = trained.tokens(image)  # four patches and a class token
        >>> trained.encoder.states(mu).shape  # before and after the block
        (2, 5, 128)
        >>> run = flow(trained.encoder.dynamics(), mu, [0.0, 1.0])
        >>> run.final.tokens.x.shape
        (5, 128)
    """
    train_folder = TrainFolder(folder)
    record = train_folder.record()
    check_same_code(folder, record, plugins)
    epoch_number = record.epoch if epoch is None else epoch
    arrays = train_folder.weights(seed, epoch_number)
    spec = record.spec
    with single_precision():
        (key,) = role_keys((seed,), WEIGHTS)
        draw = spec.build_task().network
        template = eqx.filter_eval_shape(draw, key, spec.variant)
        return fill_template(template, arrays, f"`{folder}`")
