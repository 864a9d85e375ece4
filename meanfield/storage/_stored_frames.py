"""The frames of one variable on disk, of which only what is asked for is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meanfield.errors import StoreError

from ._places import segment_folder
from ._record import Record
from ._schema import TIME
from ._segments import opened

if TYPE_CHECKING:
    import zarr

_CHUNKS = "c"  # the folder of zarr in which chunks lie by their numbers
Part = int | np.integer | slice | np.ndarray
Key = tuple[Part, ...]


class _Block(NamedTuple):
    """Frames that lie in one chunk of a segment, and their places among those asked."""

    part: "zarr.Array"
    frames: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class StoredFrames:
    """All frames of a variable, as one array that stays on disk.

    It is read chunk by chunk, so that beside what was asked for memory holds one chunk.
    A segment is compared with its digest before the first number of it is given out.

    Attributes:
        folder: of the store.
        record: what was committed.
        name: of the variable.
    """

    folder: Path
    record: Record
    name: str
    _parts: "dict[int, zarr.Array]" = field(default_factory=dict, repr=False)
    _known: dict[int, tuple[int, int]] = field(default_factory=dict, repr=False)

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of its axes."""
        return self.record.variables[self.name].dims

    @property
    def dtype(self) -> np.dtype:
        """The format of its numbers."""
        return np.dtype(self.record.variables[self.name].dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""
        sizes = {**self.record.sizes, TIME: self.record.frames}
        return tuple(sizes[dim] for dim in self.dims)

    def whole(self) -> np.ndarray:
        """All of it."""
        return self[tuple(slice(None) for _ in self.shape)]

    def frame(self, index: int) -> np.ndarray:
        """One frame of it, without its axis of time."""
        return self[tuple(index if dim == TIME else slice(None) for dim in self.dims)]

    def __getitem__(self, key: Key) -> np.ndarray:
        """What a number, a slice or a vector of numbers names along each axis.

        Raises:
            StoreError: if an array that holds some of it is damaged.
        """
        vectors = [vector(part) for part in key]
        frames = self._frames(vectors[self._axis])
        numbers = np.empty(list(map(_length, self.shape, vectors)), self.dtype)
        rows = np.moveaxis(numbers, self._axis, 0)
        for block in self._blocks(frames):
            piece = self._piece(block, vectors)
            rows[block.places] = np.moveaxis(piece, self._axis, 0)
        places = (0 if is_number(part) else slice(None) for part in key)
        return numbers[(*places, ...)]  # an array, also if it is one number

    @property
    def _axis(self) -> int:
        return self.dims.index(TIME)

    @property
    def _ends(self) -> np.ndarray:
        """Where each segment ends."""
        return np.cumsum([segment.frames for segment in self.record.segments])

    def _frames(self, key: slice | np.ndarray) -> np.ndarray:
        """The numbers of frames, once the segments that hold them were looked at.

        Only then is memory asked for, since a record may lie about sizes.
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

    def _blocks(self, frames: np.ndarray) -> Iterator[_Block]:
        """Frames by the chunks that hold them."""
        ends, axis = self._ends, self._axis
        segments = self._segments(frames)
        for index in np.unique(segments):
            places, part = np.flatnonzero(segments == index), self._part(int(index))
            local = frames[places] - (ends[index] - self.record.segments[index].frames)
            chunks = local // part.chunks[axis]
            for chunk in np.unique(chunks):
                inside = chunks == chunk
                self._check_there(int(index), int(chunk))
                yield _Block(part, local[inside], places[inside])

    def _check_there(self, index: int, chunk: int) -> None:
        """Refuses a chunk that has gone since it was compared: zarr reads zeros there.

        Raises:
            StoreError: if its file is missing, or the segment is another one now.
        """
        file = self._group(index) / _CHUNKS
        for axis in range(len(self.dims)):
            file /= str(chunk if axis == self._axis else 0)
        if not file.is_file() or _identity(self._group(index)) != self._known[index]:
            raise StoreError(
                f"`{self.folder}` is not what it was when it was opened: `{file}` is "
                "missing, or of another run. Open it again."
            )

    def _group(self, index: int) -> Path:
        return segment_folder(self.folder, index) / self.name

    def _piece(self, block: _Block, key: list[slice | np.ndarray]) -> np.ndarray:
        """The frames of a block, and what the key names along the other axes."""
        axis, first = self._axis, int(block.frames.min())
        between = slice(first, int(block.frames.max()) + 1)
        numbers = np.asarray(block.part[(*[slice(None)] * axis, between)])
        local = [*key[:axis], block.frames - first, *key[axis + 1 :]]
        return outer(numbers, local)

    def _part(self, index: int) -> "zarr.Array":
        """The variable in one segment, whose shape and format are those of the record.

        Raises:
            StoreError: if they are not, or the array is damaged.
        """
        if index in self._parts:
            return self._parts[index]
        segment, group = self.record.segments[index], segment_folder(self.folder, index)
        part = opened(self.folder, group, self.name, segment.checksums[self.name])
        sizes = {**self.record.sizes, TIME: segment.frames}
        shape = tuple(sizes[dim] for dim in self.dims)
        if part.shape != shape or part.dtype != self.dtype:
            raise StoreError(
                f"The array `{self.name}` of `{group}` has the shape {part.shape} and "
                f"the format {part.dtype} where the record says {shape} and "
                f"{self.dtype.str}; restore one of them from a copy."
            )
        self._parts[index] = part
        self._known[index] = _identity(self._group(index))
        return part


def _identity(group: Path) -> tuple[int, int]:
    """What tells a folder from another of its name; zeros if there is none."""
    try:
        about = group.stat()
    except OSError:
        return 0, 0
    return about.st_dev, about.st_ino


def is_number(part: Part) -> bool:
    """Whether a part of a key names one place alone."""
    return not isinstance(part, slice) and np.ndim(part) == 0


def vector(part: Part) -> slice | np.ndarray:
    """A part of a key that keeps its axis."""
    return part if isinstance(part, slice) else np.atleast_1d(part)


def outer(numbers: np.ndarray, key: Sequence[Part]) -> np.ndarray:
    """What each part of a key names along its own axis; a number takes that away."""
    for axis in reversed(range(len(key))):
        numbers = numbers[(*[slice(None)] * axis, key[axis])]
    return numbers


def _length(size: int, key: slice | np.ndarray) -> int:
    return len(range(size)[key]) if isinstance(key, slice) else len(key)
