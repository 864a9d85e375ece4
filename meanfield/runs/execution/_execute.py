"""Integrating a spec, segment by segment, with or without a store."""

import math
import time
from collections.abc import Sequence
from pathlib import Path

import jax

from meanfield.devices import Layout
from meanfield.endings import Status
from meanfield.runs.forecasts._plan import plan, refuse_full_disk
from meanfield.runs.records._endings import common, ending_of
from meanfield.runs.records._inputs import Inputs
from meanfield.runs.records._provenance import provenance
from meanfield.runs.records._stored import refuse, stored_spec
from meanfield.runs.records._vocabulary import vocabulary
from meanfield.runs.representations import largest_eigenvalue
from meanfield.spec import RunSpec
from meanfield.storage import RESUMABLE, Ending, RunStore

from ._notes import caveat, growth_note
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
    """Integrates a spec; with `out`, into a new store.

    Args:
        spec: what is integrated.
        out: a folder for the store.
        report: called between segments.
        plugins: files that the spec depends on; the store keeps their digests.
        layout: the devices that share the tokens, or the members of a family. Of
            several processes that make this call with the same spec the first alone is
            to be given `out`.

    Raises:
        UnsupportedError: if `layout` has nothing to share.
        InvalidInputError: if keys do not fit together, or `out` is taken.
        InputFileError: if a file that the spec names cannot be read.
        ResourceError: if memory, disk or folder will not do.

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
    """Goes on with an interrupted run, to the bytes it would have had.

    A run that has ended is returned as it ended. Of several processes that make this
    call the first alone writes.

    Args:
        path: the folder of the run.
        report: called between segments.
        plugins: files that it depends on.
        layout: the devices that share what is left; the bytes are those that the run
            would have had if they are those that it had before.

    Raises:
        InputFileError: if there is no run at `path`, or a file that it needs, or one of
            `plugins`, is not what it was when the run began.
        StoreError: if it is damaged, or another process writes to it.

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
    spec = stored_spec(store)
    has_ended = store.ending is not None and store.ending.name != RESUMABLE
    if not has_ended:
        record, is_started = store.attrs.get("inputs"), store.frames > 0
        Inputs.of(spec, plugins).check(record, is_started=is_started)
    if store.frames:
        run, t = reopen(store, spec, layout)
        if has_ended:
            return _result(run, store, 0.0)
        if run.done > run.last or t != run.ts[run.done]:
            reason = f"its last frame is at t = {t:g}, which is no time of its spec"
            refuse(path, reason)
    else:
        run = start(spec, layout)
    writer = store.claim() if jax.process_index() == 0 else None  # the first alone
    return _advance_to_end(run, writer, report)


def _create(run: Run, out: Path, plugins: Sequence[Path]) -> RunStore:
    measure, spec, home = run.members[0].measure, run.spec, run.setup.representation
    size = home.size(measure)
    refuse_full_disk(plan(spec, size, len(run.ts), len(run.members)), out)
    attrs = {
        "kind": spec.measure,
        "spec": spec.as_json(),
        "dtype": run.setup.dtype.name,
        "inputs": Inputs.of(spec, plugins).as_recorded(),
        **vocabulary(spec.model, spec.text, spec.source),
        **provenance(),
        "layout": None if run.layout is None else run.layout.as_json(),
    }
    return RunStore.create(out, attrs=attrs, static=run.static, dims=home.dims(measure))


def _advance_to_end(run: Run, store: RunStore | None, report: Report | None) -> Result:
    begin, first = time.perf_counter(), run.done
    try:
        while not run.over:
            steps, before = run.steps, run.done
            run = advance(run)
            if store is not None:
                state = {"members": [outcome.as_json() for outcome in run.outcomes]}
                ending = ending_of(run.outcomes) if run.over else None
                store.append(run.frames, state, ending)
            if report is not None:
                span = float(run.ts[run.done] - run.ts[before])
                report(_progress(run, first, span, run.steps - steps))
    except KeyboardInterrupt:
        if store is not None:
            _record_interruption(store)
        raise
    return _result(run, store, time.perf_counter() - begin)


def _record_interruption(store: RunStore) -> None:
    """Names the ending; what the cut segment computed is given up."""
    # A commit may have been cut after it took effect: read what holds.
    store.reread()
    if store.ending is not None or not store.frames:
        return
    t = float(store.last_frame()["time"])
    status = Status.INTERRUPTED
    with store:
        ending = Ending(status.ending, status.reason, t)
        store.append({}, store.state, ending)


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


def _growth(run: Run) -> tuple[float, ...]:
    """By which factors the sizes of the members have grown; NaN from a point at 0."""
    ends = [float(member.measure.size) for member in run.members]
    return tuple(
        end / begin if begin > 0 else math.nan
        for begin, end in zip(run.sizes, ends, strict=True)
    )


def _result(run: Run, store: RunStore | None, seconds: float) -> Result:
    growth = _growth(run)
    large = "" if run.spec.forward else growth_note(run.outcomes, growth)
    return Result(
        run.spec,
        tuple(member.measure for member in run.members),
        run.outcomes,
        None if store is None else store.path,
        seconds,
        run.observed,
        run.sums,
        "; ".join(filter(None, (caveat(run.setup, run.members[0]), large))),
        run.fall,
        growth,
    )
