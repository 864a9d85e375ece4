"""Training: each epoch is committed before the next one begins."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from meanfield.errors import InvalidInputError, SimulationError, StoreError
from meanfield.storage.digests import digests_by_name

from ._arrays import arrays_by_name, digest_of, fill_template
from ._columns import N_SAMPLES, attention_sums, summary
from ._epochs import NOISE, Trainer, TrainState, orders, role_keys, single_precision
from ._folder import TrainFolder, weights_file
from ._record import OWNER, Record, check_same_code
from ._spec import TrainSpec


class Progress(NamedTuple):
    """Progress of a training run after an epoch.

    Attributes:
        epoch: number of completed epochs.
        epochs: total number of epochs.
        entry: log entry of the last epoch.
        seconds: duration of the last epoch.

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
    """Trains networks, stores them in a new folder, and returns the last record.

    Training uses single precision, whatever the configuration of JAX.

    Args:
        spec: spec of the training run.
        folder: folder of the training run; created if it does not exist.
        plugins: plugin files of the spec, whose digests are stored.
        report: function that is called after each epoch.

    Raises:
        InvalidInputError: if the folder already holds files, or the spec is invalid.
        InputFileError: if a plugin cannot be read.
        UnsupportedError: if a package is missing, or the attention has no gradient.
        ResourceError: if the folder cannot be written.
        SimulationError: if a loss or another recorded quantity is not finite.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import Recipe, TrainSpec, Variant, train
        >>> recipe = Recipe(epochs=1, batch_size=1000, learning_rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 28})
        >>> record = train(spec, Path("digits"))
        >>> record.is_done, sorted(record.log[-1]["test"])
        (True, ['correct', 'loss'])
    """
    train_folder = TrainFolder(folder)
    train_folder.check_available()
    digests = digests_by_name(plugins, owner=OWNER)
    with single_precision():
        session = Session(spec, train_folder)
        state = session.trainer.start(spec.variant, spec.seeds)
        if spec.recipe.annealing is not None:
            state.check_annealing(spec.recipe.annealing, spec.recipe.epochs)
        with train_folder.lock():
            train_folder.check_available()  # another process may have used the folder
            entry = session.evaluate(state, 0)
            empty_record = Record(
                spec, session.digest, 0, (), ("", ""), plugins=digests
            )
            record = session.commit(state, empty_record, entry)
            return session.train_remaining(state, record, report)


def resume(
    folder: Path, *, plugins: Sequence[Path] = (), report: Report | None = None
) -> Record:
    """Resumes a training run; the result is identical to that of an uninterrupted run.

    Args:
        folder: folder of the training run.
        plugins: plugin files of the training run.
        report: function that is called after each epoch.

    Raises:
        InputFileError: if there is no training run, or a plugin is missing or changed.
        StoreError: if a file is damaged, or the samples of the task have changed.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import Recipe, TrainSpec, Variant, resume, train
        >>> recipe = Recipe(epochs=1, batch_size=1000, learning_rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (3,), {"patch": 28})
        >>> record = train(spec, Path("digits"))
        >>> resume(Path("digits")) == record  # nothing is left to do
        True
    """
    train_folder = TrainFolder(folder)
    record = train_folder.record()  # raises before `lock` would create the folder
    with train_folder.lock(), single_precision():
        record = train_folder.record()
        check_same_code(folder, record, plugins, is_exact=True)
        session = Session(record.spec, train_folder)
        return session.train_remaining(session.restore_state(record), record, report)


