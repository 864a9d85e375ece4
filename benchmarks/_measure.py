"""Timing of a job in its own process."""

import gc
import statistics
import time
from typing import Any, NamedTuple

from ._trial import Job
from ._usage import reset_peak

MIN_REPEATS = 3  # minimum number of timed runs, unless MAX_SECONDS is reached first
MIN_SECONDS = 1.0  # runs are repeated at least until their total time reaches this
MAX_SECONDS = 60.0  # no further run starts once the total time reaches this


class Duration(NamedTuple):
    """Wall time and processor time of one run, in seconds."""

    wall: float
    cpu: float


def measure_job(job: Job, scale: float = 1.0) -> dict[str, Any]:
    """Measures the times and the memory of a job, and collects its facts.

    Times are medians multiplied by `scale`; `compile_seconds` is the additional time of
    the first run, and `memory` the growth of the peak memory over all runs, in MB.
    """
    # The job could reuse the memory of old garbage, which would hide memory growth.
    gc.collect()
    reset_peak()
    peak_before = job.usage.peak()
    warmups = [_run_once(job)[0] for _ in range(job.warmups)]
    runs, result = _run_repeatedly(job)
    memory = job.usage.peak() - peak_before
    median = statistics.median(run.wall for run in runs)
    entries = {
        "seconds": scale * median,
        "best_seconds": scale * min(run.wall for run in runs),
        "cpu_seconds": scale * statistics.median(run.cpu for run in runs),
        "compile_seconds": max(0.0, warmups[0].wall - median) if warmups else None,
        "repeats": len(runs),
        "memory": memory,
    }
    return {**entries, **job.facts(result)}


def _run_repeatedly(job: Job) -> tuple[list[Duration], Any]:
    """Times of all runs, and the result of the last run; earlier results are freed."""
    runs: list[Duration] = []
    result = None
    while _should_repeat([run.wall for run in runs], job.max_repeats):
        result = None
        duration, result = _run_once(job)
        runs.append(duration)
    return runs, result


def _should_repeat(times: list[float], limit: int) -> bool:
    """Whether to run a job once more, given the times of its runs so far."""
    if not times:
        return True
    duration, has_enough = sum(times), len(times) >= MIN_REPEATS
    return len(times) < limit and duration < (
        MIN_SECONDS if has_enough else MAX_SECONDS
    )


def _run_once(job: Job) -> tuple[Duration, Any]:
    cpu, start = job.usage.cpu(), time.perf_counter()
    result = job.run()
    return Duration(time.perf_counter() - start, job.usage.cpu() - cpu), result
