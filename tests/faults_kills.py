"""Commands stopped by signals, full disks and removed folders."""

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from faults_checks import Truth, aftermath, arrays, faults_of
from faults_commands import (
    COMMANDS,
    PATIENCE,
    SIGNAL_CODES,
    run_command,
    start_command,
    wait,
)
from processes import has_ended, seconds_of


def kill(draw: random.Random, place: Path, truth: Truth, pace: dict[str, float]):
    """Sends a signal to a random command after random processor time."""
    name = draw.choice(list(COMMANDS))
    number = draw.choice(list(SIGNAL_CODES))
    fresh = draw.random() < 0.1
    process = start_command(COMMANDS[name], place, None, fresh)
    moment = draw.uniform(0.0, 1.1) * pace.get(name, 2.0) + (0.1 if fresh else 0.0)
    while seconds_of(process) < moment and not has_ended(process):
        time.sleep(0.002)
    time.sleep(draw.uniform(0.0, 0.02))  # the system counts hundredths of a second
    os.kill(process, number)
    result = wait(process, place)
    if result.code == 0 and not fresh:  # it ended before the signal
        pace[name] = 0.8 * pace.get(name, result.seconds) + 0.2 * result.seconds
    actual = faults_of(result, {0, *SIGNAL_CODES[number]})
    return f"{name} {number.name}", result, actual + aftermath(name, place, truth)


def full_disk(draw: random.Random, place: Path, truth: Truth, _: dict[str, float]):
    """Limits files to a random length, as a full disk would."""
    name = draw.choice(list(COMMANDS))
    result = run_command(COMMANDS[name], place, limit=int(2 ** draw.uniform(4, 16)))
    return name, result, faults_of(result, {0, 4}) + aftermath(name, place, truth)


def removal(draw: random.Random, place: Path, truth: Truth, _: dict[str, float]):
    """Removes a store, or a part of it, while it is written."""
    name, part = draw.choice(["simulate", "resume"]), draw.choice(list(PARTS))
    run = place / {"simulate": "new", "resume": "half"}[name]
    first = frames_of(run)
    process = start_command(COMMANDS[name], place, None, fresh=False)
    deadline, expected = time.monotonic() + PATIENCE, first + draw.randint(2, 16)
    while time.monotonic() < deadline and frames_of(run) < expected:
        time.sleep(0.002)
    os.kill(process, signal.SIGSTOP)
    over = _is_over(run)
    if not over:
        PARTS[part](run)
    os.kill(process, signal.SIGCONT)
    result = wait(process, place)
    actual = faults_of(result, {0, 3, 4, 7})
    if result.code == 0 and not over and arrays(run) != arrays(truth.run):
        actual.append("lost in silence")
    return f"{name} {part}", result, actual


def frames_of(run: Path) -> int:
    """The number of committed frames of a run."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads((run / "commit.json").read_bytes())["frames"]
    return 0


def _is_over(run: Path) -> bool:
    """Whether a run made its last commit before the disturbance."""
    with contextlib.suppress(OSError, ValueError):
        ending = json.loads((run / "commit.json").read_bytes())["ending"]
        return ending is not None and ending["name"] != "interrupted"
    return False


PARTS: dict[str, Callable[[Path], object]] = {
    "store": lambda run: shutil.rmtree(run, ignore_errors=True),
    "moved": lambda run: run.rename(run.with_name("elsewhere")),
    "data": lambda run: shutil.rmtree(run / "data", ignore_errors=True),
    "segments": lambda run: shutil.rmtree(run / "data/segments", ignore_errors=True),
    "static": lambda run: shutil.rmtree(run / "data/static", ignore_errors=True),
    "first": lambda run: shutil.rmtree(run / "data/segments/00000", ignore_errors=True),
    "array": lambda run: shutil.rmtree(
        run / "data/segments/00000/x", ignore_errors=True
    ),
    "record": lambda run: (run / "commit.json").unlink(missing_ok=True),
    "lock": lambda run: (run / ".lock").unlink(missing_ok=True),
}