class Session:
    """Data and settings of a training run that do not change between epochs."""

    def __init__(self, spec: TrainSpec, train_folder: TrainFolder) -> None:
        task = spec.build_task()
        samples = task.samples()
        self.spec, self.place = spec, train_folder
        self.trainer = Trainer(task, spec.recipe.optimiser, samples)
        self.digest = digest_of(samples)
        splits = spec.splits()
        self.trains = np.stack([split.train for split in splits])
        if spec.recipe.batch_size > self.trains.shape[1]:
            raise InvalidInputError(
                f"`batch_size` must be at most {self.trains.shape[1]}, the number of "
                f"training samples; got {spec.recipe.batch_size}."
            )
        self.tests = jnp.asarray(np.stack([split.test for split in splits]))
        self.keys = role_keys(spec.seeds, NOISE)

    def restore_state(self, record: Record) -> TrainState:
        """The last committed state.

        Raises:
            StoreError: if its file is damaged, or the samples of the task have changed.
        """
        if self.digest != record.samples_digest:
            raise StoreError(
                f"The samples of `{record.spec.task}` have changed since "
                f"`{self.place.path}` was started. Install the data that it was "
                "started with, or start a new training run."
            )
        template = self.trainer.start(record.spec.variant, record.spec.seeds)
        name, digest = record.state
        where = f"`{self.place.path / name}`"
        return fill_template(template, self.place.read(name, digest), where)

    def train_remaining(
        self, state: TrainState, record: Record, report: Report | None
    ) -> Record:
        """Trains the remaining epochs and returns the last record."""
        while not record.is_done:
            begin = time.perf_counter()
            epoch = record.epoch + 1
            state, losses = self._run_epoch(state, epoch)
            entry = {**self.evaluate(state, epoch), "train_loss": losses}
            record = self.commit(state, record, entry)
            seconds = time.perf_counter() - begin
            self.place.note_seconds(epoch, seconds)
            if report is not None:
                report(Progress(epoch, self.spec.recipe.epochs, entry, seconds))
        return record

    def _run_epoch(
        self, state: TrainState, epoch: int
    ) -> tuple[TrainState, list[float]]:
        """The state after an epoch, and the mean loss of each seed.

        Raises:
            SimulationError: if a loss is not finite.
        """
        recipe, seeds = self.spec.recipe, self.spec.seeds
        batches = jnp.asarray(orders(seeds, epoch, self.trains, recipe.batch_size))
        learning_rate = jnp.asarray(recipe.learning_rate_at(epoch), jnp.float32)
        keys = jax.vmap(jax.random.fold_in, (0, None))(self.keys, epoch)
        if recipe.annealing is not None and epoch > recipe.annealing.delay:
            state = state.scale_option(recipe.annealing.option, recipe.annealing.factor)
        state, losses = self.trainer.run_epoch(state, batches, keys, learning_rate)
        means = np.mean(np.asarray(losses, np.float64), axis=0)
        if not np.isfinite(means).all():
            bad = [s for s, m in zip(seeds, means, strict=True) if not np.isfinite(m)]
            raise SimulationError(
                f"The loss of seed {bad[0]} is not finite in epoch {epoch}; earlier "
                "epochs are kept. Use a smaller learning rate."
            )
        return state, means.tolist()

    def evaluate(self, state: TrainState, epoch: int) -> dict[str, Any]:
        """The log entry of an epoch, with the measured quantities of each network.

        Raises:
            SimulationError: if a recorded quantity is not finite.
        """
        measures = self.trainer.evaluate(state, self.tests)
        means = {
            name: np.mean(np.asarray(values, np.float64), axis=1).tolist()
            for name, values in measures.items()
        }
        sums = attention_sums(self.trainer, state, self.tests[:, :N_SAMPLES])
        columns = {} if sums is None else {"columns": summary(sums)}
        if not all(map(math.isfinite, _numbers([means, columns]))):
            raise SimulationError(
                f"A measured quantity is not finite after epoch {epoch}; earlier "
                "epochs are kept. Use a smaller learning rate."
            )
        return {"epoch": epoch, "test": means, **columns}

    def commit(
        self, state: TrainState, record: Record, entry: Mapping[str, Any]
    ) -> Record:
        """Writes state and weights, then commits the record with the new entry."""
        epoch = entry["epoch"]
        weights = dict(record.weights)
        if epoch & (epoch - 1) == 0 or epoch == self.spec.recipe.epochs:
            name, digest = self.place.write(
                weights_file(epoch), arrays_by_name(state.networks)
            )
            weights[name] = digest
        file = self.place.write(f"state-{epoch:04d}.safetensors", arrays_by_name(state))
        log = (*record.log, entry)
        record = dataclasses.replace(
            record, epoch=epoch, log=log, state=file, weights=weights
        )
        self.place.commit(record)
        return record


def _numbers(values: Any) -> Iterator[float]:
    """All numbers in nested lists and mappings."""
    if isinstance(values, Mapping | list):
        parts = values.values() if isinstance(values, Mapping) else values
        for part in parts:
            yield from _numbers(part)
    else:
        yield values
