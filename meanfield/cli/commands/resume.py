"""`meanfield resume`: go on with an interrupted run."""

from pathlib import Path


def resume(
    run: Path, /, *, json: bool = False, plugin: list[Path] | None = None
) -> None:
    """Go on with an interrupted run, to the bytes it would have had.

    For example:
        meanfield resume first.zarr

    Args:
        run: the folder of the run.
        json: print one JSON object on stdout.
        plugin: a Python file in place of one that the run began with; may be repeated.
            The others are run again from where they were, if they have not changed.
    """
    from meanfield.cli.process._plugins import load_plugins_of
    from meanfield.cli.process._session import open_session
    from meanfield.storage import RunStore

    open_session(RunStore.open(run).spec.get("precision", "double"))
    plugins = load_plugins_of(run, plugin)
    from meanfield.cli.jobs._simulation import go_on

    go_on(run, plugins, in_json=json)
