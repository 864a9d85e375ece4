"""Trained networks, examined with their attention or with another in its place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import numpy as np
from jaxtyping import Float

from meanfield.errors import InvalidInputError

from ._arrays import filled, named
from ._epochs import TrainState, single
from ._folder import TrainFolder
from ._record import Record, check_same_code
from ._train import Session
from .networks import Variant


def examined(
    folder: Path, variant: Variant | None = None, *, plugins: Sequence[Path] = ()
) -> dict[str, Float[np.ndarray, "seeds items"]]:
    """What is measured of each item that examines the networks of a training.

    Another attention takes the arrays that were taught and has numbers of its own, such
    as iterations or a temperature: soft sorts are examined as hard ones so. Nothing can
    be taught through some that can be examined.

    Args:
        folder: of the training.
        variant: the attention in place of theirs, under their mask if it has none;
            their own if `None`.
        plugins: the files of code that the training was begun with, and perhaps that
            of the other attention.

    Raises:
        InputFileError: if there is no training, or a plugin is missing or has changed.
        StoreError: if a file is damaged, or the task has other items by now.
        InvalidInputError: if the other attention has other arrays.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import Recipe, TrainSpec, Variant
        >>> from meanfield.training import examined, train
        >>> recipe = Recipe(epochs=1, batch=1000, rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 28})
        >>> _ = train(spec, Path("digits"))
        >>> examined(Path("digits"))["correct"].shape
        (1, 1000)
        >>> balanced = Variant("sinkhorn", {"iterations": 21})
        >>> examined(Path("digits"), balanced)["correct"].shape
        (1, 1000)
    """
    place = TrainFolder(folder)
    record = place.record()
    check_same_code(folder, record, plugins)
    with single():
        session = Session(record.spec, place)
        if variant is None:
            state = session.restored(record)
        else:
            state = _plugged(session, record, variant)
        measures = session.trainer.examined(state, session.tests)
        return {name: np.asarray(values) for name, values in measures.items()}


def _plugged(session: Session, record: Record, variant: Variant) -> TrainState:
    """What was taught, in networks of another attention.

    Raises:
        StoreError: if a file is damaged, or the task has other items by now.
        InvalidInputError: if they have other arrays.
    """
    state = session.restored(record)
    variant = replace(variant, mask=variant.mask or record.spec.variant.mask)
    networks, one = session.trainer.drawn(variant, record.spec.seeds)
    arrays, chosen = eqx.partition(networks, replace(variant, given=()).learned(one))
    taught, places = named(state.learned), named(arrays)
    taught |= {n: a for n, a in named(state.fixed).items() if n in places}
    if _shapes(taught) != _shapes(places):
        raise InvalidInputError(
            f"Networks of `{variant.label}` attention have other arrays than those of "
            f"`{record.spec.variant.label}`, which were taught; name an attention with "
            "the same."
        )
    where = f"`{session.place.path}`"
    return TrainState(filled(arrays, taught, where), chosen, moments=None)


def _shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}
