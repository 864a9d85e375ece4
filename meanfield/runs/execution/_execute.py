"""Runs a spec segment by segment, with or without a store."""

import math
import time
from collections.abc import Sequence
from pathlib import Path

import jax

from meanfield.devices import Layout
from meanfield.endings import Status
from meanfield.runs.forecasts._plan import check_disk_space, plan
from meanfield.runs.records._endings import combine_outcomes, ending_of
from meanfield.runs.records._inputs import Inputs
from meanfield.runs.records._provenance import provenance
from meanfield.runs.records._validation import load_spec, raise_damaged
from meanfield.runs.records._vocabulary import vocabulary
from meanfield.runs.representations import Arrays, largest_eigenvalue, token_numbers
from meanfield.spec import RunSpec
from meanfield.storage import RESUMABLE, Ending, RunStore

from ._notes import flow_note, growth_note
from ._result import Progress, Report, Result
from ._run import Run, reopen, start
from ._segment import advance


def execute(
    spec: RunSpec,
    *,
    out: Path | None = None,
    report: Report | None = None,
    plugins: Sequence[Path] = (),
    layout: Layout | None = None,
) -> Result:
    """Runs a spec; with `out`, stores the frames in a new folder.

    Args:
        spec: the run.
        out: a folder for the store.
        report: called with a `Progress` after each segment.
        plugins: files that the spec depends on; the store records their digests.
        layout: the devices that share the tokens, or the members of a family. If
            several processes make this call with the same spec, pass `out` in the
            first process only.

    Raises:
        UnsupportedError: if there is nothing for the devices of `layout` to share.
        InvalidInputError: if keys contradict each other, or `out` is not empty.
        InputFileError: if a file that the spec names cannot be read.
        ResourceError: if there is not enough memory or disk space, or `out` cannot be
            written.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"measure": "gaussian", "A": -1.0, "cov": 2.0, "t": 1.0, "frames": 3}
        >>> result = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> result.store.name, runs.dataset(result.store).sizes["time"]
        ('run.zarr', 3)
    """
    run = start(spec, layout)
    store = None if out is None else _create(run, out, plugins)
    return _advance_to_end(run, store, report)


def resume(
    path: Path,
    *,
    report: Report | None = None,
    plugins: Sequence[Path] = (),
    layout: Layout | None = None,
) -> Result:
    """Continues an interrupted run; the result is that of an uninterrupted run.

    A run that has already ended is returned unchanged. If several processes make this
    call, only the first writes.

    Args:
        path: the folder of the run.
        report: called with a `Progress` after each segment.
        plugins: files that the run depends on.
        layout: the devices that share the rest of the run. The result is identical bit
            for bit only with the layout that the run had before.

    Raises:
        InputFileError: if there is no run at `path`, or if a file that it needs, or one
            of `plugins`, has changed since the run began.
        StoreError: if the store is damaged, or another process writes to it.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> _ = runs.execute(
        ...     spec.parse({"n": 5, "t": 0.1, "frames": 3}), out=Path("run.zarr")
        ... )
        >>> runs.resume(Path("run.zarr")).outcome.name  # it had ended
        'finished'
    """
    store = RunStore.open(path)
    store.check()
    spec = load_spec(store)
    has_ended = store.ending is not None and store.ending.name != RESUMABLE
    if not has_ended:
        record, is_started = store.attrs.get("inputs"), store.frames > 0
        Inputs.from_spec(spec, plugins).check(record, is_started=is_started)
    if store.frames:
        run, t = reopen(store, spec, layout)
        if has_ended:
            return _result(run, store, 0.0)
        if run.frame_index > run.last_index or t != run.ts[run.frame_index]:
            reason = f"its last frame is at t = {t:g}, which is no time of its spec"
            raise_damaged(path, reason)
    else:
        run = start(spec, layout)
    writer = store.claim() if jax.process_index() == 0 else None  # one process writes
    return _advance_to_end(run, writer, report)


def _create(run: Run, path: Path, plugins: Sequence[Path]) -> RunStore:
    measure, spec = run.members[0].measure, run.spec
    representation = run.setup.representation
    size = representation.size(measure)
    check_disk_space(plan(spec, size, len(run.ts), len(run.members)), path)
    attrs = {
        "kind": spec.measure,
        "spec": spec.as_json(),
        "dtype": run.setup.dtype.name,
        "inputs": Inputs.from_spec(spec, plugins).as_recorded(),
        **vocabulary(spec.model, spec.text, spec.source),
        **provenance(),
        "layout": None if run.layout is None else run.layout.as_json(),
    }
    dims = representation.dims(measure)
    return RunStore.create(path, attrs=attrs, static=run.static, dims=dims)


def _advance_to_end(run: Run, store: RunStore | None, report: Report | None) -> Result:
    begin, first = time.perf_counter(), run.frame_index
    try:
        while not run.has_ended:
            steps, start_index = run.steps, run.frame_index
            run = advance(run)
            if store is not None:
                state = {"members": [outcome.as_json() for outcome in run.outcomes]}
                ending = ending_of(run.outcomes) if run.has_ended else None
                store.append(run.frames, state, ending)
            if report is not None:
                span = float(run.ts[run.frame_index] - run.ts[start_index])
                report(_progress(run, first, span, run.steps - steps))
    except KeyboardInterrupt:
        if store is not None:
            _record_interruption(store)
        raise
    return _result(run, store, time.perf_counter() - begin)


def _record_interruption(store: RunStore) -> None:
    """Records that the run was interrupted; the unfinished segment is lost."""
    # `store` may not yet show a commit that was made just before the interrupt.
    store.reread()
    if store.ending is not None or not store.frames:
        return
    t = float(store.last_frame()["time"])
    status = Status.INTERRUPTED
    with store:
        ending = Ending(status.ending, status.reason, t)
        store.append({}, store.state, ending)


def _progress(run: Run, first: int, span: float, steps: int) -> Progress:
    outcome = combine_outcomes(run.outcomes)
    return Progress(
        t=float(run.ts[run.frame_index]) if outcome.is_running else outcome.time,
        t_end=float(run.ts[-1]),
        share=(run.frame_index - first) / (run.last_index - first),
        outcome=outcome,
        step_size=span * len(run.members) / steps if steps else float("nan"),
        largest_eigenvalue=largest_eigenvalue(run.members[0].measure),
        sums=run.sums,
    )


def _growth(run: Run) -> tuple[float, ...]:
    """The factor by which each member has grown; NaN for a Dirac at the origin."""
    ends = [float(member.measure.size) for member in run.members]
    return tuple(
        end / begin if begin > 0 else math.nan
        for begin, end in zip(run.sizes, ends, strict=True)
    )


def _last_numbers(run: Run) -> Arrays:
    """The observed numbers of the tokens at the end; an array for several members."""
    names = run.spec.recorded_numbers
    values = token_numbers([member.measure for member in run.members], names)
    if run.spec.is_family:
        return values
    return {name: numbers.squeeze(0) for name, numbers in values.items()}


def _result(run: Run, store: RunStore | None, seconds: float) -> Result:
    growth, keys = _growth(run), run.spec.model_fields_set
    large = "" if run.spec.forward else growth_note(keys, run.outcomes, growth)
    return Result(
        run.spec,
        tuple(member.measure for member in run.members),
        run.outcomes,
        None if store is None else store.path,
        seconds,
        {**run.observables, **_last_numbers(run)},
        run.sums,
        "; ".join(filter(None, (flow_note(run.setup, run.members[0]), large))),
        run.energy_change,
        growth,
    )
