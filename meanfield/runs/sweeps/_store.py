"""A stored sweep: its record, table and dataset, without importing JAX."""

import csv
import functools
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield._stored_names import rename_keys
from meanfield.endings import Status
from meanfield.errors import StoreError
from meanfield.runs.records._dataset import title
from meanfield.runs.records._validation import raise_damaged
from meanfield.spec import KEYS, Axis, parse
from meanfield.storage import ENDING_FLAGS, SWEEP, TaskFolder, read_tasks
from meanfield.storage.disk import replace_text

from ._cells import FRAME, MAX_CELLS, SweepCells
from ._rows import are_rows, validate_axes

if TYPE_CHECKING:
    import xarray

TABLE, CURVES = "table.csv", "curves.csv"
CURVE = "_curve"  # ends the name of a number that was observed over time
_OBSERVED = re.compile(rf"(\w+){FRAME}\d+")
_LABEL_WIDTH = 60  # characters; longer labels do not fit into a picture
# The record of a sweep must have these entries.
_RECORD_TYPES = {
    "spec": dict,
    "axes": list,
    "chunk": int,
    "compilations": int,
    "versions": dict,
    "device": str,
    "dtype": str,
    "created": str,
}
_ATTRIBUTES = ("spec", "versions", "device", "dtype", "created", "compilations")


@dataclass(frozen=True)
class SweepStore:
    """A stored sweep.

    Attributes:
        path: the folder of the sweep.
        record: the stored entries `spec`, `axes`, `chunk`, `compilations`, `inputs`,
            `versions`, `device`, `dtype` and `created`.
        record_digest: the digest of the record.

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
    record_digest: str

    @classmethod
    def open(cls, path: Path) -> "SweepStore":
        """The sweep at `path`.

        Raises:
            InputFileError: if there is none.
            StoreError: if its record is damaged or of another schema.
        """
        record, seal = read_tasks(path, SWEEP)
        if "inputs" in record:
            record = {**record, "inputs": rename_keys("inputs", record["inputs"])}
        absences = _RECORD_TYPES.keys() - record.keys()
        faults = [
            k for k in record if not isinstance(record[k], _RECORD_TYPES.get(k, object))
        ]
        if not absences and not faults and not 0 < record["chunk"] <= MAX_CELLS:
            faults = ["chunk"]
        if absences or faults:
            fault = f"no `{min(absences)}`" if absences else f"another `{faults[0]}`"
            raise_damaged(path / SWEEP, f"it has {fault}")
        return cls(path, record, seal)

    @functools.cached_property
    def cells(self) -> SweepCells:
        """The cells to compute."""
        spec = parse(self.record["spec"], where=f"the spec of `{self.path}`")
        return SweepCells(spec, self.axes)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the cells, as recorded."""
        return validate_axes(self.record["axes"], self.path / SWEEP)

    @functools.cached_property
    def chunks(self) -> list[list[int]]:
        """The cells of each task."""
        return self.cells.chunks(self.record["chunk"])

    @functools.cached_property
    def tasks(self) -> TaskFolder:
        """The chunks as tasks, which are unclaimed, claimed or done."""
        return TaskFolder(self.path, len(self.chunks), self.record_digest)

    def part(self, task: int) -> dict[str, list[Any]]:
        """The results of a chunk that is done, by column.

        Raises:
            StoreError: if they are damaged.
        """
        part = rename_keys("sweep", self.tasks.result(task))
        if not are_rows(part, list(dict.fromkeys(self.chunks[task]))):
            raise StoreError(
                f"The chunk {task} of `{self.path}` is damaged: its results have been "
                "altered. Delete its file in `done` to compute this chunk again."
            )
        return part

    def rows(self) -> dict[str, list[Any]]:
        """The results of all computed cells, by column, in the order of the chunks."""
        parts = [self.part(task) for task in sorted(self.tasks.done_tasks())]
        names = list(dict.fromkeys(name for part in parts for name in part))
        # If the dimension varies, some cells have more moments than others.
        names.sort(key=lambda name: (name.startswith("cov"), name.startswith("mean")))
        empty_column = lambda part: [None] * len(part["cell"])
        return {
            name: [v for part in parts for v in part.get(name, empty_column(part))]
            for name in names
        }

    def write_table(self) -> None:
        """Writes `table.csv`, with a row of axis values and results for each cell.

        Numbers of every frame are written to `curves.csv`, with a row for each cell and
        time.

        Raises:
            ResourceError: if a file cannot be written.
        """
        columns = self.rows()
        heads = [m[1] for m in map(_OBSERVED.fullmatch, columns) if m]
        names = [n for n in columns if n != "cell" and not _OBSERVED.fullmatch(n)]
        self._write_csv(TABLE, names, columns, [{name: name for name in names}])
        if heads:
            heads = list(dict.fromkeys(heads))
            times = enumerate(self.record["times"])
            keys = [{"t": t, **{h: f"{h}{FRAME}{i}" for h in heads}} for i, t in times]
            self._write_csv(CURVES, ["t", *heads], columns, keys)

    def _write_csv(
        self,
        file: str,
        names: list[str],
        columns: Mapping[str, list[Any]],
        keys: list[dict[str, Any]],
    ) -> None:
        """Writes rows of axis values and numbers, for each cell one for each of `keys`.

        Args:
            file: the name of the file.
            names: the names of the columns after those of the axes.
            columns: the results, by column.
            keys: for each row of a cell, the column of each name, or a number.
        """
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow([*(axis.name for axis in self.cells.axes), *names])
        for row in np.argsort(columns["cell"]):
            values = [value for _, value in self.cells.values(columns["cell"][row])]
            for entry in keys:
                cells = [(entry[name], columns.get(entry[name])) for name in names]
                numbers = [key if c is None else c[row] for key, c in cells]
                table.writerow(["nan" if v is None else v for v in (*values, *numbers)])
        replace_text(self.path / file, text.getvalue())


