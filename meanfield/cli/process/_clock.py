"""How long JAX traces and compiles, told apart from what it computes."""

import time

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
