"""One trained network itself, to be looked into."""

from collections.abc import Sequence
from pathlib import Path

import equinox as eqx

from ._arrays import filled
from ._epochs import WEIGHTS, role_keys, single
from ._folder import TrainFolder
from ._record import check_same_code


def network(
    folder: Path,
    *,
    seed: int,
    epoch: int | None = None,
    plugins: Sequence[Path] = (),
) -> eqx.Module:
    """One network of a training, as its task builds it, in single precision.

    Args:
        folder: of the training.
        seed: of the network.
        epoch: after which it is taken, 0, 1, 2, 4, …, or the last if `None`; 0 is the
            random start.
        plugins: the files of code that the training was begun with.

    Raises:
        InputFileError: if there is no training, or a plugin is missing or has changed.
        InvalidInputError: if there is no such seed or epoch.
        StoreError: if a file is damaged, or was written by another version.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import flow
        >>> from meanfield.training import Recipe, TrainSpec, Variant
        >>> from meanfield.training import network, train
        >>> recipe = Recipe(epochs=1, batch=1000, rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 14})
        >>> _ = train(spec, Path("digits"))
        >>> taught = network(Path("digits"), seed=3)
        >>> image = spec.built().items()["image"][0]
        >>> mu = taught.tokens(image)  # four patches, and one token by which it is read
        >>> taught.encoder.states(mu).shape  # before the block, and after it
        (2, 5, 128)
        >>> run = flow(taught.encoder.dynamics(), mu, [0.0, 1.0])
        >>> run.final.tokens.x.shape
        (5, 128)
    """
    place = TrainFolder(folder)
    record = place.record()
    check_same_code(folder, record, plugins)
    chosen = record.epoch if epoch is None else epoch
    arrays = place.weights(seed, chosen)
    spec = record.spec
    with single():
        (key,) = role_keys((seed,), WEIGHTS)
        draw = spec.built().network
        template = eqx.filter_eval_shape(draw, key, spec.variant)
        return filled(template, arrays, f"`{folder}`")
