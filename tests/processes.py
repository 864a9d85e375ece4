"""What tests of several processes wait for."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PATIENCE = 60.0  # seconds
AT_WORK = "RD"  # states in which a thread computes, or waits for a core or a disk


def wait_for(condition: Callable[[], bool]) -> None:
    """Returns once it holds, and fails if it does not for a minute."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Whether a process has ended, be it that nobody has asked how."""
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or ") Z " in state.read_text()


def processes_in(folder: Path) -> list[int]:
    """The processes that work in a folder, without those that have ended.

    The first thread of a process that is killed may have ended before the others,
    which hold its files until they end, too: so every thread is asked.
    """
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended, or is not ours to look at
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
    """Whether a thread of a process computes, or would if it had a core."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            if stat.read_text().rpartition(") ")[2][0] in AT_WORK:
                return True
    return False


def seconds_of(pid: int) -> float:
    """Seconds of the processor that a process has taken; 0 if it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
