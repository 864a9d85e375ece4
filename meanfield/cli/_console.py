"""Results to stdout, progress to stderr."""

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from meanfield.runs import Progress as Step

QUIET_SECONDS = 2.0  # plain progress lines come no closer than this


def print_json(values: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON object, and nothing else, on stdout; NaN and infinities are null."""
    sys.stdout.write(json.dumps(_finite(values), ensure_ascii=False) + "\n")


def print_table(
    rows: Sequence[Sequence[object]], headers: Sequence[str], title: str | None = None
) -> None:
    """A table on stdout."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*[str(cell) for cell in row])
    Console().print(table)


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Names and values, aligned, on stdout."""
    width = max(len(name) for name in pairs)
    for name, value in pairs.items():
        sys.stdout.write(f"{name:<{width}}  {value}\n")


def note(line: str) -> None:
    """A line on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class RunProgress:
    """Draws a run between its segments: a bar on a terminal, lines elsewhere."""

    def __init__(self, title: str) -> None:
        self._console = Console(stderr=True)
        self._title = title
        self._last = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> "RunProgress":
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[status]}"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=1.0, status="compiling")
        else:
            note(f"{self._title}: compiling")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: "Step") -> None:
        """Shows the run after a segment."""
        share = (step.frames - 1) / max(step.n_frames - 1, 1)
        if self._bar is not None:
            self._bar.update(self._task, completed=share, status=_status(step))
        elif time.monotonic() - self._last > QUIET_SECONDS:
            self._last = time.monotonic()
            left = step.seconds * (1 - share) / share
            note(f"{self._title}: {_status(step)}, about {left:.0f} s left")


class FrameProgress:
    """Counts frames as they are drawn: in place on a terminal, in lines elsewhere."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last = time.monotonic()
        self._end = "\r" if sys.stderr.isatty() else "\n"

    def __call__(self, done: int, total: int) -> None:
        """Shows how many of the frames are done."""
        if done == total and self._end == "\r":
            sys.stderr.write("\x1b[2K\r")
        elif time.monotonic() - self._last > QUIET_SECONDS / 2:
            self._last = time.monotonic()
            sys.stderr.write(f"{self._title}: frame {done} of {total}{self._end}")
            sys.stderr.flush()


def number(value: float | None, digits: int = 6) -> str:
    """A number for people; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}g}"


def _status(step: "Step") -> str:
    outcome = step.outcome
    taken = outcome.accepted
    size = (step.t - 0.0) / taken if taken else math.nan
    return (
        f"t {step.t:.4g}/{step.t_end:.4g}  mean step {number(size, 2)}  steps {taken}"
        f"+{outcome.rejected} refused  λ_max {number(step.largest_eigenvalue, 3)}"
    )


def _finite(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
