"""What tests of several processes wait for."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 60.0  # seconds


def wait_for(condition: Callable[[], bool]) -> None:
    """Returns once it holds, and fails if it does not for a minute."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended, be it that nobody has asked how."""
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or ") Z " in state.read_text()
