"""The one place that configures JAX: before any array, from the command line alone."""

import importlib.util
import os
import sys
import time
from pathlib import Path

from meanfield.errors import InputFileError

_compiling: list[tuple[float, float]] = []  # disjoint intervals, in order
EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


def open_session(precision: str = "double") -> None:
    """Sets precision, the compilation cache and the compile clock, and loads JAX."""
    # Inputs are checked on the host; checks inside would each be a host callback, which
    # keeps a compiled program out of the cache.
    os.environ.setdefault("EQX_ON_ERROR", "off")
    import jax

    jax.config.update("jax_enable_x64", precision == "double")
    folder = cache_folder()
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.monitoring.register_event_duration_secs_listener(_listen)


def compile_seconds() -> float:
    """Seconds this process has spent tracing, lowering and compiling."""
    return sum(end - begin for begin, end in _compiling)


def cache_folder() -> Path | None:
    """Where compiled programs are kept, if that can be written; see `XDG_CACHE_HOME`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "meanfield" / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def load_plugins(files: list[Path] | None) -> None:
    """Runs the user's own files, which register attentions, clouds or panels.

    Raises:
        InputFileError: if one is missing or cannot be imported.
    """
    for file in files or []:
        name = f"meanfield_plugin_{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None or not file.exists():
            raise InputFileError(f"`{file}` is no Python file that can be loaded.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (SyntaxError, ImportError, NameError, AttributeError) as error:
            raise InputFileError(f"`{file}` cannot be loaded: {error}") from error


def _listen(event: str, seconds: float, **_: object) -> None:
    if event not in EVENTS:
        return
    end = time.perf_counter()
    begin = end - seconds
    # An event is told at its end, after those inside it: it takes their place.
    while _compiling and _compiling[-1][1] > begin:
        begin = min(begin, _compiling.pop()[0])
    _compiling.append((begin, end))
