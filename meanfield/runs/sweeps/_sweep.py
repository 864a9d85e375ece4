"""Sweeps: one or more processes compute a flow for each combination of values."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.runs.records._inputs import Inputs
from meanfield.runs.records._provenance import provenance
from meanfield.runs.setup._parameters import dtype_of, inline_matrix_files
from meanfield.runs.setup._resolve import check_one_flow
from meanfield.spec import Axis, RunSpec
from meanfield.storage import SWEEP, SWEEP_SCHEMA, check_task_folder, create_tasks
from meanfield.workers import threads

from ._cells import SweepCells
from ._compute import Computer, plan_chunks
from ._store import SweepStore, is_sweep

_check_one_flow = partial(
    check_one_flow,
    forward="A cell of a sweep is a flow, not a forward pass: leave out `forward`. To "
    "run a network on several texts, call `simulate` for each.",
    draws="A cell of a sweep is one flow: leave out `draws` and `starts`, and sweep "
    "over `seed` or `cov` instead.",
)
HEARTBEAT = 0.5  # seconds between two heartbeats, and between two polls of the folder


@dataclass(frozen=True)
class SweepProgress:
    """The progress of a sweep, summed over all its workers.

    Attributes:
        n_done: the number of cells whose flow has ended.
        n_cells: the total number of cells.
        endings: the number of cells with each ending so far.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> steps, flow = [], spec.parse({"measure": "gaussian", "t": 1.0})
        >>> _ = runs.sweep(
        ...     flow, parse_axes("A=-1|1"), out=Path("phase"), report=steps.append
        ... )
        >>> steps[-1].n_done, steps[-1].n_cells
        (2, 2)
    """

    n_done: int
    n_cells: int
    endings: dict[str, int]


Report = Callable[[SweepProgress], None]


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep; its numbers are in the store.

    Attributes:
        endings: the number of cells with each ending.
        compilations: the number of programs that a worker compiles or finds cached;
            cells with the same structure share a program.
        seconds: wall-clock time of this call.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> flow = spec.parse({"measure": "gaussian", "t": 1.0})
        >>> result = runs.sweep(flow, parse_axes("A=-1|1"), out=Path("phase"))
        >>> result.n_cells, result.compilations
        (2, 1)
    """

    store: Path
    n_cells: int
    axes: tuple[Axis, ...]
    endings: dict[str, int]
    compilations: int
    seconds: float


def sweep(
    spec: RunSpec,
    axes: Sequence[Axis],
    *,
    out: Path,
    chunk: int | None = None,
    report: Report | None = None,
    plugins: Sequence[Path] = (),
) -> SweepResult:
    """Integrates a flow for every combination of the values of `axes`.

    The same call continues an interrupted sweep. Several processes can make this call
    at the same time and divide the cells, on any machines that share the folder.

    Args:
        spec: the keys that all flows share.
        axes: the keys that vary, and their values; see `parse_axes`.
        out: the folder of the sweep, which will contain `table.csv`.
        chunk: the number of cells computed in one batch; by default up to 64 Gaussians
            or small clouds, or one large cloud.
        report: called with a `SweepProgress` about every half second.
        plugins: files that the flows depend on; the sweep records their digests.

    Raises:
        MeanfieldError: or a subclass, if `out` holds something other than this sweep,
            or if a cell is invalid. A sample of cells is checked before writing.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> flow = spec.parse({"measure": "gaussian", "t": 1.0})
        >>> runs.sweep(flow, parse_axes("A=-1|1"), out=Path("phase")).endings
        {'finished': 1, 'blow-up': 1}
    """
    begin_sweep(spec, axes, out=out, chunk=chunk, plugins=plugins)
    return join_sweep(out, report=report, plugins=plugins)


