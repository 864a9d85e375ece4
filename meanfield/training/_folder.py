"""A training on disk: every epoch is committed whole, and found again after a kill."""

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
    altered_message,
    damaged,
    names_at,
    read_plain,
    replace_file,
    replace_text,
)

from ._record import (
    OWNER,
    RECORD,
    Record,
    epoch_of,
    read_record,
    stored_record,
    write_record,
)

LOCK, SECONDS = "lock", "seconds.json"
_WEIGHTS = re.compile(r"weights-\d{4,9}\.safetensors")
_STATE = re.compile(r"state-\d{4,9}\.safetensors")
# What a training leaves that was killed before its first commit.
_UNCOMMITTED = re.compile(rf"lock|(weights|state)-0000\.safetensors|\..+{DRAFT}")


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

        A training that was killed before its first commit is nothing.

        Raises:
            InvalidInputError: if there is.
        """
        if (self.path / RECORD).exists():
            raise InvalidInputError(
                f"`{self.path}` is taken: go on with `meanfield train resume "
                f"{self.path}`, or name another folder."
            )
        if not all(map(_UNCOMMITTED.fullmatch, names_at(self.path))):
            raise InvalidInputError(
                f"`{self.path}` is taken: something else is there; name another folder."
            )

    def record(self) -> Record:
        """What was committed last.

        Raises:
            InputFileError: if there is no training, or it needs a plugin.
            StoreError: if its record is damaged.
        """
        return read_record(self.path)

    def check_plugins(self, plugins: Sequence[Path]) -> None:
        """Compares plugins, before they are run, with those that it was begun with.

        Raises:
            InputFileError: if there is no training, or a plugin has changed since.
            StoreError: if its record is damaged.
        """
        recorded = stored_record(self.path).get("plugins", {})
        digests_by_name(plugins, owner=OWNER)
        missing_digests(recorded, plugins, owner=OWNER)

    def commit(self, record: Record) -> None:
        """Makes a record the last one; states of others go."""
        write_record(self.path, record)
        for file in self.path.iterdir():
            if _STATE.fullmatch(file.name) and file.name != record.state[0]:
                file.unlink(missing_ok=True)

    @property
    def epochs(self) -> list[int]:
        """The epochs after which there are weights: 0, 1, 2, 4, …, and the last.

        Raises:
            InputFileError: if there is no training, or it needs a plugin.
            StoreError: if its record is damaged.
        """
        return sorted(map(epoch_of, self._weights_files(self.record())))

    def _weights_files(self, record: Record) -> Mapping[str, str | None]:
        """The files of weights, and their digests if they have any."""
        if record.has_digests:
            return record.weights
        names = [file.name for file in self.path.iterdir()]
        return dict.fromkeys(filter(_WEIGHTS.fullmatch, names))

    def weights(self, seed: int, epoch: int) -> dict[str, np.ndarray]:
        """The arrays of one network after an epoch.

        Raises:
            InputFileError: if there is no training.
            InvalidInputError: if there is no such seed, or there are no such weights.
            StoreError: if the record or the file is damaged.
        """
        record = self.record()
        seeds, files = record.spec.seeds, self._weights_files(record)
        if seed not in seeds:
            known = ", ".join(map(str, seeds))
            raise InvalidInputError(f"`{self.path}` has no seed {seed}, but {known}.")
        if epoch not in map(epoch_of, files):
            raise InvalidInputError(
                f"`{self.path}` has no weights after epoch {epoch}, but after "
                f"{', '.join(map(str, sorted(map(epoch_of, files))))}."
            )
        name = weights_file(epoch)
        stacked = self.read(name, files.get(name))
        if any(array.shape[:1] != (len(seeds),) for array in stacked.values()):
            raise StoreError(damaged(self.path / name, "it has not one of each seed"))
        return {name: array[seeds.index(seed)] for name, array in stacked.items()}

    def write(self, name: str, arrays: Mapping[str, np.ndarray]) -> tuple[str, str]:
        """Writes arrays into a file, whole or not at all; its name and SHA-256."""
        data = extra("safetensors.numpy", "train").save(dict(arrays))
        replace_file(self.path / name, lambda stream: stream.write(data))
        return name, hashlib.sha256(data).hexdigest()

    def read(self, name: str, digest: str | None = None) -> dict[str, np.ndarray]:
        """The arrays in a file.

        Raises:
            StoreError: if it is missing, or not the one that was written.
        """
        file = self.path / name
        try:
            data = read_plain(file)
        except OSError as error:
            raise StoreError(f"`{file}` cannot be read: {error.strerror}.") from error
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            raise StoreError(altered_message(file))
        fault = extra("safetensors", "train").SafetensorError
        try:
            return extra("safetensors.numpy", "train").load(data)
        except (fault, KeyError, TypeError, ValueError) as error:
            why = f"it is no whole safetensors file ({error})"
            raise StoreError(damaged(file, why)) from error

    def note_seconds(self, epoch: int, seconds: float) -> None:
        """Writes how long an epoch took; the machine's, and no part of the result."""
        file = self.path / SECONDS
        try:
            known = dict(json_value(read_text(file))) if file.exists() else {}
        except (InputFileError, TypeError, ValueError):  # damage costs times alone
            known = {}
        replace_text(file, json.dumps({**known, str(epoch): round(seconds, 3)}))


def weights_file(epoch: int) -> str:
    """The file of the weights after an epoch; there are those of powers of two."""
    return f"weights-{epoch:04d}.safetensors"
