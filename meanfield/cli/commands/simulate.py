"""`meanfield simulate` and `resume`: integrate a spec, or the rest of a run."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from meanfield import runs
from meanfield.cli.jobs._words import note_unknown
from meanfield.cli.options._options import (
    MOST_USED,
    Values,
    gather,
    given_values,
    merge_keys,
    with_spec_options,
)
from meanfield.cli.options._values import Preset
from meanfield.cli.process._plugins import load_before_keys, load_plugins_of
from meanfield.cli.process._session import CLOCK, open_session
from meanfield.cli.process._together import ALONE, Shared
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import note, print_json, print_pairs
from meanfield.errors import ProcessLost, ResourceError, SimulationFailed
from meanfield.spec import KEYS, PARAMETERS, RunSpec, knows, measures

COLLECTIVE = "Gloo"  # who computes sums over the processes of CPUs, as its errors say
BESIDE = "some 500 MB of Python and its compiler"  # 340 to 680 MB were measured


@with_spec_options
def simulate(
    file: Path | None = None,
    /,
    *,
    out: Annotated[Path | None, Parameter(group=MOST_USED)] = None,
    preset: Preset = None,
    start_from: Annotated[Path | None, Parameter(name="--from")] = None,
    json: bool = False,
    dry_run: bool = False,
    plugin: list[Path] | None = None,
    together: Shared = ALONE,
    **options: str | bool | None,
) -> None:
    """Move tokens, Gaussians or densities by attention or an energy.

    For example:
        meanfield simulate --preset collapse --out first.zarr
        meanfield simulate --measure gaussian --A 1 --cov 2  # infinite at t = 1/4
        meanfield simulate --init moons --d 2 --A 2 --V=-1 --t 3 --out moons.zarr
        meanfield simulate --measure gaussian --flow-of entropy --t 1
        meanfield simulate --from first.zarr --V=-1 --t 30   # from its last frame
        meanfield init run.toml                              # all keys, to edit …
        meanfield simulate run.toml --attention l2 --A=-1    # … options win over it
        meanfield simulate run.toml --n 1000000 --dry-run    # what it would take
        meanfield simulate run.toml --n 2000 --processes 2   # side by side

    Keys come from a preset, a TOML file and options of the same names; the later win.
    A MATRIX is a number c (for c I), a list of rows such as [[1,0],[0,2]], a file as
    @FILE.npy or @FILE.csv, or the law normal:SCALE, drawn from the seed; a list of
    these, such as 1,-1, has one for each head. Without `--A`, or `--Q` and `--K`, the
    scores are those of A = I, under which softmax attention with V = 1 blows up; the
    report says so.

    Args:
        file: a TOML file of keys.
        out: folder to store the run in; without it nothing is written.
        preset: a named set of keys; see `list presets`.
        start_from: a run to start from, at its end or at `--at`, with its keys.
        json: print one JSON object on stdout.
        dry_run: print what the run would take, memory and about how much time, and
            refuse what cannot be.
        plugin: a Python file that is run, and registers what you add; may be repeated.
        together: the devices and processes that share the work.
        **options: the keys of the spec.
    """
    from meanfield.storage import RunStore, refuse_taken

    together.settle()
    if plugin:
        keys = {} if start_from is None else dict(RunStore.open(start_from).spec)
        load_before_keys(plugin, merge_keys(file, preset, keys, options))
    base = {} if start_from is None else _keys_of(start_from, given_values(options))
    spec = gather(file, preset, base, options)
    if together.processes is not None and not dry_run:
        if out is not None:
            refuse_taken(out)
        together.supervise(out)
        return
    open_session(spec.precision)
    if dry_run:
        exact = {"reduction": together.sums(spec.reduction)}
        _foresee(runs.foreseen(spec.model_copy(update=exact)), out, in_json=json)
        return
    integrate(spec, out, plugins=plugin or [], layout=together.layout(), in_json=json)


def resume(
    run: Path,
    /,
    *,
    json: bool = False,
    plugin: list[Path] | None = None,
    together: Shared = ALONE,
) -> None:
    """Go on with an interrupted run, to the bytes it would have had.

    For example:
        meanfield resume first.zarr
        meanfield resume first.zarr --processes 2

    It goes on by as many devices and processes as it began with, or by others: numbers
    then agree to rounding, and not to the bit.

    Args:
        run: the folder of the run.
        json: print one JSON object on stdout.
        plugin: a Python file that the run began with; may be repeated. One that you
            have given to a command before is run again by itself, if it is unchanged.
        together: the devices and processes that share the rest.
    """
    from meanfield.storage import RunStore

    together = together.or_as(RunStore.open(run))
    if together.processes is not None:
        together.supervise(run)
        return
    together.settle()
    shared = {"plugins": load_plugins_of(run, plugin), "layout": together.layout()}
    job = partial(runs.resume, run, **shared)
    _conclude(job, (f"resume {run.name}",), run, in_json=json)


def integrate(
    spec: RunSpec, out: Path | None, *, in_json: bool, **settings: Any
) -> None:
    """Executes a spec, with progress, and reports; the first process alone stores."""
    out = out if _is_first() else None
    if spec.model is not None and spec.text is not None:
        note_unknown(spec.model, spec.text)
    words = (f"{spec.mover} {spec.moved}", "compiling")
    if spec.forward:
        words = ("forward pass", f"reading {spec.model}")
    job = partial(runs.execute, spec, out=out, **settings)
    _conclude(job, words, out, in_json=in_json)


def _keys_of(run: Path, options: Values) -> Values:
    """The keys of a run that others are to start from; its last frame by default."""
    from meanfield.storage import RunStore

    store = RunStore.open(run)
    measure = options.get("measure", store.spec.get("measure", "points"))
    omissions = {key for key, row in KEYS.items() if row.left_behind}
    if measure in measures:
        omissions |= {key for key in KEYS if not knows(measure, key)}
    if not options.keys().isdisjoint(PARAMETERS):
        omissions |= {k for k, row in KEYS.items() if row.group == "Transformer"}
    keys = {key: value for key, value in store.spec.items() if key not in omissions}
    at = float(store.last_frame()["time"])
    return {**keys, "source": str(run.absolute()), "at": at}


def _foresee(ahead: "runs.Foresight", out: Path | None, *, in_json: bool) -> None:
    """Prints what a run would take, its time as an estimate."""
    plan, estimate, exact = ahead
    if out is not None:
        from meanfield.storage import refuse_taken

        refuse_taken(out)
        runs.refuse_full_disk(plan, out)
    values = plan.as_json()
    if in_json:
        print_json({**values, "time": _as_json(estimate), "exact": _as_json(exact)})
        return
    arrays, disk = (runs.readable(values[key]) for key in ("memory", "disk"))
    sizes = {"memory": f"{arrays} of arrays, beside {BESIDE}", "disk": disk}
    counts = {key: values[key] for key in ("n", "cells") if values[key]}
    facts = {key: value for key, value in values.items() if key not in ("n", "cells")}
    words = {"time": runs.in_words(estimate)}
    if exact is not None:
        words["exact sums"] = runs.in_words(exact)
    print_pairs({**facts, **sizes, **counts, **words})


def _as_json(estimate: "runs.Duration | None") -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"seconds": estimate.seconds, "step": estimate.step, **estimate._asdict()}


def _conclude(
    job: Callable[..., "runs.Result"],
    words: tuple[str, ...],
    path: Path | None,
    *,
    in_json: bool,
) -> None:
    """Does a job with progress, and prints its result; fails if the flow did.

    Args:
        job: what is done.
        words: the title of its progress, and what it begins with.
        path: where its result is stored, if it is.
        in_json: whether a program reads it.
    """
    from meanfield.cli.jobs._report import Timing, as_json, print_report

    start, compile_start = time.perf_counter(), CLOCK.seconds
    result = _result(job, RunProgress(*words), path)
    compile_seconds = CLOCK.seconds - compile_start
    seconds = time.perf_counter() - start - compile_seconds
    if _is_first():
        timing = Timing(seconds, compile_seconds)
        if in_json:
            print_json(as_json(result, timing))
        else:
            print_report(result, timing)
            if result.store is not None:
                note(f"next: meanfield plot {result.store}")
    _check_ending(result)


def _result(
    job: Callable[..., "runs.Result"], bar: RunProgress, path: Path | None
) -> "runs.Result":
    """What a job returns; what stops it says how to go on, or what was lost.

    Raises:
        KeyboardInterrupt: saying how to go on with what is stored at `path`.
        ProcessLost: if another process has ended.
        ResourceError: if memory is full.
    """
    import jax

    try:
        with bar if _is_first() else nullcontext() as progress:
            return job(report=progress)
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
        raise _cause(error) from None


def _is_first() -> bool:
    """Whether this process speaks for those that compute together."""
    import jax

    return jax.process_index() == 0


def _cause(error: Exception) -> Exception:
    """What the runtime means: memory is full, or another process has ended."""
    import jax

    if "RESOURCE_EXHAUSTED" in str(error):
        return ResourceError("The device's memory is full; ask for fewer tokens.")
    if jax.process_count() > 1:
        said = str(error).splitlines()[0]
        return ProcessLost(
            "A process that computes beside this one has ended, and this one with it: "
            f"{said}"
        )
    return error


def _check_ending(result: "runs.Result") -> None:
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
