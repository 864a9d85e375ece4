"""The one place that configures JAX: before any array, from the command line alone."""

import functools
import gc
import importlib
import os
import resource
import time
from importlib.metadata import version
from types import ModuleType

from meanfield.errors import ResourceError

from ._programs import cache_folder, keep_programs, prune

COLLECTED = 100_000, 20, 50  # a trace makes many objects and hardly a cycle
# Fused loops the older way, which JAX 0.12 no longer has, and programs in one part.
OLDER = " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
LEAST_MEMORY = 3 * 10**9  # bytes of addresses; a tiny run takes 1.9e9 on two cores

EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class CompileClock:
    """Adds up the events of compilation, those inside others only once."""

    def __init__(self) -> None:
        self._intervals: list[tuple[float, float]] = []  # disjoint, in order

    @property
    def seconds(self) -> float:
        """Seconds of tracing, lowering and compiling heard since the start."""
        return sum((end - begin for begin, end in self._intervals), 0.0)

    def restart(self) -> None:
        """Forgets all that was heard: another command begins."""
        self._intervals.clear()

    def listen(self, event: str, duration_secs: float, **_: object) -> None:
        """Hears of an event at its end, after those inside it: it takes their place."""
        if event not in EVENTS:
            return
        end = time.perf_counter()
        begin = end - duration_secs
        while self._intervals and self._intervals[-1][1] > begin:
            begin = min(begin, self._intervals.pop()[0])
        self._intervals.append((begin, end))


CLOCK = CompileClock()  # one for the process, as is the compiler it listens to


def open_session(precision: str = "double") -> None:
    """Sets precision, the compilation cache and the compile clock, and loads JAX.

    Raises:
        ResourceError: if there is too little memory for JAX, or no device.
    """
    _check_memory_limit()
    gc.set_threshold(*COLLECTED)
    # Inputs are checked on the host; checks inside would each be a host callback, which
    # keeps a compiled program out of the cache.
    os.environ.setdefault("EQX_ON_ERROR", "off")
    jax = _started()
    jax.config.update("jax_enable_x64", precision == "double")
    jax.config.update("jax_default_matmul_precision", "highest")  # no TF32
    folder = cache_folder()
    if folder is not None:
        keep_programs(folder)
        prune(folder)
    _start_clock()
    CLOCK.restart()


def _check_memory_limit() -> None:
    """Refuses a limit of memory at which JAX would hang or abort, not raise."""
    for flag, kind in (("-v", resource.RLIMIT_AS), ("-d", resource.RLIMIT_DATA)):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY and limit < LEAST_MEMORY:
            raise ResourceError(
                f"JAX needs {LEAST_MEMORY / 1e9:.0f} GB of addresses to start, and the "
                f"shell allows {limit / 1e9:.1f} GB; set `ulimit {flag} unlimited`."
            )


def _started() -> ModuleType:
    """JAX, once it has found its device.

    Raises:
        ResourceError: if there is none such as the environment asks for.
    """
    try:
        jax = importlib.import_module("jax")
        jax.devices()
    except (AssertionError, RuntimeError, ValueError) as error:  # device, or flag
        settings = [f"{k}={v}" for k, v in os.environ.items() if k.startswith("JAX_")]
        raise ResourceError(
            "JAX finds no device such as the environment asks for "
            f"({', '.join(settings) or 'nothing'}); leave it out, or install one's "
            f"package. {error}"
        ) from error
    return jax


def compile_fast() -> None:
    """Has the compiler optimise little, for commands that compile more than they run.

    Processes started later inherit it; flags of the user's own stay as they are.
    """
    older = OLDER if version("jax").startswith("0.10.") else ""
    os.environ.setdefault("XLA_FLAGS", f"--xla_backend_optimization_level=0{older}")


@functools.cache
def _start_clock() -> None:
    import jax

    jax.monitoring.register_event_duration_secs_listener(CLOCK.listen)
