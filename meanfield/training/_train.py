"""Training, epoch by epoch, each committed before the next begins."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from meanfield.errors import InvalidInputError, SimulationFailed, StoreError
from meanfield.storage.digests import digests_by_name

from ._arrays import digest_of, filled, named
from ._columns import LOOKED_AT, column_sums, summary
from ._epochs import NOISE, Trainer, TrainState, orders, role_keys, single
from ._folder import TrainFolder, weights_file
from ._record import OWNER, Record, check_same_code
from ._spec import TrainSpec


class Progress(NamedTuple):
    """How far a training is.

    Attributes:
        epoch: how many epochs are done.
        epochs: of how many.
        entry: of the log, about the last.
        seconds: that it took.

    Examples:
        >>> from meanfield.training import Progress
        >>> step = Progress(epoch=1, epochs=3, entry={"train_loss": [0.7]}, seconds=2.0)
        >>> step.seconds * (step.epochs - step.epoch)  # left
        4.0
    """

    epoch: int
    epochs: int
    entry: Mapping[str, Any]
    seconds: float


Report = Callable[[Progress], None]


def train(
    spec: TrainSpec,
    folder: Path,
    *,
    plugins: Sequence[Path] = (),
    report: Report | None = None,
) -> Record:
    """Trains networks into a new folder; what was committed last.

    In single precision, whatever JAX is set to.

    Args:
        spec: what to train.
        folder: where to; made if it is not there.
        plugins: files of code that the spec depends on; the folder keeps their digests.
        report: told of each epoch.

    Raises:
        InvalidInputError: if the folder is taken, or the spec cannot work.
        InputFileError: if a plugin cannot be read.
        UnsupportedError: if a package is missing, or the attention has no gradient.
        ResourceError: if the folder cannot be written.
        SimulationFailed: if a loss, or another measure, is not finite.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import Recipe, TrainSpec, Variant, train
        >>> recipe = Recipe(epochs=1, batch=1000, rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 28})
        >>> record = train(spec, Path("digits"))
        >>> record.is_done, sorted(record.log[-1]["test"])
        (True, ['correct', 'loss'])
    """
    place = TrainFolder(folder)
    place.refuse_taken()
    digests = digests_by_name(plugins, owner=OWNER)
    with single():
        session = Session(spec, place)
        state = session.trainer.start(spec.variant, spec.seeds)
        if spec.recipe.cooling is not None:
            state.refuse_uncoolable(spec.recipe.cooling, spec.recipe.epochs)
        with place.held():
            place.refuse_taken()  # by another, since the first look
            entry = session.examined(state, 0)
            nothing = Record(spec, session.digest, 0, (), ("", ""), plugins=digests)
            record = session.committed(state, nothing, entry)
            return session.finished(state, record, report)


def resume(
    folder: Path, *, plugins: Sequence[Path] = (), report: Report | None = None
) -> Record:
    """Goes on with a training, to the bytes that it would have had.

    Args:
        folder: of the training.
        plugins: the files of code that it was begun with.
        report: told of each epoch.

    Raises:
        InputFileError: if there is none, or a plugin is missing or has changed.
        StoreError: if a file is damaged, or the task has other items by now.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import Recipe, TrainSpec, Variant, resume, train
        >>> recipe = Recipe(epochs=1, batch=1000, rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 28})
        >>> record = train(spec, Path("digits"))
        >>> resume(Path("digits")) == record  # nothing is left to do
        True
    """
    place = TrainFolder(folder)
    record = place.record()  # of no training no folder is made
    with place.held(), single():
        record = place.record()
        check_same_code(folder, record, plugins, is_exact=True)
        session = Session(record.spec, place)
        return session.finished(session.restored(record), record, report)


class Session:
    """What training needs besides its state."""

    def __init__(self, spec: TrainSpec, place: TrainFolder) -> None:
        task = spec.built()
        items = task.items()
        self.spec, self.place = spec, place
        self.trainer = Trainer(task, spec.recipe.optimiser, items)
        self.digest = digest_of(items)
        splits = spec.splits()
        self.trains = np.stack([split.train for split in splits])
        if spec.recipe.batch > self.trains.shape[1]:
            raise InvalidInputError(
                f"`batch` is at most the {self.trains.shape[1]} items that teach; got "
                f"{spec.recipe.batch}."
            )
        self.tests = jnp.asarray(np.stack([split.test for split in splits]))
        self.keys = role_keys(spec.seeds, NOISE)

    def restored(self, record: Record) -> TrainState:
        """The state that was committed last.

        Raises:
            StoreError: if its file is damaged, or the task has other items by now.
        """
        if self.digest != record.items:
            raise StoreError(
                f"The items of `{record.spec.task}` are not those that "
                f"`{self.place.path}` was begun with; install the same data, or begin "
                "anew."
            )
        template = self.trainer.start(record.spec.variant, record.spec.seeds)
        name, digest = record.state
        where = f"`{self.place.path / name}`"
        return filled(template, self.place.read(name, digest), where)

    def finished(
        self, state: TrainState, record: Record, report: Report | None
    ) -> Record:
        """Trains the epochs that are left."""
        while not record.is_done:
            begin = time.perf_counter()
            epoch = record.epoch + 1
            state, losses = self._epoch(state, epoch)
            entry = {**self.examined(state, epoch), "train_loss": losses}
            record = self.committed(state, record, entry)
            seconds = time.perf_counter() - begin
            self.place.note_seconds(epoch, seconds)
            if report is not None:
                report(Progress(epoch, self.spec.recipe.epochs, entry, seconds))
        return record

    def _epoch(self, state: TrainState, epoch: int) -> tuple[TrainState, list[float]]:
        """The state after an epoch, and the mean loss of each seed.

        Raises:
            SimulationFailed: if a loss is not finite.
        """
        recipe, seeds = self.spec.recipe, self.spec.seeds
        batches = jnp.asarray(orders(seeds, epoch, self.trains, recipe.batch))
        rate = jnp.asarray(recipe.rate_of(epoch), jnp.float32)
        keys = jax.vmap(jax.random.fold_in, (0, None))(self.keys, epoch)
        if recipe.cooling is not None and epoch > recipe.cooling.after:
            state = state.scaled(recipe.cooling.option, recipe.cooling.factor)
        state, losses = self.trainer.epoch(state, batches, keys, rate)
        means = np.mean(np.asarray(losses, np.float64), axis=0)
        if not np.isfinite(means).all():
            bad = [s for s, m in zip(seeds, means, strict=True) if not np.isfinite(m)]
            raise SimulationFailed(
                f"The loss of seed {bad[0]} is not finite in epoch {epoch}; what was "
                "complete before it is kept. Take a smaller rate."
            )
        return state, means.tolist()

    def examined(self, state: TrainState, epoch: int) -> dict[str, Any]:
        """The entry of the log about networks as they are.

        Raises:
            SimulationFailed: if a measure is not finite.
        """
        measures = self.trainer.examined(state, self.tests)
        means = {
            name: np.mean(np.asarray(values, np.float64), axis=1).tolist()
            for name, values in measures.items()
        }
        sums = column_sums(self.trainer, state, self.tests[:, :LOOKED_AT])
        columns = {} if sums is None else {"columns": summary(np.asarray(sums))}
        if not all(map(math.isfinite, _numbers([means, columns]))):
            raise SimulationFailed(
                f"What was measured after epoch {epoch} is not finite; what was "
                "complete before it is kept. Take a smaller rate."
            )
        return {"epoch": epoch, "test": means, **columns}

    def committed(
        self, state: TrainState, record: Record, entry: Mapping[str, Any]
    ) -> Record:
        """The record with one entry more, on disk with all that it needs."""
        epoch = entry["epoch"]
        weights = dict(record.weights)
        if epoch & (epoch - 1) == 0 or epoch == self.spec.recipe.epochs:
            name, digest = self.place.write(weights_file(epoch), named(state.networks))
            weights[name] = digest
        file = self.place.write(f"state-{epoch:04d}.safetensors", named(state))
        log = (*record.log, entry)
        record = dataclasses.replace(
            record, epoch=epoch, log=log, state=file, weights=weights
        )
        self.place.commit(record)
        return record


def _numbers(values: Any) -> Iterator[float]:
    """All numbers in lists and mappings, at any depth."""
    if isinstance(values, Mapping | list):
        parts = values.values() if isinstance(values, Mapping) else values
        for part in parts:
            yield from _numbers(part)
    else:
        yield values
