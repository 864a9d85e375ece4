"""One command as several processes, and the parent that says which of them was lost.

The first of them is the command itself: its output and its exit code are those of the
whole. The runtime would only end the others when one is lost, without a name.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, NamedTuple

from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError, ProcessLost

from ._joining import SUPERVISED, each

LOOK = 0.05  # seconds between two looks at all processes
SETTLE = 1.0  # seconds in which those that end because one was lost end too
PATIENCE = 3.0  # seconds to end in, when told to
ABORTED = -signal.SIGABRT  # how the runtime ends a process that has lost another
ALONE = "--processes"  # what the parent keeps to itself

TYPED: list[str] = []  # the command, as it was typed


class Member(NamedTuple):
    """One of the processes."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]


class End(NamedTuple):
    """How a process ended: its exit code, and the most memory that it held, in MB."""

    code: int
    megabytes: float


def supervised(processes: int, devices: int | None, hint: str) -> int:
    """Has the command that was typed done by so many processes of this machine.

    Args:
        processes: how many.
        devices: of all of them together, which must divide among them.
        hint: what to do when one of them is lost.

    Returns:
        The exit code of the first.

    Raises:
        InvalidInputError: if there are none, or devices do not divide among them.
        ProcessLost: naming the one that ended before its time.
    """
    if processes < 1:
        raise InvalidInputError(f"`{ALONE}` must be at least 1; got {processes}.")
    each(devices, processes)
    begin = time.perf_counter()
    members = _started(processes)
    try:
        ends = _watched(members)
    finally:
        _ended(members)
    lost = lost_among(ends)
    if lost is not None:
        raise ProcessLost(f"{_name(lost, members, ends[lost])}; {hint}")
    if ends[0].code == 0:
        seconds = time.perf_counter() - begin
        memory = ", ".join(f"{ends[k].megabytes:.0f}" for k in sorted(ends))
        note(f"{processes} processes: {seconds:.1f} s, {memory} MB at most")
    return ends[0].code


def _started(count: int) -> list[Member]:
    port = _free_port()
    environment = {**os.environ, SUPERVISED: "1"}
    members = []
    for number in range(count):
        join = ["--join", f"127.0.0.1:{port}/{number}/{count}"]
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed when all have ended
        output = None if number == 0 else said
        process = subprocess.Popen(
            [sys.executable, "-m", "meanfield", *without_count(TYPED), *join],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
        )
        members.append(Member(process, said))
    return members


def _watched(members: Sequence[Member]) -> dict[int, End]:
    """How they ended: all of them, or those that did when the first was lost."""
    ends: dict[int, End] = {}
    until = float("inf")
    while len(ends) < len(members) and time.monotonic() < until:
        for number, member in enumerate(members):
            if number not in ends and (end := _end(member.process)) is not None:
                ends[number] = end
                if end.code != 0:
                    until = min(until, time.monotonic() + SETTLE)
        time.sleep(LOOK)
    return ends


def _end(process: subprocess.Popen[bytes]) -> End | None:
    """How a process ended, if it has."""
    pid, status, used = os.wait4(process.pid, os.WNOHANG)
    if pid == 0:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return End(process.returncode, used.ru_maxrss / unit)


def lost_among(ends: dict[int, End]) -> int | None:
    """The process that others ended for; `None` if the command ended by itself."""
    killed = [k for k, end in ends.items() if end.code < 0 and end.code != ABORTED]
    others = [k for k, end in ends.items() if k > 0 and end.code != 0]
    if killed or 0 not in ends:
        return min(killed or others)
    ended_by_itself = ends[0].code in range(2, 8) or ends[0].code >= 128
    if ends[0].code == 0 or ended_by_itself:
        return None
    return min(others, default=0)


def _name(number: int, members: Sequence[Member], end: End) -> str:
    """Which process was lost, and how."""
    said = members[number].said
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    who = f"Process {number} of {len(members)} (pid {members[number].process.pid})"
    if end.code < 0:
        return f"{who} was ended by {signal.Signals(-end.code).name}"
    return f"{who} ended with exit code {end.code}" + (
        f": {lines[-1]}" if lines else ""
    )


def _ended(members: Sequence[Member]) -> None:
    """Ends those that still run: in good order at first."""
    for process, _ in members:
        if process.returncode is None:
            process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process, _ in members:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def without_count(tokens: Sequence[str]) -> list[str]:
    """The command without `--processes` and its number."""
    kept, skipped = [], False
    for token in tokens:
        if skipped:
            skipped = False
        elif token == ALONE:
            skipped = True
        elif not token.startswith(f"{ALONE}="):
            kept.append(token)
    return kept


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
