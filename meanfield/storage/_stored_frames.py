"""The frames of one variable on disk, read lazily."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meanfield.errors import StoreError

from ._places import segment_folder
from ._record import Record
from ._schema import TIME
from ._segments import open_array

if TYPE_CHECKING:
    import zarr

_CHUNKS = "c"  # zarr's folder of chunks, which are named by their indices
Part = int | np.integer | slice | np.ndarray
Key = tuple[Part, ...]


@dataclass(frozen=True)
class StoredFrames:
    """All frames of a variable as one array that stays on disk.

    The array is read chunk by chunk, so that memory holds the result and one chunk. A
    segment is compared with its digest before its first use.

    Attributes:
        folder: the folder of the store.
        record: the commit record of the store.
        name: the name of the variable.
    """

    folder: Path
    record: Record
    name: str
    _parts: "dict[int, zarr.Array]" = field(default_factory=dict, repr=False)
    _identities: dict[int, tuple[int, int]] = field(default_factory=dict, repr=False)

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the variable's axes."""
        return self.record.variables[self.name].dims

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the variable."""
        return np.dtype(self.record.variables[self.name].dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the variable's axes."""
        sizes = {**self.record.sizes, TIME: self.record.frames}
        return tuple(sizes[dim] for dim in self.dims)

    def read_all(self) -> np.ndarray:
        """The whole array."""
        return self[tuple(slice(None) for _ in self.shape)]

    def frame(self, index: int) -> np.ndarray:
        """One frame, without the time axis."""
        return self[tuple(index if dim == TIME else slice(None) for dim in self.dims)]

    def __getitem__(self, key: Key) -> np.ndarray:
        """The part of the array given by an integer, a slice or a vector for each axis.

        Raises:
            StoreError: if one of the stored arrays that hold this part is damaged.
        """
        vectors = [vector(part) for part in key]
        frames = self._frames(vectors[self._axis])
        numbers = np.empty(list(map(_length, self.shape, vectors)), self.dtype)
        rows = np.moveaxis(numbers, self._axis, 0)
        for part, local_frames, positions in self._blocks(frames):
            piece = self._piece(part, local_frames, vectors)
            rows[positions] = np.moveaxis(piece, self._axis, 0)
        places = (0 if is_number(part) else slice(None) for part in key)
        # Without the ellipsis, a result without axes would not be an array.
        return numbers[(*places, ...)]

    @property
    def _axis(self) -> int:
        return self.dims.index(TIME)

    @property
    def _ends(self) -> np.ndarray:
        """The index after the last frame of each segment."""
        return np.cumsum([segment.frames for segment in self.record.segments])

    def _frames(self, key: slice | np.ndarray) -> np.ndarray:
        """The indices of the requested frames; checks the segments that hold them.

        The check comes before memory is allocated, since a damaged record may have
        wrong sizes.
        """
        if not isinstance(key, slice):
            frames = np.arange(self.record.frames)[key]
            segments = np.unique(self._segments(frames))
        elif frames := range(self.record.frames)[key]:
            first, last = self._segments(np.array([frames[0], frames[-1]]))
            segments = np.arange(first, last + 1)
        else:
            segments = np.arange(0)
        for index in segments:
            self._part(int(index))
        return np.asarray(frames, np.int64)

    def _segments(self, frames: np.ndarray) -> np.ndarray:
        """The segments that hold these frames."""
        return np.searchsorted(self._ends, frames, side="right")

    def _blocks(
        self, frames: np.ndarray
    ) -> "Iterator[tuple[zarr.Array, np.ndarray, np.ndarray]]":
        """For each chunk: its array, the frames in it, and their places in the result.

        Frames are counted from the beginning of the array.
        """
        ends, axis = self._ends, self._axis
        segments = self._segments(frames)
        for index in np.unique(segments):
            places, part = np.flatnonzero(segments == index), self._part(int(index))
            local = frames[places] - (ends[index] - self.record.segments[index].frames)
            chunks = local // part.chunks[axis]
            for chunk in np.unique(chunks):
                mask = chunks == chunk
                self._check_chunk(int(index), int(chunk))
                yield part, local[mask], places[mask]

    def _check_chunk(self, index: int, chunk: int) -> None:
        """Checks that a chunk is still there; zarr reads missing chunks as zeros.

        Raises:
            StoreError: if its file is missing, or the segment's folder was replaced.
        """
        file = self._group(index) / _CHUNKS
        for axis in range(len(self.dims)):
            file /= str(chunk if axis == self._axis else 0)
        if (
            not file.is_file()
            or _identity(self._group(index)) != self._identities[index]
        ):
            raise StoreError(
                f"`{self.folder}` has changed since it was opened: `{file}` is missing "
                "or belongs to another run. Open the folder again."
            )

    def _group(self, index: int) -> Path:
        return segment_folder(self.folder, index) / self.name

    def _piece(
        self, part: "zarr.Array", frames: np.ndarray, key: list[slice | np.ndarray]
    ) -> np.ndarray:
        """Some frames of an array, with all other axes indexed by `key`."""
        axis, first = self._axis, int(frames.min())
        window = slice(first, int(frames.max()) + 1)
        numbers = np.asarray(part[(*[slice(None)] * axis, window)])
        local = [*key[:axis], frames - first, *key[axis + 1 :]]
        return outer(numbers, local)

    def _part(self, index: int) -> "zarr.Array":
        """The variable in one segment, after checks of its digest, shape and dtype.

        Raises:
            StoreError: if the array is damaged or does not match the record.
        """
        if index in self._parts:
            return self._parts[index]
        segment, group = self.record.segments[index], segment_folder(self.folder, index)
        part = open_array(self.folder, group, self.name, segment.checksums[self.name])
        sizes = {**self.record.sizes, TIME: segment.frames}
        shape = tuple(sizes[dim] for dim in self.dims)
        if part.shape != shape or part.dtype != self.dtype:
            raise StoreError(
                f"The array `{self.name}` of `{group}` has shape {part.shape}, dtype "
                f"{part.dtype}, but its record says {shape}, {self.dtype.str}; restore "
                "the array or the record from a copy."
            )
        self._parts[index] = part
        self._identities[index] = _identity(self._group(index))
        return part


def _identity(group: Path) -> tuple[int, int]:
    """The device and inode of a folder, which identify it; zeros if there is none."""
    try:
        info = group.stat()
    except OSError:
        return 0, 0
    return info.st_dev, info.st_ino


def is_number(part: Part) -> bool:
    """Whether the index of one axis is a single number."""
    return not isinstance(part, slice) and np.ndim(part) == 0


def vector(part: Part) -> slice | np.ndarray:
    """Converts an index of one axis to a slice or a vector, which keeps the axis."""
    return part if isinstance(part, slice) else np.atleast_1d(part)


def outer(numbers: np.ndarray, key: Sequence[Part]) -> np.ndarray:
    """Outer (orthogonal) indexing, where a single number removes its axis."""
    for axis in reversed(range(len(key))):
        numbers = numbers[(*[slice(None)] * axis, key[axis])]
    return np.asarray(numbers)  # numbers for all axes give a NumPy scalar


def _length(size: int, key: slice | np.ndarray) -> int:
    return len(range(size)[key]) if isinstance(key, slice) else len(key)
