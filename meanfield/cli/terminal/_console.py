"""Progress on stderr: a bar on a terminal, lines elsewhere, nothing for a short run."""

import sys
import threading
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from meanfield.cli.process._session import CLOCK

from ._output import note, number

if TYPE_CHECKING:
    import meanfield.runs

INTERPOLATIONS = ("cells", "chebyshev")  # prefixes of the names of interpolated sums
QUIET_SECONDS = 2.0  # delay of the first output
MAX_SECONDS = 60.0  # longest time between plain lines, which doubles from the delay


class RunProgress:
    """Progress of a run after each segment: a bar on a terminal, lines elsewhere."""

    def __init__(self, title: str, begin: str = "compiling") -> None:
        self._title = title
        self._console = Console(stderr=True)
        self._bar = Progress(
            BarColumn(bar_width=10),
            TextColumn("{task.fields[status]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=1.0, status=begin)
        self._timer = threading.Timer(QUIET_SECONDS, self._appear)
        self._timer.daemon = True
        self._last = (time.perf_counter(), CLOCK.seconds, 0.0)
        self._wait, self._next_line = QUIET_SECONDS, 0.0

    def __enter__(self) -> "RunProgress":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._bar.live.is_started:
            self._bar.stop()

    def __call__(self, step: "meanfield.runs.Progress") -> None:
        """Shows the progress of the run after a segment."""
        self.show(step.share, f"{_status(step)}  {self._time_left(step.share)}")

    def show(self, share: float, status: str) -> None:
        """Shows the completed fraction and a status line."""
        self._bar.update(self._task, completed=share, status=status)
        is_quiet = self._console.is_terminal or self._timer.is_alive() or share >= 1
        if not is_quiet and time.perf_counter() > self._next_line:
            self._wait = min(2 * self._wait, MAX_SECONDS)
            self._next_line = time.perf_counter() + self._wait
            note(f"{self._title}: {status}")

    def _appear(self) -> None:
        if self._console.is_terminal:
            self._bar.start()
        else:
            note(f"{self._title}: {self._bar.tasks[0].fields['status']}")

    def _time_left(self, share: float) -> str:
        """Time left, from the speed of the last segment; compilation does not count."""
        sample = (time.perf_counter(), CLOCK.seconds, share)
        pairs = zip(self._last, sample, strict=True)
        seconds, compile_seconds, progress = (b - a for a, b in pairs)
        self._last = sample
        return f"{(seconds - compile_seconds) * (1 - share) / progress:.0f} s left"


class FrameProgress:
    """Count of drawn frames, updated in place on a terminal; lines elsewhere."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last = time.monotonic()
        self._first: float | None = None
        self._end = "\r" if sys.stderr.isatty() else "\n"
        self._erase = "\x1b[2K" if sys.stderr.isatty() else ""

    def __call__(self, count: int, total: int) -> None:
        """Shows the number of drawn frames and the time left."""
        if self._first is None:
            self._first = time.monotonic()
        if count == total and self._end == "\r":
            sys.stderr.write("\x1b[2K\r")
        elif time.monotonic() - self._last > QUIET_SECONDS:
            self._last = time.monotonic()
            line = f"{self._title}: frame {count} of {total}"
            line += self._time_left(count, total)
            sys.stderr.write(f"{self._erase}{line}{self._end}")
        sys.stderr.flush()

    def _time_left(self, count: int, total: int) -> str:
        """Time left, from the mean time per frame; the first frame does not count."""
        if self._first is None or count < 2:
            return ""
        seconds = (time.monotonic() - self._first) / (count - 1)
        return f", {seconds * (total - count):.0f} s left"


def _status(step: "meanfield.runs.Progress") -> str:
    outcome = step.outcome
    nodes = f"  {step.sums}" if step.sums.startswith(INTERPOLATIONS) else ""
    return (
        f"t {step.t:.3g}/{step.t_end:.3g}  dt {number(step.step_size, 2)}  "
        f"{outcome.n_accepted} steps, {outcome.n_rejected} rejected  "
        f"λ {number(step.largest_eigenvalue, 3)}{nodes}"
    )
