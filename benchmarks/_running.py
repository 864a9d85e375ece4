"""Trials measured one after the other, each in a fresh process."""

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
from ._worker import measurement

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 3600.0  # seconds for one trial
ROUNDS, SHORT = 3, 12.0  # processes for a trial, begun within so many seconds
LONGEST = 200  # characters of a reason
ROOM = 0.5  # of the machine's memory, for the arrays of one trial

Told = Callable[[int, int, str], None]


def rows(
    trials: Sequence[Trial], device: str, told: Told, *, rounds: int = ROUNDS
) -> Iterator[dict[str, Any]]:
    """A row for each trial: its attributes, and what was measured or why not.

    Args:
        trials: what is to be measured, in this order.
        device: where arrays live.
        told: hears the number of each trial, how many there are, and what it is,
            before it begins.
        rounds: how many processes measure a short trial; the middle one counts, as
            on shared machines one in ten runs at half the speed of the others.
    """
    for number, trial in enumerate(trials, start=1):
        told(number, len(trials), trial.words)
        instance = replace(trial, device=device)
        row = {**instance.as_json(), "scaled": instance.scale > 1}
        yield {**row, **outcome(instance, rounds)}


def outcome(trial: Trial, rounds: int = 1) -> dict[str, Any]:
    """What was measured, or the reason why nothing was."""
    if version(trial.package) is None:
        return _without("skipped", f"{trial.package}: not installed")
    if trial.bytes_needed > ROOM * physical_memory():
        size = trial.bytes_needed / 1e9
        return _without("skipped", f"would hold {size:.0f} GB, too much for this one")
    return _middle(trial, rounds)


def _middle(trial: Trial, rounds: int) -> dict[str, Any]:
    """The process of median time; of two the faster."""
    measurements, start = [_in_a_process(trial)], time.perf_counter()
    while len(measurements) < rounds and time.perf_counter() - start < SHORT:
        measurements.append(_in_a_process(trial))
    failures = [row for row in measurements if row["status"] != "measured"]
    by_time = sorted(measurements, key=lambda row: row.get("seconds", 0.0))
    return failures[0] if failures else by_time[(len(measurements) - 1) // 2]


def _in_a_process(trial: Trial) -> dict[str, Any]:
    with Processes[dict[str, Any]](1, environment=_environment(trial)) as process:
        process.give(measurement, trial)
        answer = next(process.answers(PATIENCE), None)
    if answer is None:
        return _without("failed", f"took more than {PATIENCE:.0f} s")
    if answer.error is not None:
        return _without("failed", _why(answer.error))
    return {"status": "measured", **answer.result}


def _environment(trial: Trial) -> dict[str, str]:
    """The user's, with the precision of the trial and no programs from earlier runs."""
    variables = {
        k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"
    }
    double = str(int(trial.dtype == "float64"))
    # The last line of a failure is then the error.
    return {**variables, "JAX_ENABLE_X64": double, "JAX_TRACEBACK_FILTERING": "off"}


def _why(error: BaseException) -> str:
    """The last line of an error, with its kind if the trial has raised it."""
    if isinstance(error, WorkerLost):
        return str(error)
    message = traceback.format_exception_only(error)[0]
    return message.strip().splitlines()[-1][:LONGEST]


def _without(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}
