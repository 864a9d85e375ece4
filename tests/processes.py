"""Waiting for processes in tests."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PATIENCE = 60.0  # seconds
RUNNING_STATES = "RD"  # states of a thread that runs, or waits for a core or a disk


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits for a condition, and fails after a minute."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Whether a process has ended, even if nobody has waited for it."""
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or ") Z " in state.read_text()


def processes_in(folder: Path) -> list[int]:
    """The running processes with a folder as working folder.

    The first thread of a killed process may end before the others, which keep its files
    open until they end: so every thread is checked.
    """
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended, or is not readable
            if entry.name.isdigit() and _has_thread_in(entry, folder):
                pids.append(int(entry.name))
    return sorted(pids)


def _has_thread_in(process: Path, folder: Path) -> bool:
    for link in (process / "task").glob("*/cwd"):
        with suppress(OSError):  # the thread has ended
            if link.readlink() == folder:
                return True
    return False


def is_at_work(pid: int) -> bool:
    """Whether any thread of a process is running or runnable."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            if stat.read_text().rpartition(") ")[2][0] in RUNNING_STATES:
                return True
    return False


def seconds_of(pid: int) -> float:
    """Processor time of a process in seconds; 0 if it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
