"""`RunStore`: a stored run, to which frames are committed segment by segment."""

import copy
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from meanfield._reading import path_of
from meanfield.errors import ResourceError, StoreError

from ._places import check_arrays, check_segments
from ._reading import committed_arrays, read_frame, read_static
from ._record import Record, fingerprint, plain_json, read_record, write_record
from ._schema import RESUMABLE, Derive, Ending, derive_nothing
from ._segments import verify
from ._writing import append_segment, create_store
from .disk import LOCK, Lock

if TYPE_CHECKING:
    import xarray


class RunStore:
    """A stored run; readers see exactly what was committed, bit for bit.

    A store is a folder with the record `commit.json` and, under `data`, a zarr
    hierarchy (format 3) with the groups `static`, `segments/00000`, `segments/00001`,
    …. A segment is written once, flushed, and then named in the record, which is
    replaced atomically. A writer killed at any moment leaves the last commit intact,
    and later writes never touch its files. (A single growing zarr array would not do:
    its shape would be rewritten, and its chunks would need equal sizes.)

    An object shows the record as it was when opened, and its own appends. Use `create`
    or `open` to make an object. The first append claims the store for this writer,
    until `close` is called, the object is deleted or the process ends.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.storage import RunStore
        >>> _ = runs.execute(
        ...     spec.parse({"n": 5, "t": 0.1, "frames": 3}), out=Path("run.zarr")
        ... )
        >>> store = RunStore.open("run.zarr")
        >>> store.frames, store.ending.name, "x" in store.names
        (3, 'finished', True)
        >>> store.check()  # every byte against its digest
    """

    def __init__(self, path: Path, record: Record, lock: Lock | None = None) -> None:
        self.path = path
        self._record = record
        self._lock = lock or Lock(path / LOCK)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        attrs: Mapping[str, object],
        static: Mapping[str, np.ndarray],
        dims: Mapping[str, tuple[str, ...]] | None = None,
    ) -> "RunStore":
        """Creates a store atomically, and claims it for this writer.

        Args:
            path: a folder that does not exist or is empty; its parents are created.
            attrs: JSON values: `spec`, versions, device, dtype, kind, title.
            static: arrays without a time axis, such as `weight`.
            dims: dimensions of variables that are not in `DIMS`.

        Raises:
            InvalidInputError: if the folder is not empty, or an array or `attrs` cannot
                be stored.
            ResourceError: if the folder cannot be written.
        """
        folder = path_of(path)
        lock = create_store(folder, attrs, static, dims or {})
        return cls(folder, read_record(folder), lock).claim()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunStore":
        """The store at `path` as of its last commit; reading needs no claim.

        Raises:
            InputFileError: if there is nothing at this path, or it cannot be read.
            StoreError: if the folder is not a store, or its record is damaged or has
                another schema.
        """
        folder = path_of(path)
        return cls(folder, read_record(folder))

    @property
    def frames(self) -> int:
        """The number of committed frames."""
        return self._record.frames

    @property
    def state(self) -> dict[str, Any]:
        """The values that a run needs, besides its last frame, to continue."""
        return copy.deepcopy(self._record.state)

    @property
    def ending(self) -> Ending | None:
        """How the run ended; `None` if no ending was recorded."""
        return self._record.ending

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the run that were passed to `create`."""
        return cast(dict[str, Any], copy.deepcopy(self._record.attrs))

    @property
    def names(self) -> frozenset[str]:
        """The names of all stored arrays."""
        return frozenset(self._record.static) | frozenset(self._record.variables)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of all dimensions except `time`."""
        return dict(self._record.sizes)

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the run, as JSON values.

        Raises:
            StoreError: if the run was stored without one.
        """
        if not isinstance(self._record.attrs.get("spec"), dict):
            raise StoreError(
                f"`{self.path}` was stored without its specification: `plot` and "
                "`export` can read the frames, but the run cannot be repeated."
            )
        return self.attrs["spec"]

    def static(self) -> dict[str, np.ndarray]:
        """The stored arrays that have no time axis.

        Raises:
            StoreError: if an array is damaged.
        """
        return read_static(self.path, self._record)

    def last_frame(self) -> dict[str, np.ndarray]:
        """The last committed frame, without its time axis: the state of the flow.

        Raises:
            StoreError: if no frame has been committed yet, or an array is damaged.
        """
        return read_frame(self.path, self._record, -1)

    def first_frame(self) -> dict[str, np.ndarray]:
        """The first committed frame, without its time axis: the start of the run.

        Raises:
            StoreError: if no frame has been committed yet, or an array is damaged.
        """
        return read_frame(self.path, self._record, 0)

    def dataset(self, derive: Derive = derive_nothing) -> "xarray.Dataset":
        """All committed frames as a dataset, read lazily and checked against digests.

        Only the times are read immediately; `load` reads the rest.

        `status`, `stop_time`, `t_star` and `t_star_error` are scalars; a run without an
        ending counts as `interrupted` at its last frame.

        Args:
            derive: computes further variables from the frames; see `Kind`.

        Raises:
            StoreError: if an array is damaged; a damaged frame raises when it is read.
        """
        from ._dataset import lazy_dataset  # importing xarray takes 0.3 s

        return lazy_dataset(self.path, self._record, derive)

    def check(self) -> None:
        """Compares all arrays with their digests.

        Raises:
            StoreError: if an array is damaged; the message names it and its segment.
        """
        for group, name, digest in committed_arrays(self.path, self._record):
            verify(self.path, group, name, digest)

    def claim(self) -> "RunStore":
        """Locks the store for this writer and returns the store; can be called again.

        Raises:
            StoreError: if another writer holds it, or has written since it was opened.
            ResourceError: if the folder cannot be written.
        """
        self._lock.acquire()
        self._check_in_place()
        if fingerprint(read_record(self.path)) != fingerprint(self._record):
            self.close()  # another writer wrote, or our own commit was interrupted
            raise StoreError(
                f"`{self.path}` has changed since it was opened; open it again."
            )
        return self

    def reread(self) -> None:
        """Reads the last commit from disk, after an interrupt during a commit.

        Raises:
            StoreError: if the record is damaged.
        """
        self._record = read_record(self.path)

    def close(self) -> None:
        """Releases the claim; the store can still be read, and claimed again."""
        self._lock.release()

    def __enter__(self) -> "RunStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(
        self,
        frames: Mapping[str, np.ndarray],
        state: Mapping[str, object],
        ending: Ending | None = None,
    ) -> None:
        """Commits a segment of frames atomically.

        Frames later than the `stop_time` of an early ending are left out. With empty
        `frames`, only the state and the ending are committed. A run can be continued
        after the ending `interrupted`, but after no other.

        Args:
            frames: arrays with a time axis, including `time`.
            state: JSON values that the run needs, besides its last frame, to continue.
            ending: how the run ended, given with its last segment.

        Raises:
            InvalidInputError: if an array or `state` cannot be stored.
            StoreError: if the run has ended, has other variables, or has another
                writer, or if a part of the store was removed.
            ResourceError: if it cannot be written; earlier segments stay intact.
        """
        self.claim()
        if self.ending is not None and self.ending.name != RESUMABLE:
            raise StoreError(
                f"The run `{self.path}` has ended ({self.ending.name}); start another "
                "run from it with `--from`."
            )
        base = replace(self._record, state=plain_json("state", state), ending=ending)
        try:
            record = append_segment(self.path, base, frames) if frames else base
            self._check_complete(record)
            write_record(self.path, record)
            if ending is not None:  # no later `append` will check the store
                self._check_complete(record)
        except ResourceError:
            self._check_in_place()
            raise
        self._record = record

    def _check_complete(self, record: Record) -> None:
        """Checks, before a commit, that no committed data was removed."""
        self._check_in_place()
        check_segments(self.path, len(record.segments))
        if record.ending is not None:
            arrays = committed_arrays(self.path, record)
            check_arrays(self.path, (group / name for group, name, _ in arrays))

    def _check_in_place(self) -> None:
        if self._lock.is_in_place:
            return
        self.close()
        raise StoreError(
            f"`{self.path}` was removed or moved while the run was written; start the "
            "run again, in a folder that stays in place."
        )
