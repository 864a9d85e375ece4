"""`meanfield resume`: go on with an interrupted run."""

from pathlib import Path

from meanfield.cli.process._together import ALONE, Shared


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
    from meanfield.cli.process._plugins import load_plugins_of
    from meanfield.cli.process._session import open_session
    from meanfield.storage import RunStore

    together = together.or_as(RunStore.open(run))
    if together.processes is not None:
        together.supervise(run)
        return
    together.settle()
    open_session(RunStore.open(run).spec.get("precision", "double"))
    plugins = load_plugins_of(run, plugin)
    from meanfield.cli.jobs._simulation import go_on

    go_on(run, plugins, in_json=json, layout=together.layout())
