"""Configuration of JAX for the command line, before the first array is made."""

import functools
import gc
import importlib
import os
import resource
import time
from types import ModuleType

from meanfield.errors import ResourceError

from ._programs import Programs, cache_folder, keep_programs, prune

GC_THRESHOLDS = 100_000, 20, 50  # tracing makes many objects but few cycles
LEAST_MEMORY = 3 * 10**9  # bytes of address space; a tiny run takes 1.9e9 on two cores

EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class CompileClock:
    """Total time of compilation events; nested events count once."""

    def __init__(self) -> None:
        self._intervals: list[tuple[float, float]] = []  # disjoint, in order

    @property
    def seconds(self) -> float:
        """Seconds of tracing, lowering and compiling since the start."""
        return sum((end - begin for begin, end in self._intervals), 0.0)

    def restart(self) -> None:
        """Resets the clock for a new command."""
        self._intervals.clear()

    def listen(self, event: str, duration_secs: float, **_: object) -> None:
        """Records an event that has just ended, in place of the events nested in it."""
        if event not in EVENTS:
            return
        end = time.perf_counter()
        begin = end - duration_secs
        while self._intervals and self._intervals[-1][1] > begin:
            begin = min(begin, self._intervals.pop()[0])
        self._intervals.append((begin, end))


CLOCK = CompileClock()  # one per process, like the compiler


def open_session(precision: str = "double") -> None:
    """Sets precision, the compilation cache and the compile clock, and loads JAX.

    Raises:
        ResourceError: if there is too little memory for JAX, or no device.
    """
    _check_memory_limit()
    gc.set_threshold(*GC_THRESHOLDS)
    # Inputs are checked on the host. Checks inside compiled code would be host
    # callbacks, and JAX does not cache programs with callbacks.
    os.environ.setdefault("EQX_ON_ERROR", "off")
    jax = _start_jax()
    jax.config.update("jax_enable_x64", precision == "double")
    jax.config.update("jax_default_matmul_precision", "highest")  # no TF32
    folder = cache_folder()
    if folder is not None:
        keep_programs(folder)
        executables = importlib.import_module("meanfield._executables")
        programs = Programs(folder)
        executables.keep_executables(programs.get, programs.put, programs.pause)
        prune(folder)
    _start_clock()
    CLOCK.restart()


def _check_memory_limit() -> None:
    """Raises for a memory limit at which JAX itself would hang or abort."""
    for flag, kind in (("-v", resource.RLIMIT_AS), ("-d", resource.RLIMIT_DATA)):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY and limit < LEAST_MEMORY:
            raise ResourceError(
                f"JAX needs {LEAST_MEMORY / 1e9:.0f} GB of address space, and the "
                f"shell allows {limit / 1e9:.1f} GB; run `ulimit {flag} unlimited`."
            )


def _start_jax() -> ModuleType:
    """Imports JAX and initialises its devices.

    Raises:
        ResourceError: if the device that an environment variable selects is missing.
    """
    try:
        jax = importlib.import_module("jax")
        jax.devices()
    except (AssertionError, RuntimeError, ValueError) as error:  # bad device or flag
        settings = [f"{k}={v}" for k, v in os.environ.items() if k.startswith("JAX_")]
        raise ResourceError(
            "JAX cannot find the device set by environment variables "
            f"({', '.join(settings) or 'none'}). Unset them, or install JAX's package "
            f"for the device. {error}"
        ) from error
    return jax


@functools.cache
def _start_clock() -> None:
    import jax

    jax.monitoring.register_event_duration_secs_listener(CLOCK.listen)
