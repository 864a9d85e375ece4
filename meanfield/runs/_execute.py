"""Integrating a spec, segment by segment, with or without a store."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from meanfield.flows import REASONS, Doubt, Status
from meanfield.measures import AbstractMeasure
from meanfield.spec import RunSpec, parse
from meanfield.storage import RESUMABLE, Ending, RunStore

from ._endings import Outcome, common
from ._measures import Arrays, dims_of, largest_eigenvalue
from ._plan import plan, refuse_full_disk, size_of
from ._precision import dtype_of
from ._provenance import provenance
from ._run import Run, continued, start
from ._segment import integrate_segment


@dataclass(frozen=True)
class Progress:
    """Where a run is, between two segments.

    Attributes:
        share: of its segments that are done.
        step_size: the mean step of the last segment; NaN if it had none.
        largest_eigenvalue: of the covariance of the first draw.
        sums: how sums over its tokens are executed.
    """

    t: float
    t_end: float
    share: float
    outcome: Outcome
    step_size: float
    largest_eigenvalue: float
    sums: str


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Result:
    """What a run came to; the frames are in its store, if it has one.

    Attributes:
        measures: the measure of each draw when it ended.
        outcomes: how each draw ended.
        store: where the frames are, or `None`.
        seconds: spent in integrating, compilation included.
        observed: what was observed at the last frame, by variable; of several draws
            one number for each.
        sums: how sums over the tokens of the first member were executed last.
        doubt: how far a density on a grid can be trusted; `None` until `examined`.
    """

    spec: RunSpec
    measures: tuple[AbstractMeasure, ...]
    outcomes: tuple[Outcome, ...]
    store: Path | None
    seconds: float
    observed: Arrays
    sums: str = "none"
    doubt: Doubt | None = None

    @property
    def outcome(self) -> Outcome:
        """The ending of the run; of several draws, the worst."""
        return common(self.outcomes)


def execute(
    spec: RunSpec, *, out: Path | None = None, report: Report | None = None
) -> Result:
    """Integrates a spec; with `out`, into a new store.

    Raises:
        InvalidInputError: if keys do not fit together, or `out` is taken.
        InputFileError: if a file that the spec names cannot be read.
        ResourceError: if memory, disk or folder will not do.
    """
    run = start(spec)
    store = None if out is None else _create(run, out)
    return _integrate(run, store, report)


def resume(path: Path, *, report: Report | None = None) -> Result:
    """Goes on with an interrupted run, to the bytes it would have had.

    A run that has ended is returned as it ended.

    Raises:
        InputFileError: if there is no run at `path`.
        StoreError: if it is damaged, or another process writes to it.
    """
    store = RunStore.open(path)
    store.check()
    spec = parse(store.spec, where=f"the spec of `{path}`")
    if not store.frames:
        return _integrate(start(spec), store.claim(), report)
    outcomes = [Outcome.from_json(state) for state in store.state["members"]]
    frame = store.last_frame()
    del frame["time"]
    run = continued(spec, frame, store.static(), outcomes)
    if store.ending is not None and store.ending.name != RESUMABLE:
        return _result(run, store, 0.0)
    run.done = store.frames - 1
    return _integrate(run, store.claim(), report)


def _create(run: Run, out: Path) -> RunStore:
    measure = run.members[0].measure
    size = size_of(measure)
    refuse_full_disk(plan(run.spec, size, len(run.ts), len(run.members)), out)
    attrs = {
        "kind": run.spec.measure,
        "spec": run.spec.as_json(),
        "dtype": dtype_of(run.spec).name,
        **provenance(),
    }
    return RunStore.create(out, attrs=attrs, static=run.static, dims=dims_of(measure))


def _integrate(run: Run, store: RunStore | None, report: Report | None) -> Result:
    begin, first = time.perf_counter(), run.done
    try:
        while not run.over:
            taken, before = run.steps, run.done
            frames = integrate_segment(run)
            if store is not None:
                _commit(run, store, frames)
            if report is not None:
                span = float(run.ts[run.done] - run.ts[before])
                report(_progress(run, first, span, run.steps - taken))
    except KeyboardInterrupt:
        if store is not None and not run.over:
            _record_interruption(store)
        raise
    return _result(run, store, time.perf_counter() - begin)


def _commit(run: Run, store: RunStore, frames: Arrays) -> None:
    ending = common(run.outcomes).ending() if run.over else None
    state = {"members": [outcome.as_json() for outcome in run.outcomes]}
    store.append(frames, state, ending)


def _record_interruption(store: RunStore) -> None:
    """Names the ending; what the cut segment computed is given up."""
    store.close()
    # A commit may have been cut after it took effect: read what holds.
    current = RunStore.open(store.path)
    if current.ending is not None or not current.frames:
        return
    known = float(current.last_frame()["time"])
    status = Status.INTERRUPTED
    with current.claim():
        ending = Ending(status.ending, REASONS[status], known)
        current.append({}, current.state, ending)


def _progress(run: Run, first: int, span: float, steps: int) -> Progress:
    outcome = common(run.outcomes)
    return Progress(
        t=float(run.ts[run.done]) if outcome.going else outcome.time,
        t_end=float(run.ts[-1]),
        share=(run.done - first) / (run.last - first),
        outcome=outcome,
        step_size=span * len(run.members) / steps if steps else float("nan"),
        largest_eigenvalue=largest_eigenvalue(run.members[0].measure),
        sums=run.sums,
    )


def _result(run: Run, store: RunStore | None, seconds: float) -> Result:
    measures = tuple(m.measure for m in run.members)
    path = None if store is None else store.path
    outcomes = tuple(run.outcomes)
    observed, sums = run.observed, run.sums
    return Result(run.spec, measures, outcomes, path, seconds, observed, sums)
