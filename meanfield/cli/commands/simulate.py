"""`meanfield simulate` and `resume`: integrate a spec, or continue a stored run."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from meanfield import runs
from meanfield.cli.jobs._texts import note_unknown
from meanfield.cli.options._options import (
    MOST_USED,
    Values,
    add_spec_options,
    gather,
    merge_keys,
    option_values,
)
from meanfield.cli.options._values import Preset
from meanfield.cli.process._parallelism import SERIAL, ParallelismOptions
from meanfield.cli.process._plugins import load_before_keys, load_plugins_of
from meanfield.cli.process._session import CLOCK, open_session
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import note, print_json, print_pairs
from meanfield.errors import ProcessLostError, ResourceError, SimulationError
from meanfield.spec import KEYS, PARAMETERS, RunSpec, has_key, measures

COLLECTIVE = "Gloo"  # JAX's collectives on CPUs; their errors contain this name
OVERHEAD = "about 500 MB for Python and the compiler"  # measured: 340 to 680 MB


@add_spec_options
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
    parallelism: ParallelismOptions = SERIAL,
    **options: str | bool | None,
) -> None:
    """Move tokens, Gaussians or densities by attention or an energy.

    For example:
        meanfield simulate --preset collapse --out first.zarr
        meanfield simulate --measure gaussian --A 1 --cov 2  # blows up at t = 1/4
        meanfield simulate --init moons --d 2 --A 2 --V=-1 --t 3 --out moons.zarr
        meanfield simulate --measure gaussian --flow-of entropy --t 1
        meanfield simulate --from first.zarr --V=-1 --t 30   # from its last frame
        meanfield init run.toml                              # all keys, to edit
        meanfield simulate run.toml --attention l2 --A=-1    # options override it
        meanfield simulate run.toml --n 1000000 --dry-run    # memory, disk, time
        meanfield simulate run.toml --n 2000 --processes 2   # in two processes

    Keys come from a preset, a TOML file and options of the same names: options override
    the file, and the file overrides the preset. A MATRIX is a number c (for c I), a
    list of rows such as [[1,0],[0,2]], a file as @FILE.npy or @FILE.csv, or a random
    matrix (normal, kaiming, goe or wishart, as normal:SCALE); a list of these, such as
    1,-1, has one entry for each head.
    Without `--A`, or `--Q` and `--K`, the score matrix is A = I, for which softmax
    attention with V = 1 blows up; the report then says that A = I was assumed.

    Args:
        file: TOML file of keys.
        out: folder of the stored run; nothing is written if absent.
        preset: named set of keys; see `list presets`.
        start_from: run whose last frame, or frame at `--at`, is the initial measure,
            and whose keys are the defaults.
        json: JSON object on stdout instead of the report (flag).
        dry_run: estimate of memory, disk space and time, without running (flag).
        plugin: Python file that registers extensions; may be repeated.
        parallelism: devices and processes of the run.
        **options: keys of the spec.
    """
    from meanfield.storage import RunStore, check_folder_free

    parallelism.initialize()
    if plugin:
        keys = {} if start_from is None else dict(RunStore.open(start_from).spec)
        load_before_keys(plugin, merge_keys(file, preset, keys, options))
    base = {} if start_from is None else _keys_of(start_from, option_values(options))
    spec = gather(file, preset, base, options)
    if parallelism.processes is not None and not dry_run:
        if out is not None:
            check_folder_free(out)
        parallelism.supervise(out)
        return
    open_session(spec.precision)
    if dry_run:
        exact = {"reduction": parallelism.sums(spec.reduction)}
        _print_estimate(runs.forecast(spec.model_copy(update=exact)), out, json=json)
        return
    integrate(spec, out, plugins=plugin or [], layout=parallelism.layout(), json=json)


def resume(
    run: Path,
    /,
    *,
    json: bool = False,
    plugin: list[Path] | None = None,
    parallelism: ParallelismOptions = SERIAL,
) -> None:
    """Resume an interrupted run; its result has the same bytes.

    For example:
        meanfield resume first.zarr
        meanfield resume first.zarr --processes 2

    By default the run keeps its numbers of devices and processes. With other numbers
    the results agree only up to rounding.

    Args:
        run: folder of the run.
        json: JSON object on stdout instead of the report (flag).
        plugin: Python file of a plugin of the run; may be repeated. Plugins that were
            loaded before and have not changed load automatically.
        parallelism: devices and processes of the rest of the run.
    """
    from meanfield.storage import RunStore

    parallelism = parallelism.complete_from(RunStore.open(run))
    if parallelism.processes is not None:
        parallelism.supervise(run)
        return
    parallelism.initialize()
    settings = {"plugins": load_plugins_of(run, plugin), "layout": parallelism.layout()}
    job = partial(runs.resume, run, **settings)
    _run_job(job, (f"resume {run.name}",), run, json=json)


def integrate(spec: RunSpec, out: Path | None, *, json: bool, **settings: Any) -> None:
    """Runs a spec with a progress bar, and prints the report.

    Only process 0 stores files.
    """
    out = out if _is_first() else None
    if spec.model is not None and spec.text is not None:
        note_unknown(spec.model, spec.text)
    labels = (f"{spec.mover} {spec.measure_label}", "compiling")
    if spec.forward:
        labels = ("forward pass", f"reading {spec.model}")
    job = partial(runs.execute, spec, out=out, **settings)
    _run_job(job, labels, out, json=json)


def _keys_of(run: Path, options: Values) -> Values:
    """Default keys of a run that starts from the last frame of the stored `run`."""
    from meanfield.storage import RunStore

    store = RunStore.open(run)
    measure = options.get("measure", store.spec.get("measure", "points"))
    omissions = {key for key, row in KEYS.items() if row.is_not_inherited}
    if measure in measures:
        omissions |= {key for key in KEYS if not has_key(measure, key)}
    if not options.keys().isdisjoint(PARAMETERS):
        omissions |= {k for k, row in KEYS.items() if row.group == "Transformer"}
    keys = {key: value for key, value in store.spec.items() if key not in omissions}
    last_time = float(store.last_frame()["time"])
    return {**keys, "source": str(run.absolute()), "at": last_time}


def _print_estimate(forecast: "runs.Forecast", out: Path | None, *, json: bool) -> None:
    """Prints the memory and disk space of a run, and an estimate of its time."""
    plan, estimate, exact = forecast
    if out is not None:
        from meanfield.storage import check_folder_free

        check_folder_free(out)
        runs.check_disk_space(plan, out)
    values = plan.as_json()
    if json:
        durations = {"duration": _as_json(estimate), "exact": _as_json(exact)}
        print_json({**values, **durations})
        return
    arrays, disk = (runs.format_bytes(values[key]) for key in ("memory", "disk"))
    sizes = {"memory": f"{arrays} of arrays, plus {OVERHEAD}", "disk": disk}
    counts = {key: values[key] for key in ("n", "cells") if values[key]}
    facts = {key: value for key, value in values.items() if key not in ("n", "cells")}
    times = {"time": estimate, **({} if exact is None else {"exact sums": exact})}
    lines = {name: runs.describe_duration(time) for name, time in times.items()}
    print_pairs({**facts, **sizes, **counts, **lines})


def _as_json(estimate: "runs.Duration | None") -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"seconds": estimate.seconds, "step": estimate.step, **estimate._asdict()}


def _run_job(
    job: Callable[..., "runs.Result"],
    labels: tuple[str, ...],
    path: Path | None,
    *,
    json: bool,
) -> None:
    """Runs a job with a progress bar, prints its result, and raises if the flow failed.

    Args:
        job: function that executes or resumes a run.
        labels: title of the progress bar, and its first status.
        path: folder of the stored run, if it is stored.
        json: whether to print JSON instead of the report.
    """
    from meanfield.cli.jobs._report import Timing, as_json, print_report

    start, compile_start = time.perf_counter(), CLOCK.seconds
    result = _result(job, RunProgress(*labels), path)
    compile_seconds = CLOCK.seconds - compile_start
    seconds = time.perf_counter() - start - compile_seconds
    if _is_first():
        timing = Timing(seconds, compile_seconds)
        if json:
            print_json(as_json(result, timing))
        else:
            print_report(result, timing)
            if result.store is not None:
                note(f"next: meanfield plot {result.store}")
    _check_ending(result)


def _result(
    job: Callable[..., "runs.Result"], bar: RunProgress, path: Path | None
) -> "runs.Result":
    """The result of a job, with interrupts and runtime errors made readable.

    Raises:
        KeyboardInterrupt: with advice on resuming what is stored at `path`.
        ProcessLostError: if another process has ended.
        ResourceError: if the device is out of memory.
    """
    import jax

    try:
        with bar if _is_first() else nullcontext() as progress:
            return job(report=progress)
    except KeyboardInterrupt as error:
        if not _is_first():  # only process 0 stores and prints hints
            raise
        is_stored = path is not None and path.exists()
        advice = f"go on with `meanfield resume {path}`."
        hint = advice if is_stored else "nothing is stored."
        raise type(error)(f"stopped; {hint}") from None
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        # JAX's fast dispatch path raises runtime errors as ValueError.
        if isinstance(error, ValueError) and COLLECTIVE not in str(error):
            raise
        raise _cause(error) from None


def _is_first() -> bool:
    """Whether this is process 0, which alone prints and stores."""
    import jax

    return jax.process_index() == 0


def _cause(error: Exception) -> Exception:
    """The cause of a runtime error: memory is full, or another process has ended."""
    import jax

    if "RESOURCE_EXHAUSTED" in str(error):
        return ResourceError("The device is out of memory. Use fewer tokens.")
    if jax.process_count() > 1:
        first_line = str(error).splitlines()[0]
        return ProcessLostError(
            f"Another process of this run has ended, and this one with it: {first_line}"
        )
    return error


def _check_ending(result: "runs.Result") -> None:
    """Raises if the flow failed; the stored frames are kept.

    Raises:
        SimulationError: with the name of the ending.
    """
    outcome = result.outcome
    if outcome.status is None or not outcome.status.is_failure:
        return
    place = f" The frames until then are in {result.store}." if result.store else ""
    raise SimulationError(
        f"The flow ended with status `{outcome.name}` at t = {outcome.time:g}: "
        f"{runs.reason(result)}.{place}"
    )
