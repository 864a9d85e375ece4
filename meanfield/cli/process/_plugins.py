"""Plugins: the user's own Python files, which are run and register extensions."""

import hashlib
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from meanfield import runs
from meanfield._reading import missing_file_error
from meanfield._trusted_plugins import trust_plugin
from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError

from ._session import open_session

FAULTS = (  # exceptions that a plugin may raise while it is run
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def load_plugins(files: Sequence[Path] | None) -> None:
    """Runs each plugin that has not run yet in this process, and marks it as trusted.

    Raises:
        InputFileError: if a plugin is missing or raises.
    """
    for file in files or []:
        content = _content(file)
        if _module_name(file, content) not in sys.modules:
            _run(file, content)
            trust_plugin(file, hashlib.sha256(content).hexdigest())


def load_before_keys(
    plugins: Sequence[Path] | None,
    keys: Mapping[str, Any],
    run_path: Path | None = None,
) -> None:
    """Runs plugins before keys are checked, since keys may name their extensions.

    Args:
        plugins: files of the given plugins.
        keys: keys of the command, which include the `precision` of the session.
        run_path: run or sweep; plugins that it has recorded must be unchanged.

    Raises:
        InputFileError: if a plugin has changed, is missing, or raises.
    """
    if plugins:
        if run_path is not None:
            runs.check_plugins_unchanged(run_path, plugins)
        begin(str(keys.get("precision", "double")), plugins)


def load_measure_of(path: Path, plugins: Sequence[Path] | None = None) -> None:
    """Runs the given plugins, and those that register the measure of a run or sweep.

    The plugins of the run itself are needed only if its measure is not built in.

    Raises:
        InputFileError: for the same reasons as in `load_plugins_of`.
    """
    from meanfield.spec import measures

    keys = _keys_of(path)
    runs.check_plugins_unchanged(path, plugins or [])
    if str(keys.get("measure", "points")) in measures:
        load_before_keys(plugins, keys)
    else:
        load_plugins_of(path, plugins)


def _keys_of(path: Path) -> Mapping[str, Any]:
    """Keys of a run or sweep; for a sweep, with the highest precision of its cells."""
    from meanfield.storage import RunStore

    if not runs.is_sweep(path):
        return RunStore.open(path).spec
    sweep = runs.SweepStore.open(path)
    precisions = [a.values for a in sweep.axes if a.key == "precision"]
    spec = sweep.record["spec"]
    finest = {"precision": "double"} if any("double" in p for p in precisions) else {}
    return {**spec, **finest}


def begin(precision: str, plugins: Sequence[Path] | None) -> None:
    """Starts JAX and loads plugins, in a command or one of its worker processes."""
    open_session(precision)
    load_plugins(plugins)


def load_plugins_of(
    run: Path, files: Sequence[Path] | None, precision: str | None = None
) -> list[Path]:
    """Runs the given plugins, and the trusted plugins of a run or sweep.

    A plugin is trusted if the user has given it to a command before.

    Args:
        run: folder of the run or sweep.
        files: given plugins.
        precision: precision of the session; the run's precision if `None`.

    Returns:
        The given plugins and the plugins of the run.

    Raises:
        InputFileError: if a plugin of the run has changed or is not trusted, or a
            plugin raises.
    """
    open_session(precision or str(_keys_of(run).get("precision", "double")))
    plugins = runs.plugins_of(run, files or [])
    for file in plugins[len(files or []) :]:
        if _module_name(file, _content(file)) not in sys.modules:
            note(f"plugin: {file}, unchanged since the run began")
    load_plugins(plugins)
    return plugins


def _content(file: Path) -> bytes:
    if not file.exists():
        raise missing_file_error(file)
    if file.suffix != ".py":
        raise InputFileError(f"`{file}` must be a .py file: rename it.")
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputFileError(_failure(file, error)) from error


def _module_name(file: Path, content: bytes) -> str:
    return f"meanfield_plugin_{file.stem}_{hashlib.sha256(content).hexdigest()[:12]}"


def _run(file: Path, content: bytes) -> None:
    """Runs a plugin from its source, never from cached bytecode."""
    name = _module_name(file, content)
    module = ModuleType(name)
    module.__file__ = str(file.absolute())
    sys.modules[name] = module
    importlib.import_module("meanfield._executables").distrust_executables()
    try:
        exec(compile(content, file, "exec", dont_inherit=True), vars(module))
    except FAULTS as error:
        del sys.modules[name]
        raise InputFileError(_failure(file, error)) from error


def _failure(file: Path, error: Exception) -> str:
    return (
        f"The plugin `{file}` fails: {type(error).__name__}: {error}; correct it "
        "(--debug shows where)."
    )
