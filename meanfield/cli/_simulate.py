"""The part of `simulate` and `resume` that needs JAX."""

from collections.abc import Callable
from pathlib import Path

from meanfield import runs
from meanfield.errors import SimulationFailed
from meanfield.spec import RunSpec

from ._console import RunProgress, note, print_json, print_pairs
from ._report import as_json, print_report


def integrate(spec: RunSpec, out: Path | None, *, in_json: bool) -> None:
    """Executes a spec, with progress, and reports."""
    with RunProgress(f"{spec.attention} {spec.measure}") as progress:
        result = runs.execute(spec, out=out, report=progress)
    conclude(result, in_json=in_json)


def go_on(path: Path, *, in_json: bool) -> None:
    """Resumes a run, with progress, and reports."""
    with RunProgress(f"resume {path.name}") as progress:
        result = runs.resume(path, report=progress)
    conclude(result, in_json=in_json)


def conclude(result: runs.Result, *, in_json: bool) -> None:
    """Prints a result, and fails if the flow did.

    Raises:
        SimulationFailed: if the flow ended as a failure; what was computed is kept.
    """
    show: Callable[[runs.Result], None] = print_report
    if in_json:
        show = lambda result: print_json(as_json(result))
    show(result)
    if result.store is not None and not in_json:
        note(f"next: meanfield plot {result.store}")
    outcome = result.outcome
    if outcome.status is not None and outcome.status.failed:
        raise SimulationFailed(
            f"the flow ended as `{outcome.name}` at t = {outcome.time:g}: "
            f"{outcome.reason}; the frames up to then are kept."
        )


def dry(spec: RunSpec, out: Path | None, *, in_json: bool) -> None:
    """Prints what a run would take."""
    run = runs.start(spec)
    plan = runs.plan(spec, run.members[0].measure, len(run.ts))
    if out is not None:
        runs.refuse_full_disk(plan, out)
    values = plan.as_json()
    if in_json:
        print_json(values)
        return
    sizes = {key: runs.readable(values.pop(key)) for key in ("memory", "disk")}
    print_pairs({**values, **sizes, "precision": spec.precision})
