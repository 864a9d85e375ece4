"""Sweeps: every combination of some values of some keys, by one process or many."""

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
from meanfield.runs.setup._parameters import dtype_of, with_numbers_of_files
from meanfield.runs.setup._resolve import check_one_flow
from meanfield.spec import Axis, RunSpec
from meanfield.storage import (
    SWEEP,
    SWEEP_SCHEMA,
    create_tasks,
    refuse_other,
)
from meanfield.workers import threads

from ._cells import Cells
from ._compute import Computer, checked
from ._store import SweepStore, is_sweep

_check_cell = partial(
    check_one_flow,
    forward="A cell of a sweep is a flow, and a forward pass is none: leave out "
    "`forward`; `simulate` takes one text after another.",
    observe="A sweep keeps only where its flows end, so it observes nothing on the "
    "way: leave out `observe`.",
    draws="A cell of a sweep is one flow: leave out `draws` and `starts`, and sweep "
    "over `seed` or `cov` instead.",
)
BEAT = 0.5  # seconds between two signs of life, and two looks at the folder


@dataclass(frozen=True)
class SweepProgress:
    """Where a sweep is, by the work of all its workers.

    Attributes:
        done: the number of cells whose flow has ended.
        cells: the number of all cells.
        endings: how many have ended in each way so far.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> steps, flow = [], spec.parse({"measure": "gaussian", "t": 1.0})
        >>> _ = runs.sweep(
        ...     flow, parse_axes("A=-1|1"), out=Path("phase"), report=steps.append
        ... )
        >>> steps[-1].done, steps[-1].cells
        (2, 2)
    """

    done: int
    cells: int
    endings: dict[str, int]


Report = Callable[[SweepProgress], None]


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to.

    Attributes:
        endings: how many cells ended in each way.
        compilations: programs that a worker compiles, or finds compiled: one for each
            structure among the cells.
        seconds: spent by this call.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> flow = spec.parse({"measure": "gaussian", "t": 1.0})
        >>> result = runs.sweep(flow, parse_axes("A=-1|1"), out=Path("phase"))
        >>> result.cells, result.compilations
        (2, 1)
    """

    store: Path
    cells: int
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

    The same call goes on with a sweep that was interrupted, and works beside others, of
    any machine that sees the folder.

    Args:
        spec: what all flows share.
        axes: see `parse_axes`.
        out: the folder of the sweep; it then holds `table.csv`.
        chunk: cells computed at once; by default up to 64 Gaussians or small clouds,
            or one large cloud.
        report: called about every half second.
        plugins: files that the flows depend on; the sweep keeps their digests.

    Raises:
        MeanfieldError: the library's own, if a cell is refused, before anything is
            written; or if `out` holds something else.

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
    """Makes the folder of a sweep, with all its cells to do; see `sweep`.

    A folder that holds the same sweep is left as it is.

    Raises:
        MeanfieldError: the library's own, if a cell is refused, or `out` holds another
            sweep or something else.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.spec import parse_axes
        >>> flow = spec.parse({"measure": "gaussian", "t": 1.0})
        >>> runs.begin_sweep(flow, parse_axes("A=-1|1"), out=Path("phase"))
        >>> runs.is_sweep(Path("phase"))
        True
    """
    refuse_other(out, SWEEP)
    spec = with_numbers_of_files(spec)
    _check_cell(spec)
    identity = {"axes": [axis.as_json() for axis in axes], "spec": spec.as_json()}
    if is_sweep(out):
        _check_same(SweepStore.open(out), identity, chunk)
        return
    cells = Cells(spec, tuple(axes))
    compilations, size = checked(cells, chunk)
    record = {
        "schema": SWEEP_SCHEMA,
        **identity,
        "chunk": size,
        "compilations": compilations,
        "dtype": dtype_of(spec.precision).name,
        "inputs": Inputs.of(spec, plugins, axes).as_recorded(),
        **provenance(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    create_tasks(out, record, SWEEP, len(cells.chunks(size)))
    _check_same(SweepStore.open(out), identity, chunk)  # another may have been faster


def join_sweep(
    path: Path, *, report: Report | None = None, plugins: Sequence[Path] = ()
) -> SweepResult:
    """Works on a sweep until all its cells are done, beside any other workers.

    Raises:
        InputFileError: if there is no sweep at `path`, or a file that it needs, or one
            of `plugins`, is not what it was when the sweep began.
        StoreError: if it is damaged.
        MeanfieldError: the library's own, if a cell is refused.

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
    inputs = Inputs.of(store.cells.spec, plugins, store.cells.axes)
    inputs.check(store.record.get("inputs"))
    watch = _Watch(store, report)
    computer = Computer(store.cells, store.record["chunk"])
    store.tasks.recover()
    while True:
        task = store.tasks.claim()
        if task is not None:
            _work(store, task, computer, watch)
            watch.glance()
        elif watch.over():
            break
        else:  # the rest is claimed by others
            time.sleep(BEAT)
            store.tasks.recover()
    store.write_table()
    return SweepResult(
        store=path,
        cells=store.cells.count,
        axes=store.cells.axes,
        endings=watch.endings,
        compilations=store.record["compilations"],
        seconds=time.perf_counter() - begin,
    )


class _Watch:
    """Counts what all workers have done, and reports it."""

    def __init__(self, store: SweepStore, report: Report | None) -> None:
        self._store = store
        self._report = report
        self._seen: set[int] = set()
        self._looked = time.monotonic()
        self._counts: Counter[str] = Counter()

    @property
    def endings(self) -> dict[str, int]:
        """How many cells have ended in each way."""
        return {
            s.ending: self._counts[s.ending] for s in Status if self._counts[s.ending]
        }

    def glance(self) -> None:
        """Looks at the folder, if the last look is not of this moment."""
        if time.monotonic() - self._looked >= BEAT:
            self.over()

    def over(self) -> bool:
        """Whether all is done, after a look at the folder."""
        self._looked = time.monotonic()
        for task in self._store.tasks.done() - self._seen:
            self._counts.update(self._store.part(task)["ending"])
            self._seen.add(task)
        if self._report is not None:
            n_done, count = self._counts.total(), self._store.cells.count
            self._report(SweepProgress(n_done, count, self.endings))
        return len(self._seen) == len(self._store.chunks)


def _work(store: SweepStore, task: int, computer: Computer, watch: _Watch) -> None:
    """Computes a task that is claimed; whatever happens, it does not stay claimed.

    The computing thread leaves this one free to hear an interrupt and to give signs of
    life.
    """
    with threads(1) as pool:
        try:
            future = pool.submit(computer, store.chunks[task])
            while wait([future], BEAT).not_done:
                store.tasks.touch(task)
                watch.over()
            store.tasks.finish(task, future.result())
        finally:
            store.tasks.release(task)


def _check_same(store: SweepStore, identity: dict, chunk: int | None) -> None:
    """Checks that a folder holds the sweep that is asked for.

    Raises:
        InvalidInputError: naming what differs.
    """
    entries = {**identity, "chunk": chunk or store.record["chunk"]}
    differences = [key for key, value in entries.items() if store.record[key] != value]
    if differences:
        raise InvalidInputError(
            f"`{store.path}` holds a sweep with another `{differences[0]}`; choose "
            f"another folder, or go on with that one by `meanfield sweep {store.path}`."
        )
