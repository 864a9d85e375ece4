"""A user's own files, which register what the package lacks: code that is run."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from meanfield import runs
from meanfield._reading import absent
from meanfield._trusted_plugins import trust_plugin
from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError

from ._session import open_session

FAULTS = (  # what a user's own file may raise while it is read
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
    """Runs the user's own files, each content once in a process, and remembers them.

    Raises:
        InputFileError: if one is missing or cannot be imported.
    """
    for file in files or []:
        content = _content(file)
        if _module_name(file, content) not in sys.modules:
            _run(file, content)
            trust_plugin(file, hashlib.sha256(content).hexdigest())


def load_before_keys(
    plugins: Sequence[Path] | None, keys: Mapping[str, Any], stored: Path | None = None
) -> None:
    """Runs plugins before keys are checked, which may name what they register.

    Args:
        plugins: those that are given.
        keys: in whose precision they are run.
        stored: a run or a sweep; where it began with a plugin of the same name, that
            must be the same.

    Raises:
        InputFileError: if a plugin has changed since, is missing, or fails.
    """
    if plugins:
        if stored is not None:
            runs.refuse_changed_plugins(stored, plugins)
        begin(str(keys.get("precision", "double")), plugins)


def load_measure_of(path: Path, given: Sequence[Path] | None = None) -> None:
    """Runs the plugins that are given, and those of a run that must say what it moved.

    These are the plugins that a run, or a sweep, of a measure of theirs began with.

    Raises:
        InputFileError: as `load_plugins_of`.
    """
    from meanfield.spec import measures

    keys = _keys_of(path)
    runs.refuse_changed_plugins(path, given or [])
    if str(keys.get("measure", "points")) in measures:
        load_before_keys(given, keys)
    else:
        load_plugins_of(path, given)


def _keys_of(path: Path) -> Mapping[str, Any]:
    """The keys of a run, or of a sweep in the finest precision of its cells."""
    from meanfield.storage import RunStore

    if not runs.is_sweep(path):
        return RunStore.open(path).spec
    sweep = runs.SweepStore.open(path)
    precisions = [a.values for a in sweep.axes if a.key == "precision"]
    spec = sweep.record["spec"]
    finest = {"precision": "double"} if any("double" in p for p in precisions) else {}
    return {**spec, **finest}


def begin(precision: str, plugins: Sequence[Path] | None) -> None:
    """Loads JAX and plugins: what a command, or a process that works for it, does."""
    open_session(precision)
    load_plugins(plugins)


def load_plugins_of(
    run: Path, files: Sequence[Path] | None, precision: str | None = None
) -> list[Path]:
    """Runs the plugins that are given, and those that a run or sweep began with.

    Of the latter those alone that the user has given before.

    Args:
        run: the folder of the run or sweep.
        files: those that are given.
        precision: in which they are run; by default that of the run.

    Returns:
        All of them.

    Raises:
        InputFileError: if a plugin of the run has changed or was not given before, or
            one cannot be imported.
    """
    open_session(precision or str(_keys_of(run).get("precision", "double")))
    plugins = runs.plugins_of(run, files or [])
    for file in plugins[len(files or []) :]:
        if _module_name(file, _content(file)) not in sys.modules:
            note(f"plugin: {file}, as when the run began")
    load_plugins(plugins)
    return plugins


def _content(file: Path) -> bytes:
    if not file.exists():
        raise absent(file)
    if file.suffix != ".py":
        raise InputFileError(
            f"`{file}` is no Python file: rename it, for plugins end in .py."
        )
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputFileError(_failure(file, error)) from error


def _module_name(file: Path, content: bytes) -> str:
    return f"meanfield_plugin_{file.stem}_{hashlib.sha256(content).hexdigest()[:12]}"


def _run(file: Path, content: bytes) -> None:
    """Runs the bytes that were read, and no bytecode that lies beside the file."""
    name = _module_name(file, content)
    module = ModuleType(name)
    module.__file__ = str(file.absolute())
    sys.modules[name] = module
    try:
        exec(compile(content, file, "exec", dont_inherit=True), vars(module))
    except FAULTS as error:
        del sys.modules[name]
        raise InputFileError(_failure(file, error)) from error


def _failure(file: Path, error: Exception) -> str:
    return (
        f"The plugin `{file}` fails: {type(error).__name__}: {error}; mend it, with "
        "--debug to see where."
    )
