"""Training runs on disk: every epoch is committed atomically and survives a kill."""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from meanfield._extras import extra
from meanfield._reading import json_value, read_text
from meanfield._writing import writing
from meanfield.errors import InputFileError, InvalidInputError, StoreError
from meanfield.storage.digests import digests_by_name, missing_digests
from meanfield.storage.disk import (
    DRAFT,
    Lock,
    alteration_message,
    damage_message,
    names_at,
    read_plain,
    replace_file,
    replace_text,
)

from ._old_names import rename_arrays
from ._record import (
    OWNER,
    RECORD,
    Record,
    epoch_of,
    read_record,
    read_stored_record,
    write_record,
)

LOCK, SECONDS = "lock", "seconds.json"
_WEIGHTS = re.compile(r"weights-\d{4,9}\.safetensors")
_STATE = re.compile(r"state-\d{4,9}\.safetensors")
# Files of a training run that was killed before its first commit.
_LEFTOVERS = re.compile(rf"lock|(weights|state)-0000\.safetensors|\..+{DRAFT}")


class TrainFolder:
    """Folder of a training run.

    Args:
        path: path of the folder.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.training import TrainFolder
        >>> folder = TrainFolder(Path("arrays"))
        >>> with folder.lock():
        ...     name, digest = folder.write("a.safetensors", {"a": np.arange(3)})
        >>> folder.read(name, digest)["a"]
        array([0, 1, 2])
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the folder against other writers.

        Raises:
            StoreError: if another process holds the lock.
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

    def check_available(self) -> None:
        """Raises unless a new training run can be written to the folder.

        Files of a run that was killed before its first commit do not count.

        Raises:
            InvalidInputError: if the folder contains something else.
        """
        if (self.path / RECORD).exists():
            raise InvalidInputError(
                f"`{self.path}` already holds a training run: resume it with "
                f"`meanfield train resume {self.path}`, or name another folder."
            )
        if not all(map(_LEFTOVERS.fullmatch, names_at(self.path))):
            raise InvalidInputError(
                f"`{self.path}` contains other files: name another folder."
            )

    def record(self) -> Record:
        """The last committed record.

        Raises:
            InputFileError: if there is no training run, or it needs a plugin.
            StoreError: if its record is damaged.
        """
        return read_record(self.path)

    def check_plugins(self, plugins: Sequence[Path]) -> None:
        """Compares plugins, before they are run, with the recorded plugins.

        Raises:
            InputFileError: if there is no training run, or a plugin has changed.
            StoreError: if its record is damaged.
        """
        digests = read_stored_record(self.path).get("plugins", {})
        digests_by_name(plugins, owner=OWNER)
        missing_digests(digests, plugins, owner=OWNER)

    def commit(self, record: Record) -> None:
        """Commits a record, and deletes the states of earlier records."""
        write_record(self.path, record)
        for file in self.path.iterdir():
            if _STATE.fullmatch(file.name) and file.name != record.state[0]:
                file.unlink(missing_ok=True)

    @property
    def epochs(self) -> list[int]:
        """The epochs with stored weights: 0, 1, 2, 4, …, and the last.

        Raises:
            InputFileError: if there is no training run, or it needs a plugin.
            StoreError: if its record is damaged.
        """
        return sorted(map(epoch_of, self._weights_files(self.record())))

    def _weights_files(self, record: Record) -> Mapping[str, str | None]:
        """Digests of the weights files, by name; `None` for files without a digest."""
        if record.has_digests:
            return record.weights
        names = [file.name for file in self.path.iterdir()]
        return dict.fromkeys(filter(_WEIGHTS.fullmatch, names))

    def weights(self, seed: int, epoch: int) -> dict[str, np.ndarray]:
        """The arrays of one network after an epoch.

        Raises:
            InputFileError: if there is no training run.
            InvalidInputError: if there is no such seed, or no weights of that epoch.
            StoreError: if the record or the file is damaged.
        """
        record = self.record()
        seeds, files = record.spec.seeds, self._weights_files(record)
        if seed not in seeds:
            choices = ", ".join(map(str, seeds))
            raise InvalidInputError(f"`{self.path}` has no seed {seed}; use {choices}.")
        if epoch not in map(epoch_of, files):
            raise InvalidInputError(
                f"`{self.path}` has no weights after epoch {epoch}; use one of "
                f"{', '.join(map(str, sorted(map(epoch_of, files))))}."
            )
        name = weights_file(epoch)
        arrays = self.read(name, files.get(name))
        if any(array.shape[:1] != (len(seeds),) for array in arrays.values()):
            raise StoreError(
                damage_message(self.path / name, "it lacks an array of a seed")
            )
        return {name: array[seeds.index(seed)] for name, array in arrays.items()}

    def write(self, name: str, arrays: Mapping[str, np.ndarray]) -> tuple[str, str]:
        """Writes arrays to a file atomically; returns its name and SHA-256."""
        data = extra("safetensors.numpy", "train").save(dict(arrays))
        replace_file(self.path / name, lambda stream: stream.write(data))
        return name, hashlib.sha256(data).hexdigest()

    def read(self, name: str, digest: str | None = None) -> dict[str, np.ndarray]:
        """The arrays in a file, under their current names.

        Raises:
            StoreError: if the file is missing, damaged or altered.
        """
        file = self.path / name
        try:
            data = read_plain(file)
        except OSError as error:
            raise StoreError(f"`{file}` cannot be read: {error.strerror}.") from error
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            raise StoreError(alteration_message(file))
        fault = extra("safetensors", "train").SafetensorError
        try:
            return rename_arrays(extra("safetensors.numpy", "train").load(data))
        except (fault, KeyError, TypeError, ValueError) as error:
            why = f"it is no complete safetensors file ({error})"
            raise StoreError(damage_message(file, why)) from error

    def note_seconds(self, epoch: int, seconds: float) -> None:
        """Stores the duration of an epoch, which is not part of the result."""
        file = self.path / SECONDS
        try:
            seconds_by_epoch = (
                dict(json_value(read_text(file))) if file.exists() else {}
            )
        except (InputFileError, TypeError, ValueError):  # a damaged file is replaced
            seconds_by_epoch = {}
        replace_text(
            file, json.dumps({**seconds_by_epoch, str(epoch): round(seconds, 3)})
        )


def weights_file(epoch: int) -> str:
    """Name of the weights file of an epoch: 0, a power of two, or the last epoch."""
    return f"weights-{epoch:04d}.safetensors"