def begin_sweep(
    spec: RunSpec,
    axes: Sequence[Axis],
    *,
    out: Path,
    chunk: int | None = None,
    plugins: Sequence[Path] = (),
) -> None:
    """Creates the folder of a sweep without computing any cells; see `sweep`.

    A folder that holds the same sweep is left unchanged.

    Raises:
        MeanfieldError: or a subclass, if a cell is invalid, or `out` holds something
            other than this sweep.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> flow = spec.parse({"measure": "gaussian", "t": 1.0})
        >>> runs.begin_sweep(flow, parse_axes("A=-1|1"), out=Path("phase"))
        >>> runs.is_sweep(Path("phase"))
        True
    """
    check_task_folder(out, SWEEP)
    spec = inline_matrix_files(spec)
    _check_one_flow(spec)
    identity = {"axes": [axis.as_json() for axis in axes], "spec": spec.as_json()}
    if is_sweep(out):
        _check_same(SweepStore.open(out), identity, chunk)
        return
    cells = SweepCells(spec, tuple(axes))
    compilations, size = plan_chunks(cells, chunk)
    record = {
        "schema": SWEEP_SCHEMA,
        **identity,
        "chunk": size,
        "compilations": compilations,
        "times": cells.times,
        "dtype": dtype_of(spec.precision).name,
        "inputs": Inputs.from_spec(spec, plugins, axes).as_recorded(),
        **provenance(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    create_tasks(out, record, SWEEP, len(cells.chunks(size)))
    _check_same(SweepStore.open(out), identity, chunk)  # perhaps of another process


def join_sweep(
    path: Path, *, report: Report | None = None, plugins: Sequence[Path] = ()
) -> SweepResult:
    """Computes cells of a sweep, along with other workers, until all are done.

    Raises:
        InputFileError: if there is no sweep at `path`, or if a file that it needs, or
            one of `plugins`, has changed since the sweep began.
        StoreError: if the sweep is damaged.
        MeanfieldError: or a subclass, if a cell is invalid.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> flow = spec.parse({"measure": "gaussian", "t": 1.0})
        >>> runs.begin_sweep(flow, parse_axes("A=-1|1"), out=Path("phase"))
        >>> runs.join_sweep(Path("phase")).endings
        {'finished': 1, 'blow-up': 1}
    """
    begin = time.perf_counter()
    store = SweepStore.open(path)
    inputs = Inputs.from_spec(store.cells.spec, plugins, store.cells.axes)
    inputs.check(store.record.get("inputs"))
    watch = _ProgressMonitor(store, report)
    computer = Computer(store.cells, store.record["chunk"])
    store.tasks.recover()
    while True:
        task = store.tasks.claim()
        if task is not None:
            _work(store, task, computer, watch)
            watch.maybe_poll()
        elif watch.poll():
            break
        else:  # other workers have claimed the remaining tasks
            time.sleep(HEARTBEAT)
            store.tasks.recover()
    store.write_table()
    return SweepResult(
        store=path,
        n_cells=store.cells.count,
        axes=store.cells.axes,
        endings=watch.endings,
        compilations=store.record["compilations"],
        seconds=time.perf_counter() - begin,
    )


class _ProgressMonitor:
    """Counts the cells that all workers have computed, and reports them."""

    def __init__(self, store: SweepStore, report: Report | None) -> None:
        self._store = store
        self._report = report
        self._seen: set[int] = set()
        self._looked = time.monotonic()
        self._counts: Counter[str] = Counter()

    @property
    def endings(self) -> dict[str, int]:
        """The number of cells with each ending."""
        names = (status.ending for status in Status)
        return {name: self._counts[name] for name in names if self._counts[name]}

    def maybe_poll(self) -> None:
        """Polls the folder if the last poll was at least `HEARTBEAT` seconds ago."""
        if time.monotonic() - self._looked >= HEARTBEAT:
            self.poll()

    def poll(self) -> bool:
        """Reads new results, reports progress, and tells if all cells are done."""
        self._looked = time.monotonic()
        for task in self._store.tasks.done_tasks() - self._seen:
            self._counts.update(self._store.part(task)["ending"])
            self._seen.add(task)
        if self._report is not None:
            n_done, count = self._counts.total(), self._store.cells.count
            self._report(SweepProgress(n_done, count, self.endings))
        return len(self._seen) == len(self._store.chunks)


def _work(
    store: SweepStore, task: int, computer: Computer, watch: _ProgressMonitor
) -> None:
    """Computes a claimed task, and gives up the claim if the computation fails.

    Another thread computes, so this one can receive interrupts and send heartbeats.
    """
    with threads(1) as pool:
        try:
            future = pool.submit(computer, store.chunks[task])
            while wait([future], HEARTBEAT).not_done:
                store.tasks.touch(task)
                watch.poll()
            store.tasks.finish(task, future.result())
        finally:
            store.tasks.release(task)


def _check_same(store: SweepStore, identity: dict, chunk: int | None) -> None:
    """Checks that a stored sweep is the requested one.

    Raises:
        InvalidInputError: if a part of its record differs.
    """
    entries = {**identity, "chunk": chunk or store.record["chunk"]}
    differences = [key for key, value in entries.items() if store.record[key] != value]
    if differences:
        raise InvalidInputError(
            f"`{store.path}` holds a sweep with a different `{differences[0]}`; choose "
            f"another folder, or continue this sweep: `meanfield sweep {store.path}`."
        )
