"""Trained networks: one of them, or all on the test samples, with any attention."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import numpy as np
from jaxtyping import Float

from meanfield.errors import InvalidInputError

from ._arrays import arrays_by_name, fill_template
from ._epochs import WEIGHTS, TrainState, role_keys, single_precision
from ._folder import TrainFolder
from ._record import Record, check_same_code
from ._train import Session
from .networks import Variant


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


def evaluate(
    folder: Path, variant: Variant | None = None, *, plugins: Sequence[Path] = ()
) -> dict[str, Float[np.ndarray, "seeds items"]]:
    """Evaluates the networks of a training run on each test sample.

    Another attention uses the trained arrays, but its own numbers, such as iterations
    or a temperature. In this way, networks trained with soft sorts can be evaluated
    with hard ones, which cannot be trained because they have no gradient.

    Args:
        folder: folder of the training run.
        variant: attention to use instead, or `None` for the original attention. If it
            has no mask, the mask of the training run is used.
        plugins: plugin files of the training run, and the plugin file of the other
            attention, if there is one.

    Raises:
        InputFileError: if there is no training run, or a plugin is missing or changed.
        StoreError: if a file is damaged, or the samples of the task have changed.
        InvalidInputError: if the other attention has different arrays.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import Recipe, TrainSpec, Variant
        >>> from meanfield.training import evaluate, train
        >>> recipe = Recipe(epochs=1, batch_size=1000, learning_rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 28})
        >>> _ = train(spec, Path("digits"))
        >>> evaluate(Path("digits"))["correct"].shape
        (1, 1000)
        >>> balanced = Variant("sinkhorn", {"iterations": 21})
        >>> evaluate(Path("digits"), balanced)["correct"].shape
        (1, 1000)
    """
    train_folder = TrainFolder(folder)
    record = train_folder.record()
    check_same_code(folder, record, plugins)
    with single_precision():
        session = Session(record.spec, train_folder)
        if variant is None:
            state = session.restore_state(record)
        else:
            state = _replace_attention(session, record, variant)
        measures = session.trainer.evaluate(state, session.tests)
        return {name: np.asarray(values) for name, values in measures.items()}


def _replace_attention(
    session: Session, record: Record, variant: Variant
) -> TrainState:
    """Networks with another attention and the trained arrays.

    Raises:
        StoreError: if a file is damaged, or the samples of the task have changed.
        InvalidInputError: if the networks have different arrays.
    """
    state = session.restore_state(record)
    variant = replace(variant, mask=variant.mask or record.spec.variant.mask)
    networks, network = session.trainer.draw_networks(variant, record.spec.seeds)
    arrays, static = eqx.partition(
        networks, replace(variant, frozen_arrays=()).trainable_mask(network)
    )
    weights, places = arrays_by_name(state.parameters), arrays_by_name(arrays)
    weights |= {n: a for n, a in arrays_by_name(state.static).items() if n in places}
    if _shapes(weights) != _shapes(places):
        raise InvalidInputError(
            f"Networks of `{variant.label}` attention do not have the arrays of the "
            f"trained `{record.spec.variant.label}`. Use an attention with the same "
            "arrays."
        )
    where = f"`{session.place.path}`"
    return TrainState(fill_template(arrays, weights, where), static, moments=None)


def _shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}
