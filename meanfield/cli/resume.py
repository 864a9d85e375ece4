"""`meanfield resume`: go on with an interrupted run."""

from pathlib import Path


def resume(
    run: Path, /, *, json: bool = False, plugin: list[Path] | None = None
) -> None:
    """Go on with an interrupted run, to the bytes it would have had.

    Args:
        run: the folder of the run.
        json: print one JSON object on stdout.
        plugin: a Python file that registers your own attention; may be repeated.
    """
    from meanfield.storage import RunStore

    from ._session import load_plugins, open_session

    open_session(RunStore.open(run).spec.get("precision", "double"))
    load_plugins(plugin)
    from ._simulate import go_on

    go_on(run, plugin or [], in_json=json)
