"""`meanfield simulate`: integrate a spec."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from meanfield.cli.options._completing import Preset
from meanfield.cli.options._options import (
    MOST_USED,
    Values,
    gather,
    gathered,
    given_values,
    with_spec_options,
)
from meanfield.cli.process._together import ALONE, Shared
from meanfield.spec import KEYS, PARAMETERS, knows, measures


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
    from meanfield.cli.process._plugins import load_before_keys

    together.settle()
    if plugin:
        all_keys = gathered(file, preset, _all_keys_of(start_from), options)
        load_before_keys(plugin, all_keys)
    base = {} if start_from is None else _keys_of(start_from, given_values(options))
    spec = gather(file, preset, base, options)
    if together.processes is not None and not dry_run:
        from meanfield.storage import refuse_taken

        if out is not None:
            refuse_taken(out)
        together.supervise(out)
        return
    from meanfield.cli.process._session import open_session

    open_session(spec.precision)
    from meanfield.cli.jobs._simulation import dry, integrate

    if dry_run:
        dry(together.foreseen(spec), out, in_json=json)
    else:
        integrate(spec, out, plugin or [], in_json=json, layout=together.layout())


def _all_keys_of(run: Path | None) -> Values:
    """The keys of a run, also those that nothing else starts from."""
    from meanfield.storage import RunStore

    return {} if run is None else dict(RunStore.open(run).spec)


def _keys_of(run: Path, options: Values) -> Values:
    """The keys of a run that others are to start from; its last frame by default."""
    from meanfield.storage import RunStore

    store = RunStore.open(run)
    measure = options.get("measure", store.spec.get("measure", "points"))
    is_idle = lambda key: measure in measures and not knows(measure, key)
    omissions = {k for k, row in KEYS.items() if row.left_behind or is_idle(k)}
    if not options.keys().isdisjoint(PARAMETERS):
        omissions |= {k for k, row in KEYS.items() if row.group == "Transformer"}
    keys = {key: value for key, value in store.spec.items() if key not in omissions}
    at = float(store.last_frame()["time"])
    return {**keys, "source": str(run.absolute()), "at": at}
