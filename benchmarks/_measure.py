"""Timing of a job in its own process."""

import gc
import statistics
import time
from typing import Any, NamedTuple

from ._trial import Job
from ._usage import forget_peak

FEWEST = 3  # smallest number of repeats, unless they take too long
LONG_ENOUGH = 1.0  # seconds of repeats after which `FEWEST` repeats are enough
TOO_LONG = 60.0  # seconds after which no further repeat starts


class Spent(NamedTuple):
    """Wall time and processor time of one run, in seconds."""

    wall: float
    cpu: float


def measured(job: Job, scale: float = 1.0) -> dict[str, Any]:
    """Times, memory and facts of a job.

    Times are medians multiplied by `scale`; `compile_seconds` is the additional time of
    the first run, and `memory` the growth of the peak memory over all runs, in MB.
    """
    gc.collect()  # garbage freed during the job would hide memory that the job needs
    forget_peak()
    before = job.usage.peak()
    first = [_once(job)[0] for _ in range(job.warmups)]
    runs, result = _repeated(job)
    memory = job.usage.peak() - before
    typical = statistics.median(run.wall for run in runs)
    figures = {
        "seconds": scale * typical,
        "best_seconds": scale * min(run.wall for run in runs),
        "cpu_seconds": scale * statistics.median(run.cpu for run in runs),
        "compile_seconds": max(0.0, first[0].wall - typical) if first else None,
        "repeats": len(runs),
        "memory": memory,
    }
    return {**figures, **job.facts(result)}


def _repeated(job: Job) -> tuple[list[Spent], Any]:
    """Times of all runs and the result of the last one; other results are freed."""
    runs: list[Spent] = []
    result = None
    while _goes_on([run.wall for run in runs], job.most):
        result = None
        duration, result = _once(job)
        runs.append(duration)
    return runs, result


def _goes_on(times: list[float], limit: int) -> bool:
    """Whether to repeat the run once more."""
    if not times:
        return True
    duration, enough = sum(times), len(times) >= FEWEST
    return len(times) < limit and duration < (LONG_ENOUGH if enough else TOO_LONG)


def _once(job: Job) -> tuple[Spent, Any]:
    cpu, start = job.usage.cpu(), time.perf_counter()
    result = job.run()
    return Spent(time.perf_counter() - start, job.usage.cpu() - cpu), result
