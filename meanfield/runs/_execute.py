"""Integrating a spec, segment by segment, with or without a store."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from meanfield.flows import REASONS, Status, flow
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.spec import RunSpec, parse
from meanfield.storage import Ending, RunStore

from ._build import (
    Member,
    dimension,
    dtype_of,
    member,
    stepping,
    stops,
    times,
    with_frame,
)
from ._endings import Outcome, common
from ._plan import plan, refuse_full_disk, refuse_too_many
from ._provenance import provenance

Frames = dict[str, np.ndarray]


@dataclass(frozen=True)
class Progress:
    """Where a run is, between two segments."""

    t: float
    t_end: float
    frames: int
    n_frames: int
    outcome: Outcome
    largest_eigenvalue: float
    seconds: float


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Result:
    """What a run came to; the frames are in its store, if it has one.

    Attributes:
        measures: the measure of each draw when it ended.
        outcomes: how each draw ended.
        store: where the frames are, or `None`.
    """

    spec: RunSpec
    measures: tuple[AbstractMeasure, ...]
    outcomes: tuple[Outcome, ...]
    store: Path | None
    seconds: float

    @property
    def outcome(self) -> Outcome:
        """The ending of the run; of several draws, the worst."""
        return common(self.outcomes)


@dataclass
class Run:
    """A run under way: its members, where they are, and how those that ended did."""

    spec: RunSpec
    members: list[Member]
    ts: np.ndarray
    done: int
    outcomes: list[Outcome]

    @property
    def last(self) -> int:
        """The index of the last frame."""
        return len(self.ts) - 1

    @property
    def over(self) -> bool:
        """Whether nothing is left to integrate."""
        return self.done >= self.last or not any(o.going for o in self.outcomes)


def execute(
    spec: RunSpec, *, out: Path | None = None, report: Report = lambda progress: None
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


def resume(path: Path, *, report: Report = lambda progress: None) -> Result:
    """Goes on with an interrupted run, to the bytes it would have had.

    A run that has ended is returned as it ended.

    Raises:
        InputFileError: if there is no run at `path`.
        StoreError: if it is damaged, or another process writes to it.
    """
    store = RunStore.open(path)
    store.check()
    run = start(parse(store.spec, where=f"the spec of `{path}`"))
    if store.frames:
        run.done = store.frames - 1
        run.outcomes = [Outcome.from_json(state) for state in store.state["members"]]
        frame = store.last_frame()
        run.members = [
            Member(m.dynamics, with_frame(m.measure, _of_draw(frame, run.spec, i)))
            for i, m in enumerate(run.members)
        ]
    ended = store.ending is not None and store.ending.name != "interrupted"
    return _result(run, store, 0.0) if ended else _integrate(run, store.claim(), report)


def start(spec: RunSpec) -> Run:
    """A run before its first step; all that can be refused is refused here."""
    if spec.model is None and spec.source is None and spec.measure == "points":
        refuse_too_many(spec, spec.n, dimension(spec))
    ts = times(spec)
    members = [member(spec, i) for i in range(spec.draws or 1)]
    outcomes = [Outcome.at_start(float(ts[0])) for _ in members]
    return Run(spec, members, ts, 0, outcomes)


def _create(run: Run, out: Path) -> RunStore:
    refuse_full_disk(plan(run.spec, run.members[0].measure, len(run.ts)), out)
    measures = [m.measure for m in run.members]
    static = {}
    if isinstance(measures[0], Points):
        static["weight"] = np.asarray(measures[0].weights)
        static["position"] = np.asarray(measures[0].tokens.position)
    attrs = {
        "kind": run.spec.measure,
        "spec": run.spec.as_json(),
        "dtype": dtype_of(run.spec).name,
        **provenance(),
    }
    return RunStore.create(out, attrs=attrs, static=static)


def _integrate(run: Run, store: RunStore | None, report: Report) -> Result:
    begin = time.perf_counter()
    try:
        while not run.over:
            frames = _segment(run)
            if store is not None:
                _commit(run, store, frames)
            report(_progress(run, time.perf_counter() - begin))
    except KeyboardInterrupt:
        if store is not None and not run.over:
            _record_interruption(run, store)
        raise
    return _result(run, store, time.perf_counter() - begin)


def _segment(run: Run) -> Frames:
    """Integrates one segment; its edges come from the spec, never from the clock."""
    size = run.spec.segment
    stop = min(run.done + size, run.last)
    # Every segment has one shape, so that all share one compilation.
    padding = [run.ts[stop]] * (run.done + size - stop)
    ts = np.append(run.ts[run.done : stop + 1], padding)
    pieces = [_advance(run, i, ts, stop - run.done) for i in range(len(run.members))]
    keep = slice(0 if run.done == 0 else 1, stop - run.done + 1)
    frames = {"time": run.ts[run.done : stop + 1][keep]}
    for name in pieces[0]:
        kept = [piece[name][keep] for piece in pieces]
        frames[name] = kept[0] if run.spec.draws is None else np.stack(kept)
    run.done = stop
    return frames


def _advance(run: Run, index: int, ts: np.ndarray, end: int) -> Frames:
    """Moves one member to the end of the segment; one that has ended stays."""
    m, before = run.members[index], run.outcomes[index]
    if not before.going:
        still = _arrays(m.measure)
        return {name: np.stack([a] * len(ts)) for name, a in still.items()}
    trajectory = flow(
        m.dynamics, m.measure, ts, stepping=stepping(run.spec), stop=stops(run.spec)
    )
    trajectory = jax.block_until_ready(trajectory)
    run.outcomes[index] = before.after(trajectory, float(run.ts[-1]))
    stopped = not run.outcomes[index].going
    # Going on starts from the stored frame, so that a resumed run has the same bits.
    measure = trajectory.final if stopped else trajectory.at(end)
    run.members[index] = Member(m.dynamics, measure)
    return _arrays(trajectory.start.at(trajectory.coordinates))


def _arrays(mu: AbstractMeasure) -> Frames:
    if isinstance(mu, Gaussian):
        return {"mean": np.asarray(mu.mean), "factor": np.asarray(mu.factor)}
    return {"x": np.asarray(mu.coordinates)}


def _commit(run: Run, store: RunStore, frames: Frames) -> None:
    ending = common(run.outcomes).ending() if run.over else None
    state = {"members": [outcome.as_json() for outcome in run.outcomes]}
    store.append(frames, state, ending)


def _record_interruption(run: Run, store: RunStore) -> None:
    """Names the ending; what the cut segment computed is given up."""
    status = Status.INTERRUPTED
    known = float(run.ts[max(store.frames - 1, 0)])
    store.append({}, store.state, Ending(status.ending, REASONS[status], known))


def _of_draw(frame: Mapping[str, np.ndarray], spec: RunSpec, index: int) -> Frames:
    if spec.draws is None:
        return dict(frame)
    return {name: a[index] for name, a in frame.items() if name != "time"}


def _progress(run: Run, seconds: float) -> Progress:
    covariance = np.asarray(run.members[0].measure.covariance)
    finite = np.all(np.isfinite(covariance))
    largest = float(np.linalg.eigvalsh(covariance)[-1]) if finite else math.inf
    return Progress(
        float(run.ts[run.done]),
        float(run.ts[-1]),
        run.done + 1,
        len(run.ts),
        common(run.outcomes),
        largest,
        seconds,
    )


def _result(run: Run, store: RunStore | None, seconds: float) -> Result:
    measures = tuple(m.measure for m in run.members)
    path = None if store is None else store.path
    return Result(run.spec, measures, tuple(run.outcomes), path, seconds)
