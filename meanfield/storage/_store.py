"""RunStore: frames appended segment by segment, real once the record says so."""

import copy
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from meanfield._reading import path_of
from meanfield.errors import ResourceError, StoreError

from ._places import refuse_losses, refuse_lost_arrays
from ._reading import (
    array_folders,
    read_frame,
    read_static,
    verify_all,
)
from ._record import Record, fingerprint, plain_json, read_record, write_record
from ._schema import RESUMABLE, Derive, Ending, no_more
from ._writing import extended, found
from .disk import LOCK, Lock

if TYPE_CHECKING:
    import xarray


class RunStore:
    """A run on disk: what was committed, bit for bit, and nothing else.

    A store is a folder: `commit.json`, and under `data` a zarr hierarchy (format 3)
    with the groups `static`, `segments/00000`, `segments/00001`, …. A segment is
    written once, flushed, and then named in the record, which is replaced in one step:
    a writer killed at any moment leaves the last commit, and no later write touches its
    files. (An array that grows would have its shape rewritten, and need equal parts.)

    An object is a snapshot of the record it opened plus its own appends. Make one by
    `create` or `open`. The first append claims the store: there is one writer at a
    time, until `close`, the end of the object or the end of the process.

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
        """A new store, claimed for this writer; it appears whole or not at all.

        Args:
            path: a folder that does not exist or is empty; its parents are made.
            attrs: JSON values: `spec`, versions, device, dtype, kind, title.
            static: arrays without a time axis, such as `weight`.
            dims: dimensions of variables whose names the schema does not know.

        Raises:
            InvalidInputError: if the folder is taken, or an array or `attrs` is unfit.
            ResourceError: if it cannot be written.
        """
        folder = path_of(path)
        lock = found(folder, attrs, static, dims or {})
        return cls(folder, read_record(folder), lock).claim()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunStore":
        """The store at `path`, as of its last commit; reading needs no claim.

        Raises:
            InputFileError: if there is nothing at this path, or it cannot be read.
            StoreError: if it is no store, or its record is damaged or of a new schema.
        """
        folder = path_of(path)
        return cls(folder, read_record(folder))

    @property
    def frames(self) -> int:
        """The number of committed frames."""
        return self._record.frames

    @property
    def state(self) -> dict[str, Any]:
        """What the writer needs besides the last frame to go on; its own words."""
        return copy.deepcopy(self._record.state)

    @property
    def ending(self) -> Ending | None:
        """How the run ended, if it did."""
        return self._record.ending

    @property
    def attrs(self) -> dict[str, Any]:
        """What `create` was told of the run."""
        return cast(dict[str, Any], copy.deepcopy(self._record.attrs))

    @property
    def names(self) -> frozenset[str]:
        """The names of all arrays that are stored."""
        return frozenset(self._record.static) | frozenset(self._record.variables)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of all dimensions but `time`."""
        return dict(self._record.sizes)

    @property
    def spec(self) -> dict[str, Any]:
        """The specification the run can be repeated from.

        Raises:
            StoreError: if the run was stored without one.
        """
        if not isinstance(self._record.attrs.get("spec"), dict):
            raise StoreError(
                f"`{self.path}` was stored without its specification: it can be read, "
                "by "
                "`plot` and `export`, but not begun anew."
            )
        return self.attrs["spec"]

    def static(self) -> dict[str, np.ndarray]:
        """The arrays that no frame changes.

        Raises:
            StoreError: if one is damaged.
        """
        return read_static(self.path, self._record)

    def last_frame(self) -> dict[str, np.ndarray]:
        """The last committed frame, without its time axis: the state of the flow.

        Raises:
            StoreError: if no frame was committed yet, or an array is damaged.
        """
        return read_frame(self.path, self._record, -1)

    def first_frame(self) -> dict[str, np.ndarray]:
        """The first committed frame, without its time axis: where the run began.

        Raises:
            StoreError: if no frame was committed yet, or an array is damaged.
        """
        return read_frame(self.path, self._record, 0)

    def dataset(self, derive: Derive = no_more) -> "xarray.Dataset":
        """All committed frames, read and checked against digests when asked for.

        Of frames only the times are read at once; `load` reads the rest.

        `status`, `stop_time`, `t_star` and `t_star_error` are scalars; a run without an
        ending counts as `interrupted` at its last frame.

        Args:
            derive: variables that are computed from others, frame by frame; see `Kind`.

        Raises:
            StoreError: if an array is damaged, also when it is read later.
        """
        from ._dataset import lazy_dataset  # xarray: 0.3 s that writers do without

        return lazy_dataset(self.path, self._record, derive)

    def check(self) -> None:
        """Compares all arrays with their digests.

        Raises:
            StoreError: naming the first array that is damaged, and its segment.
        """
        verify_all(self.path, self._record)

    def claim(self) -> "RunStore":
        """This store, now locked for this writer; harmless if it is already.

        Raises:
            StoreError: if another writer holds it, or wrote to it since it was opened.
            ResourceError: if the folder cannot be written.
        """
        self._lock.acquire()
        self._refuse_removed()
        if fingerprint(read_record(self.path)) != fingerprint(self._record):
            self.close()  # another writer came between, or our own commit is in doubt
            raise StoreError(f"`{self.path}` has changed since; open it again.")
        return self

    def reread(self) -> None:
        """Takes the last commit from the disk, where an interrupt cut a commit short.

        Raises:
            StoreError: if the record is damaged.
        """
        self._record = read_record(self.path)

    def close(self) -> None:
        """Lets other writers in; the store can still be read, and claimed again."""
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
        """Commits a segment of frames: all of it, or nothing.

        Frames later than the `stop_time` of an early ending are left out. Without
        frames, or with `{}`, only the state and the ending are committed. A run goes
        on after the ending `interrupted`, and after no other.

        Args:
            frames: arrays with a time axis, `time` among them.
            state: JSON values; with the last frame, what the run goes on from.
            ending: how the run ended, with its last segment.

        Raises:
            InvalidInputError: if an array or `state` is unfit.
            StoreError: if the run has ended, holds other variables, or has a writer, or
                if a part of the store was removed.
            ResourceError: if the disk refuses; earlier segments stay as they are.
        """
        self.claim()
        if self.ending is not None and self.ending.name != RESUMABLE:
            raise StoreError(
                f"`{self.path}` has ended: {self.ending.name}; start another from it, "
                "by `--from`."
            )
        base = replace(self._record, state=plain_json("state", state), ending=ending)
        try:
            record = extended(self.path, base, frames) if frames else base
            self._refuse_losses(record)
            write_record(self.path, record)
            if ending is not None:  # no later append would notice
                self._refuse_losses(record)
        except ResourceError:
            self._refuse_removed()
            raise
        self._record = record

    def _refuse_losses(self, record: Record) -> None:
        """Refuses to commit where committed data was removed: readers would miss it."""
        self._refuse_removed()
        refuse_losses(self.path, len(record.segments))
        if record.ending is not None:
            refuse_lost_arrays(self.path, array_folders(self.path, record))

    def _refuse_removed(self) -> None:
        if self._lock.is_in_place:
            return
        self.close()
        raise StoreError(
            f"`{self.path}` was removed or moved while it was written, and what it "
            "held is not there; run again, into a folder that stays."
        )
