"""A sweep on disk: its record, its table, its dataset; without JAX."""

import csv
import functools
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.endings import Status
from meanfield.errors import StoreError
from meanfield.runs.records._dataset import title
from meanfield.runs.records._stored import refuse
from meanfield.spec import KEYS, Axis, parse
from meanfield.storage import (
    ENDING_FLAGS,
    SWEEP,
    TaskFolder,
    read_tasks,
)
from meanfield.storage.disk import replace_text

from ._cells import MOST, Cells
from ._rows import are_rows, stored_axes

if TYPE_CHECKING:
    import xarray

TABLE = "table.csv"
_SHOWN = 60  # characters of a value that a picture has room for
# What the record of a sweep holds at least.
_NEEDED = {
    "spec": dict,
    "axes": list,
    "chunk": int,
    "compilations": int,
    "versions": dict,
    "device": str,
    "dtype": str,
    "created": str,
}
_ABOUT = ("spec", "versions", "device", "dtype", "created", "compilations")


@dataclass(frozen=True)
class SweepStore:
    """A sweep on disk.

    Attributes:
        record: spec, axes, chunk, compilations, inputs, versions, device, dtype,
            created.
        seal: the digest of the record.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> axes = parse_axes("A=-1|1")
        >>> flow = spec.parse({"measure": "gaussian", "t": 1.0})
        >>> _ = runs.sweep(flow, axes, out=Path("phase"))
        >>> [axis.name for axis in runs.SweepStore.open(Path("phase")).axes]
        ['A']
    """

    path: Path
    record: Mapping[str, Any]
    seal: str

    @classmethod
    def open(cls, path: Path) -> "SweepStore":
        """The sweep at `path`.

        Raises:
            InputFileError: if there is none.
            StoreError: if its record is damaged or of another schema.
        """
        record, seal = read_tasks(path, SWEEP)
        absences = _NEEDED.keys() - record.keys()
        faults = [
            k for k in record if not isinstance(record[k], _NEEDED.get(k, object))
        ]
        if not absences and not faults and not 0 < record["chunk"] <= MOST:
            faults = ["chunk"]
        if absences or faults:
            fault = f"no `{min(absences)}`" if absences else f"another `{faults[0]}`"
            refuse(path / SWEEP, f"it has {fault}")
        return cls(path, record, seal)

    @functools.cached_property
    def cells(self) -> Cells:
        """What is computed."""
        spec = parse(self.record["spec"], where=f"the spec of `{self.path}`")
        return Cells(spec, self.axes)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the cells, as recorded."""
        return stored_axes(self.record["axes"], self.path / SWEEP)

    @functools.cached_property
    def chunks(self) -> list[list[int]]:
        """The cells of each task."""
        return self.cells.chunks(self.record["chunk"])

    @functools.cached_property
    def tasks(self) -> TaskFolder:
        """The chunks that are to do, claimed, or done."""
        return TaskFolder(self.path, len(self.chunks), self.seal)

    def part(self, task: int) -> dict[str, list[Any]]:
        """The reported numbers of a chunk that is done.

        Raises:
            StoreError: if they are damaged.
        """
        part = self.tasks.result(task)
        if not are_rows(part, list(dict.fromkeys(self.chunks[task]))):
            raise StoreError(
                f"The chunk {task} of `{self.path}` is damaged: it is not what was "
                "written. Delete its file in `done` to have it computed again."
            )
        return part

    def rows(self) -> dict[str, list[Any]]:
        """The reported numbers of all cells that are done, chunk after chunk."""
        parts = [self.part(task) for task in sorted(self.tasks.done())]
        names = list(dict.fromkeys(name for part in parts for name in part))
        # Where the dimension varies, some cells have more moments than others.
        names.sort(key=lambda name: (name.startswith("cov"), name.startswith("mean")))
        none = lambda part: [None] * len(part["cell"])
        return {
            name: [v for part in parts for v in part.get(name, none(part))]
            for name in names
        }

    def write_table(self) -> None:
        """Writes `table.csv`: the values and the numbers of each cell, in order.

        Raises:
            ResourceError: if it cannot be written.
        """
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        columns = self.rows()
        names = [name for name in columns if name != "cell"]
        table.writerow([*(axis.name for axis in self.cells.axes), *names])
        for row in np.argsort(columns["cell"]):
            values = [value for _, value in self.cells.values(columns["cell"][row])]
            numbers = [columns[name][row] for name in names]
            table.writerow(["nan" if v is None else v for v in (*values, *numbers)])
        replace_text(self.path / TABLE, text.getvalue())


def is_sweep(path: Path) -> bool:
    """Whether a folder holds a sweep, begun or done.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs
        >>> runs.is_sweep(Path("nowhere"))
        False
    """
    return (path / SWEEP).exists()


def sweep_dataset(path: Path) -> "xarray.Dataset":
    """The cells of a sweep: a dimension for each axis, a variable for each number.

    Cells that are not done have the ending `interrupted` and no numbers.

    Raises:
        InputFileError: if there is no sweep at `path`.
        StoreError: if it is damaged, or no cell is done yet.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> flow = spec.parse({"measure": "gaussian", "t": 1.0})
        >>> _ = runs.sweep(flow, parse_axes("A=-1|1,cov=1|2"), out=Path("phase"))
        >>> print(runs.sweep_dataset(Path("phase"))["t_star"].values)
        [[ nan  nan]
         [0.5  0.25]]
    """
    import xarray

    store = SweepStore.open(path)
    axes, columns = store.cells.axes, store.rows()
    if not columns:
        raise StoreError(
            f"`{path}` holds no cell yet; go on with `meanfield sweep {path}`."
        )
    dims = [axis.name for axis in axes]
    at = np.array(columns.pop("cell", []), int)
    codes = np.full(store.cells.count, Status.INTERRUPTED, np.int8)
    codes[at] = [Status.named(name) for name in columns.pop("ending", [])]
    variables: dict[str, Any] = {
        "ending": (dims, codes.reshape(store.cells.shape), dict(ENDING_FLAGS))
    }
    for name, column in columns.items():
        numbers = np.full(store.cells.count, np.nan)
        numbers[at] = [np.nan if value is None else value for value in column]
        variables[name] = (dims, numbers.reshape(store.cells.shape))
    coords = {a.name: (a.name, _coordinates(a), {"scale": a.scale}) for a in axes}
    about = {key: store.record[key] for key in _ABOUT}
    attrs = {"kind": "sweep", "title": _title(store.cells), **about}
    return xarray.Dataset(variables, coords=coords, attrs=attrs)


def _coordinates(axis: Axis) -> np.ndarray:
    """The values if they are numbers, else as people write them, but for their ends."""
    if axis.is_numeric:
        return np.array(axis.values)
    cut = lambda text: text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return np.array([cut(label) for label in axis.labels])


def _title(cells: Cells) -> str:
    """The run in a few words; what varies is not named."""
    keys = {axis.key for axis in cells.axes}
    if not any(KEYS[key].titled for key in keys):
        return title(cells.spec)
    return f"{cells.spec.moved} under attention" if "measure" not in keys else ""
