"""Measurement of trials, each in a new process."""

import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from meanfield.workers import Processes, WorkerLost

from ._machine import physical_memory, version
from ._trial import Trial
from ._worker import measure_trial

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 3600.0  # timeout of a trial in seconds
ROUNDS = 3  # largest number of processes that measure the same trial
# A trial is repeated only within this time, in seconds, after its first process ends.
SHORT_TRIAL = 12.0
MAX_REASON = 200  # largest number of characters shown of an error message
MEMORY_FRACTION = 0.5  # trials whose arrays exceed this fraction of memory are skipped

OnTrial = Callable[[int, int, str], None]


def rows(
    trials: Sequence[Trial], device: str, on_trial: OnTrial, *, rounds: int = ROUNDS
) -> Iterator[dict[str, Any]]:
    """Yields a row for each trial: its attributes, and results or a reason for failure.

    Args:
        trials: trials, in the order of measurement.
        device: device of the arrays.
        on_trial: function that is called before each trial with its number, the number
            of trials, and its description.
        rounds: number of processes that measure a short trial. The process with the
            median time is used, since on shared machines one in ten has half speed.
    """
    for number, trial in enumerate(trials, start=1):
        on_trial(number, len(trials), trial.label)
        instance = replace(trial, device=device)
        row = {**instance.as_json(), "scaled": instance.scale > 1}
        yield {**row, **outcome(instance, rounds)}


def outcome(trial: Trial, rounds: int = 1) -> dict[str, Any]:
    """Results of a trial, or the reason why it was skipped or failed."""
    if version(trial.package) is None:
        return _unmeasured("skipped", f"{trial.package}: not installed")
    if trial.bytes_needed > MEMORY_FRACTION * physical_memory():
        size = trial.bytes_needed / 1e9
        return _unmeasured("skipped", f"needs {size:.0f} GB, too much for this machine")
    return _median_outcome(trial, rounds)


def _median_outcome(trial: Trial, rounds: int) -> dict[str, Any]:
    """Results of the process with the median time; of two processes, the faster one."""
    measurements, start = [_measure_in_process(trial)], time.perf_counter()
    while len(measurements) < rounds and time.perf_counter() - start < SHORT_TRIAL:
        measurements.append(_measure_in_process(trial))
    failures = [row for row in measurements if row["status"] != "measured"]
    by_time = sorted(measurements, key=lambda row: row.get(trial.clock, 0.0))
    return failures[0] if failures else by_time[(len(measurements) - 1) // 2]


def _measure_in_process(trial: Trial) -> dict[str, Any]:
    with Processes[dict[str, Any]](1, environment=_environment(trial)) as process:
        process.submit(measure_trial, trial)
        answer = next(process.answers(TIMEOUT), None)
    if answer is None:
        return _unmeasured("failed", f"took more than {TIMEOUT:.0f} s")
    if answer.error is not None:
        return _unmeasured("failed", error_reason(answer.error))
    return {"status": "measured", **answer.result}


def _environment(trial: Trial) -> dict[str, str]:
    """The user's environment, with the trial's precision and no compilation cache."""
    variables = {
        k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"
    }
    double = str(int(trial.dtype == "float64"))
    # Filtered tracebacks end with a notice from JAX instead of the error.
    return {**variables, "JAX_ENABLE_X64": double, "JAX_TRACEBACK_FILTERING": "off"}


def error_reason(error: BaseException) -> str:
    """Last line of an error's type and message; if a worker died, only the message."""
    if isinstance(error, WorkerLost):
        return str(error)
    message = traceback.format_exception_only(error)[0]
    return message.strip().splitlines()[-1][:MAX_REASON]


def _unmeasured(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}
