"""The cells of a sweep and the chunks to compute them in, without importing JAX."""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.errors import InvalidInputError, ResourceError
from meanfield.spec import KEYS, Axis, RunSpec, parse, replace_values

MAX_CELLS = 1_000_000  # largest number of cells in a sweep
FRAME = "_t"  # between the name of an observed number and the index of its frame


@dataclass(frozen=True)
class SweepCells:
    """The cells of a sweep: all combinations of the values of its axes.

    Attributes:
        spec: the keys that the cells share.
        axes: the keys that vary; the last varies fastest.

    Raises:
        ResourceError: if there are more than `MAX_CELLS` cells.
    """

    spec: RunSpec
    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if self.count > MAX_CELLS:
            raise ResourceError(
                f"These axes give {self.count} cells, but a sweep can have at most "
                f"{MAX_CELLS}; use fewer values."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values on each axis."""
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def count(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    def values(self, index: int) -> list[tuple[Axis, Any]]:
        """The axes, each with its value in cell `index`."""
        places = np.unravel_index(index, self.shape)
        pairs = zip(self.axes, places, strict=True)
        return [(axis, axis.values[place]) for axis, place in pairs]

    @functools.cached_property
    def _flow(self) -> RunSpec:
        keys = self.spec.as_json()
        return parse({key: keys[key] for key in keys if key != "observe"})

    def run_spec(self, index: int) -> RunSpec:
        """The spec of cell `index`, without the key `observe` of the sweep.

        Raises:
            InvalidInputError: if its values are invalid.
        """
        return replace_values(self._flow, self.values(index))

    @property
    def observed_names(self) -> tuple[str, ...]:
        """The names of the numbers that are stored of every frame."""
        return tuple(self.spec.observe or ())

    @property
    def times(self) -> list[float] | None:
        """The times of the frames, if numbers are stored of every frame.

        Raises:
            InvalidInputError: if an axis changes the times.
        """
        if not self.observed_names:
            return None
        for axis in self.axes:
            if KEYS[axis.key].enters == "times":
                raise InvalidInputError(
                    "The cells of a sweep that observes numbers over time must have "
                    f"the same times: leave out the axis `{axis.name}`, or `observe`."
                )
        from meanfield.runs.setup._domain import times

        return times(self.run_spec(0)).tolist()

    def canonical_cell(self, index: int, keys: Sequence[str]) -> int:
        """The cell `index`, moved to the first value of each numeric axis in `keys`."""
        places = np.unravel_index(index, self.shape)
        firsts = [
            0 if axis.key in keys and axis.is_numeric else int(place)
            for axis, place in zip(self.axes, places, strict=True)
        ]
        return int(np.ravel_multi_index(firsts, self.shape))

    def chunks(self, size: int) -> list[list[int]]:
        """The indices of the cells in each chunk of `size`.

        The cells of a chunk differ only in arrays, so one program computes them. A
        short chunk is filled up by repeating its last cell.
        """
        groups = self._groups
        length = -(-groups.shape[1] // size) * size
        order = np.minimum(np.arange(length), groups.shape[1] - 1)
        return groups[:, order].reshape(-1, size).tolist()

    @property
    def longest_chunk(self) -> int:
        """The number of cells that one program can compute."""
        return self._groups.shape[1]

    @property
    def program_cells(self) -> list[int]:
        """Some cells, with at least one for each program that a sweep compiles."""
        return self.cells_along([a for a in self.axes if not self._shares_program(a)])

    @functools.cached_property
    def _groups(self) -> np.ndarray:
        """A table of all cell indices, where cells in one row differ only in arrays."""
        inner = [i for i, axis in enumerate(self.axes) if is_array(axis)]
        outer = [i for i in range(len(self.axes)) if i not in inner]
        width = math.prod(self.shape[i] for i in inner)
        cells = np.arange(self.count).reshape(self.shape)
        return cells.transpose(*outer, *inner).reshape(-1, width)

    def cells_along(self, axes: Iterable[Axis]) -> list[int]:
        """The cells that differ from the first cell only in the values of `axes`."""
        subset = list(axes)
        cells = np.arange(self.count).reshape(self.shape)
        ends = [None if axis in subset else 1 for axis in self.axes]
        return cells[tuple(map(slice, ends))].ravel().tolist()

    def _shares_program(self, axis: Axis) -> bool:
        # With fixed steps, the number of steps is part of the compiled program.
        has_step = "dt" in {*self.spec.model_fields_set, *(a.key for a in self.axes)}
        return is_array(axis) or (KEYS[axis.key].enters == "times" and not has_step)


def is_array(axis: Axis) -> bool:
    """Whether a new value on an axis changes only entries of arrays."""
    arrays = ("start", "dynamics", "draw")
    return KEYS[axis.key].enters in arrays and axis.is_numeric
