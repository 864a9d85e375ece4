"""Processor time and peak memory of this process, or of its finished children."""

import contextlib
import resource
import sys
import time
from pathlib import Path
from typing import Protocol

STATUS = Path("/proc/self/status")
RESET_PEAK = "5"  # written to `clear_refs`, it resets the peak memory (see proc(5))
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # unit of `ru_maxrss` in bytes


class Usage(Protocol):
    """Counter of processor time and peak memory."""

    def cpu(self) -> float:
        """Processor time used so far, in seconds."""
        ...

    def peak(self) -> float:
        """Peak memory since the start or the last reset, in MB (10⁶ bytes)."""
        ...


class _Own:
    def cpu(self) -> float:
        return time.process_time()

    def peak(self) -> float:
        with contextlib.suppress(OSError):
            for line in STATUS.read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024 / 1e6
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT / 1e6


class _Children:
    def cpu(self) -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def peak(self) -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_maxrss * MAXRSS_UNIT / 1e6


def reset_peak() -> None:
    """Resets the peak memory of this process, if the system supports it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)


OWN: Usage = _Own()
CHILDREN: Usage = _Children()