def is_sweep(path: Path) -> bool:
    """Whether a folder holds a sweep, finished or not.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs
        >>> runs.is_sweep(Path("nowhere"))
        False
    """
    return (path / SWEEP).exists()


def sweep_dataset(path: Path) -> "xarray.Dataset":
    """The cells of a sweep as a dataset with a dimension for each axis.

    Cells that are not done have the ending `interrupted`, and NaN for each number.

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
            f"`{path}` has no computed cell; continue with `meanfield sweep {path}`."
        )
    dims = [axis.name for axis in axes]
    indices = np.array(columns.pop("cell", []), int)
    codes = np.full(store.cells.count, Status.INTERRUPTED, np.int8)
    codes[indices] = [Status.from_name(name) for name in columns.pop("ending", [])]
    variables: dict[str, Any] = {
        "ending": (dims, codes.reshape(store.cells.shape), dict(ENDING_FLAGS))
    }
    for name, column in columns.items():
        numbers = np.full(store.cells.count, np.nan)
        numbers[indices] = [np.nan if value is None else value for value in column]
        variables[name] = (dims, numbers.reshape(store.cells.shape))
    coords = {a.name: (a.name, _coordinates(a), {"scale": a.scale}) for a in axes}
    if times := store.record.get("times"):
        variables = _join_frames(variables, dims, len(times))
        coords["time"] = ("time", np.array(times), {"scale": "linear"})
    metadata = {key: store.record[key] for key in _ATTRIBUTES}
    attrs = {"kind": "sweep", "title": _title(store.cells), **metadata}
    return xarray.Dataset(variables, coords=coords, attrs=attrs)


def _join_frames(
    variables: dict[str, Any], dims: list[str], count: int
) -> dict[str, Any]:
    """The variables, with those of observed numbers joined along the frames.

    The numbers of cells that are not done are NaN.
    """
    joint = {name: v for name, v in variables.items() if not _OBSERVED.fullmatch(name)}
    heads = [m[1] for m in map(_OBSERVED.fullmatch, variables) if m]
    for head in dict.fromkeys(heads):
        frames = [variables[f"{head}{FRAME}{i}"][1] for i in range(count)]
        joint[f"{head}{CURVE}"] = ([*dims, "time"], np.stack(frames, axis=-1))
    return joint


def _coordinates(axis: Axis) -> np.ndarray:
    """The values of an axis if they are numbers, else their shortened labels."""
    if axis.is_numeric:
        return np.array(axis.values)
    cut = lambda text: (
        text if len(text) <= _LABEL_WIDTH else f"{text[: _LABEL_WIDTH - 1]}…"
    )
    return np.array([cut(label) for label in axis.labels])


def _title(cells: SweepCells) -> str:
    """A short title of the flow, without the keys that vary."""
    keys = {axis.key for axis in cells.axes}
    if not any(KEYS[key].is_in_title for key in keys):
        return title(cells.spec)
    return (
        f"{cells.spec.measure_label} under attention" if "measure" not in keys else ""
    )
