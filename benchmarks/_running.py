"""Trials measured one after the other, each in a fresh process."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ._machine import physical_memory, version
from ._trial import Trial

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 3600.0  # seconds for one trial
ROUNDS, SHORT = 3, 12.0  # processes for a trial, begun within so many seconds
ROOM = 0.5  # of the machine's memory, for the arrays of one trial

Told = Callable[[int, int, Trial], None]


def rows(
    trials: Sequence[Trial], device: str, told: Told, *, rounds: int = ROUNDS
) -> Iterator[dict[str, Any]]:
    """A row for each trial: its attributes, and what was measured or why not.

    Args:
        trials: what is to be measured, in this order.
        device: where arrays live.
        told: hears the number of each trial before it begins.
        rounds: how many processes measure a short trial; the middle one counts, as
            on shared machines one in ten runs at half the speed of the others.
    """
    for number, trial in enumerate(trials, start=1):
        told(number, len(trials), trial)
        placed = replace(trial, device=device)
        row = {**placed.as_json(), "scaled": placed.scale > 1}
        yield {**row, **outcome(placed, rounds)}


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
    found, begun = [_in_a_process(trial)], time.perf_counter()
    while len(found) < rounds and time.perf_counter() - begun < SHORT:
        found.append(_in_a_process(trial))
    failed = [each for each in found if each["status"] != "measured"]
    by_time = sorted(found, key=lambda each: each.get("seconds", 0.0))
    return failed[0] if failed else by_time[(len(found) - 1) // 2]


def _in_a_process(trial: Trial) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        text = json.dumps(trial.as_json())
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._worker", text, str(result)],
            cwd=ROOT,
            env=_environment(trial),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        try:
            complaints = process.communicate(timeout=PATIENCE)[1]
        except subprocess.TimeoutExpired:
            return _without("failed", f"took more than {PATIENCE:.0f} s")
        finally:
            _end(process)
        if process.returncode != 0:
            return _without("failed", _why(process.returncode, complaints))
        return {"status": "measured", **json.loads(result.read_text(encoding="utf-8"))}


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process that is still at work, with those that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _environment(trial: Trial) -> dict[str, str]:
    """The user's, with the precision of the trial and no programs from earlier runs."""
    kept = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    double = str(int(trial.dtype == "float64"))
    # The last line of a failure is then the error.
    return {**kept, "JAX_ENABLE_X64": double, "JAX_TRACEBACK_FILTERING": "off"}


def _why(code: int, complaints: str) -> str:
    if code < 0:
        return f"ended by signal {-code}"
    lines = [line for line in complaints.splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"exit code {code}"


def _without(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}
