"""A training on disk: every epoch is committed whole, and found again after a kill."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meanfield._reading import json_value, read_text
from meanfield._writing import writing
from meanfield.errors import InputFileError, InvalidInputError, StoreError
from meanfield.models._reading import extra
from meanfield.storage.disk import Lock, replace_file

from ._spec import TrainSpec

RECORD, LOCK, SECONDS = "training.json", "lock", "seconds.json"
SCHEMA = "meanfield-training-1"


@dataclass(frozen=True)
class Record:
    """What is committed of a training.

    Attributes:
        spec: what it is.
        items: the SHA-256 of the task's items.
        epoch: how many epochs are done.
        log: an entry for each of them, and one before the first.
        state: the name of the file of arrays to go on from, and its SHA-256.

    Examples:
        >>> from meanfield.training import Recipe, Record, TrainSpec, Variant
        >>> recipe = Recipe(epochs=2, batch=100, rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (0,))
        >>> Record(spec, items="…", epoch=1, log=(), state=("", "")).is_done
        False
    """

    spec: TrainSpec
    items: str
    epoch: int
    log: tuple[Mapping[str, Any], ...]
    state: tuple[str, str]

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to train."""
        return self.epoch == self.spec.recipe.epochs


class TrainFolder:
    """The folder of a training.

    Args:
        path: of the folder.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import TrainFolder
        >>> folder = TrainFolder(Path("arrays"))
        >>> with folder.held():
        ...     name, digest = folder.write("a.safetensors", {"a": np.arange(3)})
        >>> folder.read(name, digest)["a"]
        array([0, 1, 2])
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other writers away.

        Raises:
            StoreError: if another process writes here.
            ResourceError: if the folder cannot be written.
        """
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.path / LOCK)
        lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def refuse_taken(self) -> None:
        """Keeps a folder in which there is something.

        Raises:
            InvalidInputError: if there is.
        """
        if self.path.exists() and any(f.name != LOCK for f in self.path.iterdir()):
            raise InvalidInputError(
                f"`{self.path}` is taken: go on with `meanfield train resume "
                f"{self.path}`, or name another folder."
            )

    def record(self) -> Record:
        """What was committed last.

        Raises:
            InputFileError: if there is no training.
            StoreError: if its record is damaged.
        """
        file = self.path / RECORD
        if not file.is_file():
            raise InputFileError(f"There is no training at `{self.path}`.")
        try:
            values = json_value(read_text(file))
            if values["schema"] != SCHEMA:
                raise StoreError(
                    f"`{file}` has the schema `{values['schema']}`; this version reads "
                    f"`{SCHEMA}`."
                )
            return Record(
                TrainSpec.from_json(values["spec"]),
                values["items"],
                values["epoch"],
                tuple(values["log"]),
                tuple(values["state"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"`{file}` is damaged: {error!r}.") from error

    def commit(self, record: Record) -> None:
        """Makes a record the last one; states of others go."""
        values = {
            "schema": SCHEMA,
            "spec": record.spec.as_json(),
            "items": record.items,
            "epoch": record.epoch,
            "state": list(record.state),
            "log": list(record.log),
        }
        text = json.dumps(values, indent=1, allow_nan=False) + "\n"
        replace_file(self.path / RECORD, lambda stream: stream.write(text.encode()))
        for file in self.path.glob("state-*.safetensors"):
            if file.name != record.state[0]:
                file.unlink(missing_ok=True)

    @property
    def epochs(self) -> list[int]:
        """The epochs after which there are weights: 0, 1, 2, 4, …, and the last."""
        files = self.path.glob("weights-*.safetensors")
        return sorted(int(file.stem.split("-")[1]) for file in files)

    def weights(self, seed: int, epoch: int) -> dict[str, np.ndarray]:
        """The arrays of one network after an epoch.

        Raises:
            InputFileError: if there is no training.
            InvalidInputError: if there is no such seed, or there are no such weights.
        """
        seeds = self.record().spec.seeds
        if seed not in seeds:
            known = ", ".join(map(str, seeds))
            raise InvalidInputError(f"`{self.path}` has no seed {seed}, but {known}.")
        if epoch not in self.epochs:
            raise InvalidInputError(
                f"`{self.path}` has no weights after epoch {epoch}, but after "
                f"{', '.join(map(str, self.epochs))}."
            )
        stacked = self.read(weights_file(epoch))
        return {name: array[seeds.index(seed)] for name, array in stacked.items()}

    def write(self, name: str, arrays: Mapping[str, np.ndarray]) -> tuple[str, str]:
        """Writes arrays into a file, whole or not at all; its name and SHA-256."""
        data = extra("safetensors.numpy").save(dict(arrays))
        replace_file(self.path / name, lambda stream: stream.write(data))
        return name, hashlib.sha256(data).hexdigest()

    def read(self, name: str, digest: str | None = None) -> dict[str, np.ndarray]:
        """The arrays in a file.

        Raises:
            StoreError: if it is missing, or not the one that was written.
        """
        file = self.path / name
        try:
            data = file.read_bytes()
        except OSError as error:
            raise StoreError(f"`{file}` cannot be read: {error.strerror}.") from error
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            raise StoreError(f"`{file}` is damaged: it is not what was written.")
        return extra("safetensors.numpy").load(data)

    def note_seconds(self, epoch: int, seconds: float) -> None:
        """Writes how long an epoch took; the machine's, and no part of the result."""
        file = self.path / SECONDS
        known = json_value(read_text(file)) if file.is_file() else {}
        text = json.dumps({**known, str(epoch): round(seconds, 3)})
        replace_file(file, lambda stream: stream.write(text.encode()))


def weights_file(epoch: int) -> str:
    """The file of the weights after an epoch; there are those of powers of two."""
    return f"weights-{epoch:04d}.safetensors"
