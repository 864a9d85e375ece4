"""Random command lines and files: documented exit codes, one line, no hang.

`python tests/fuzzing.py COUNT SEED FOLDER` runs COUNT cases in this process, and prints
a summary as JSON; a violation is printed, and the exit code is 1.

Resident memory says little about the commands: hypothesis keeps some sixty kilobytes of
each case of a search, and what a process does for the first time stays. So each search
is short, and at the end the first cases are repeated: memory must not grow.
"""

import contextlib
import faulthandler
import io
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from fuzzing_cases import Case, cases
from hypothesis import HealthCheck, Phase, given, seed, settings
from memory_growth import MemoryUse, growth_per_round, memory_use, repeat_and_measure

from meanfield.cli import main

DOCUMENTED_CODES = {0, 2, 3, 4, 5, 6, 7}  # 1 is an internal error
LONGEST = 20.0  # processor seconds allowed for one case
LARGEST = 8 << 30  # bytes that the process may allocate
LINE = 4000  # longest error message in characters
SEARCH_SIZE = 250  # cases per search, after which compiled programs are dropped
N_REPEATS = 200  # cases to repeat, at most a tenth of all
LEAK = MemoryUse(kilobytes=30, blocks=60)  # allowed growth per round: measured 2 and -9


class CaseTimeout(BaseException):
    """Raised when a case takes too long."""


@dataclass
class Tally:
    """Results of the cases so far."""

    codes: Counter[int] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    longest: float = 0.0
    slowest: str = ""
    first: list[Case] = field(default_factory=list)
    rounds: list[MemoryUse] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)  # megabytes, after every search


def run_command(case: Case) -> tuple[object, str, float]:
    """The exit code of a command, its stderr and its seconds."""
    out, err = _stream(), _stream()
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    hook = sys.excepthook
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(list(case.arguments))
        code: object = "no exit"
    except SystemExit as error:
        code = error.code or 0
    except BaseException:  # noqa: BLE001 - whatever it is, it is shown
        code = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.excepthook = hook
    err.flush()
    stderr = err.buffer.getvalue().decode(errors="replace")
    return code, stderr, time.process_time() - begin


def violation(code: object, stderr: str, seconds: float) -> str:
    """The violation of the documented behaviour, or an empty string."""
    if code not in DOCUMENTED_CODES:
        return f"not a documented code: {code}"
    if seconds > LONGEST:
        return f"{seconds:.1f} s"
    if "Traceback" in stderr or "Warning" in stderr or "panicked" in stderr:
        return f"not in words: {stderr}"
    last = stderr.rstrip("\n").split("\n")[-1]
    if code and not (last.startswith("meanfield: ") and len(last) < LINE):
        return f"no clear line: {stderr[:LINE]}"
    return ""


def run(count: int, number: int, folder: Path) -> Tally:
    """Runs `count` cases of a seed in a folder, which they may fill with files."""
    tally = Tally()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    for begin in range(0, count, SEARCH_SIZE):
        _search(min(SEARCH_SIZE, count - begin), f"{number} {begin}", tally)
        memory_use()
        tally.resident.append(_megabytes())
        summary = f"{tally.codes.total()} {dict(tally.codes)} {tally.resident[-1]}\n"
        sys.stderr.write(summary)
    repeats = tally.first[: count // 10]
    tally.rounds = repeat_and_measure(lambda: [_run_case(case) for case in repeats])
    if any(a > b for a, b in zip(growth_per_round(tally.rounds), LEAK, strict=True)):
        tally.violations.append(f"the same cases grow: {tally.rounds}")
    return tally


def _search(count: int, name: str, tally: Tally) -> None:
    @seed(name)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(cases())
    def check_case(case: Case) -> None:
        _record_case(case, tally)

    check_case()


def _record_case(case: Case, tally: Tally) -> None:
    code, stderr, seconds = _run_case(case)
    tally.commands[case.arguments[0] if case.arguments else ""] += 1
    tally.codes[code if isinstance(code, int) else -1] += 1
    if len(tally.first) < N_REPEATS:
        tally.first.append(case)
    if seconds > tally.longest:
        tally.longest, tally.slowest = seconds, _describe(case)
    fault = violation(code, stderr, seconds)
    if fault:
        tally.violations.append(f"{_describe(case)}\n  {fault}")
        sys.stderr.write(f"{tally.violations[-1]}\n")


def _run_case(case: Case) -> tuple[object, str, float]:
    """Runs a case in a folder with its files."""
    for name, content in case.files.items():
        place = Path(name)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
    faulthandler.dump_traceback_later(30 * LONGEST, exit=True)
    actual = run_command(case)
    faulthandler.cancel_dump_traceback_later()
    return actual


def _describe(case: Case) -> str:
    files = {name: content[:300] for name, content in case.files.items()}
    return f"{[a[:200] for a in case.arguments]} {files}"


def _stream() -> Any:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")


def _megabytes() -> int:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def raise_hung(number: int, frame: FrameType | None) -> None:
    raise CaseTimeout(f"signal {number} in {frame}")


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, raise_hung)
    resource.setrlimit(resource.RLIMIT_DATA, (LARGEST, LARGEST))
    tally = run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    report = {
        "cases": tally.codes.total(),
        "codes": {str(code): n for code, n in sorted(tally.codes.items())},
        "commands": dict(tally.commands),
        "longest": round(tally.longest, 2),
        "slowest": tally.slowest,
        "resident": tally.resident,
        "growth of a round": growth_per_round(tally.rounds),
        "rounds": tally.rounds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "broken": tally.violations,
    }
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    sys.exit(bool(tally.violations))
