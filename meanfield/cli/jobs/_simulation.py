"""The part of `simulate` and `resume` that needs JAX."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax

from meanfield import runs
from meanfield.cli.process._session import CLOCK
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import note, print_json, print_pairs
from meanfield.devices import Layout
from meanfield.errors import ProcessLost, ResourceError, SimulationFailed
from meanfield.spec import RunSpec
from meanfield.storage import refuse_taken

from ._report import print_report
from ._report_values import Timing, as_json
from ._words import note_unknown

COLLECTIVE = "Gloo"  # who computes sums over the processes of CPUs, as its errors say
BESIDE = "some 500 MB of Python and its compiler"  # 340 to 680 MB were measured

Job = Callable[[RunProgress | None], runs.Result]


def integrate(
    spec: RunSpec,
    out: Path | None,
    plugins: Sequence[Path],
    *,
    in_json: bool,
    layout: Layout | None = None,
) -> None:
    """Executes a spec, with progress, and reports; the first process alone stores."""
    out = out if _is_first() else None
    if spec.model is not None and spec.text is not None:
        note_unknown(spec.model, spec.text)
    if spec.forward:
        title, begin = "forward pass", f"reading {spec.model}"
    else:
        title, begin = f"{spec.mover} {spec.moved}", "compiling"
    job: Job = lambda progress: runs.execute(
        spec, out=out, report=progress, plugins=plugins, layout=layout
    )
    _conclude(title, job, out, in_json, begin=begin)


def go_on(
    path: Path,
    plugins: Sequence[Path],
    *,
    in_json: bool,
    layout: Layout | None = None,
) -> None:
    """Resumes a run, with progress, and reports."""
    job: Job = lambda progress: runs.resume(
        path, report=progress, plugins=plugins, layout=layout
    )
    _conclude(f"resume {path.name}", job, path, in_json)


def dry(spec: RunSpec, out: Path | None, *, in_json: bool) -> None:
    """Prints what a run would take, its time as an estimate."""
    plan, estimate, exact = runs.foreseen(spec)
    if out is not None:
        refuse_taken(out)
        runs.refuse_full_disk(plan, out)
    values = plan.as_json()
    if in_json:
        print_json({**values, "time": _timed(estimate), "exact": _timed(exact)})
        return
    arrays, disk = (runs.readable(values[key]) for key in ("memory", "disk"))
    sizes = {"memory": f"{arrays} of arrays, beside {BESIDE}", "disk": disk}
    counts = {key: values[key] for key in ("n", "cells") if values[key]}
    facts = {key: value for key, value in values.items() if key not in ("n", "cells")}
    words = {"time": runs.in_words(estimate)}
    if exact is not None:
        words["exact sums"] = runs.in_words(exact)
    print_pairs({**facts, **sizes, **counts, **words})


def _timed(estimate: runs.Duration | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    numbers = {"seconds": estimate.seconds, "step": estimate.step}
    return {**numbers, **estimate._asdict()}


def _conclude(
    title: str, job: Job, path: Path | None, in_json: bool, begin: str = "compiling"
) -> None:
    """Does a job with progress, and prints its result; fails if the flow did."""
    start, compile_start = time.perf_counter(), CLOCK.seconds
    try:
        with RunProgress(title, begin) if _is_first() else nullcontext() as progress:
            result = job(progress)
    except KeyboardInterrupt as error:
        if not _is_first():  # another stores
            raise
        is_stored = path is not None and path.exists()
        advice = f"go on with `meanfield resume {path}`."
        hint = advice if is_stored else "nothing is stored."
        raise type(error)(f"stopped; {hint}") from None
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        # JAX raises what its fast path meets as a ValueError.
        if isinstance(error, ValueError) and COLLECTIVE not in str(error):
            raise
        raise _named(error) from None
    compile_seconds = CLOCK.seconds - compile_start
    seconds = time.perf_counter() - start - compile_seconds
    if _is_first():
        _say(result, Timing(seconds, compile_seconds), in_json=in_json)
    _fail_with(result)


def _is_first() -> bool:
    """Whether this process speaks for those that compute together."""
    return jax.process_index() == 0


def _say(result: runs.Result, timing: Timing, *, in_json: bool) -> None:
    if in_json:
        print_json(as_json(result, timing))
        return
    print_report(result, timing)
    if result.store is not None:
        note(f"next: meanfield plot {result.store}")


def _named(error: Exception) -> Exception:
    """What the runtime means: memory is full, or another process has ended."""
    if "RESOURCE_EXHAUSTED" in str(error):
        return ResourceError("The device's memory is full; ask for fewer tokens.")
    if jax.process_count() > 1:
        said = str(error).splitlines()[0]
        return ProcessLost(
            "A process that computes beside this one has ended, and this one with it: "
            f"{said}"
        )
    return error


def _fail_with(result: runs.Result) -> None:
    """Fails if the flow did; what was computed is kept.

    Raises:
        SimulationFailed: naming the ending.
    """
    outcome = result.outcome
    if outcome.status is None or not outcome.status.failed:
        return
    place = (
        "" if result.store is None else f" The frames up to then are in {result.store}."
    )
    raise SimulationFailed(
        f"The flow ended as `{outcome.name}` at t = {outcome.time:g}: "
        f"{runs.reason(result)}.{place}"
    )
