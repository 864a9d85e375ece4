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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple

from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError, ProcessLost

from ._joining import LOOPBACK, SUPERVISED, each

LOOK = 0.05  # seconds between two looks at all processes
SETTLE = 1.0  # seconds in which those that end because one was lost end too
PATIENCE = 0.8  # seconds to end in, when told to: less than this process has
ABORTED = -signal.SIGABRT  # how the runtime ends a process that has lost another
FOLLOWERS = ABORTED, ProcessLost.exit_code  # how those end that have lost another
BY_ITSELF = range(2, ProcessLost.exit_code)  # how a command ends that fails
INTERRUPTED = 128  # and signals from there on
MOST = 16  # processes for each core: one holds some 500 MB, and all wait for the last
INPUT = "-", "/dev/stdin"
OURS = "--processes", "--devices"  # options that the parent gives to its children

TYPED: list[str] = []  # the command, as it was typed


class Member(NamedTuple):
    """One of the processes."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]


class End(NamedTuple):
    """How a process ended: its exit code, and the most memory that it held, in MB."""

    code: int
    megabytes: float


def supervise(processes: int, devices: int | None, hint: str) -> int:
    """Has the command that was typed done by so many processes of this machine.

    Args:
        processes: how many.
        devices: of all of them together, which must divide among them.
        hint: what to do when one of them is lost.

    Returns:
        The exit code of the first.

    Raises:
        InvalidInputError: if there are none or too many, or devices do not divide.
        ProcessLost: naming the one that ended before its time.
    """
    most = MOST * (os.cpu_count() or 1)
    if not 1 <= processes <= most:
        raise InvalidInputError(
            f"`--processes` is from 1 to {most} on this machine, which has "
            f"{os.cpu_count()} cores; got {processes}."
        )
    if set(INPUT) & set(TYPED):
        raise InvalidInputError(
            "Several processes cannot share one standard input; write it to a file."
        )
    each(devices, processes)
    begin = time.perf_counter()
    with _start_all(processes, devices) as members:
        ends = _watch_all(members)
        _end_all(members)
        said = verdict(ends, members)
    if said is not None:
        raise ProcessLost(f"{said}; {hint}")
    if ends[0].code == 0:
        seconds = time.perf_counter() - begin
        memory = ", ".join(f"{ends[k].megabytes:.0f}" for k in sorted(ends))
        note(f"{processes} processes: {seconds:.1f} s, {memory} MB at most")
    return ends[0].code


@contextmanager
def _start_all(count: int, devices: int | None) -> Iterator[list[Member]]:
    """The processes, which end with the block, and with this process."""
    with socket.socket() as probe:  # a port that is free
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    theirs, ours = os.pipe()
    members: list[Member] = []
    try:
        for number in range(count):
            place = f"{LOOPBACK}:{port}/{number}/{count}"
            said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the block
            output = None if number == 0 else said
            process = subprocess.Popen(
                [sys.executable, "-m", "meanfield", *command(TYPED, place, devices)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, SUPERVISED: str(theirs)},
                pass_fds=[theirs],
            )
            members.append(Member(process, said))
        yield members
    finally:
        _end_all(members)
        for member in members:
            member.said.close()
        os.close(theirs)
        os.close(ours)


def _watch_all(members: Sequence[Member]) -> dict[int, End]:
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


def verdict(ends: Mapping[int, End], members: Sequence[Member]) -> str | None:
    """Which process was lost, and how; `None` if the command ended by itself."""
    lost = lost_among(ends, len(members))
    if lost is None:
        return None
    who = f"Process {lost} of {len(members)} (pid {members[lost].process.pid})"
    if lost not in ends:
        return f"{who} did not answer"
    code = ends[lost].code
    if code < 0:
        return f"{who} was ended by {signal.Signals(-code).name}"
    said = members[lost].said
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    last = f": {lines[-1].rstrip('.')}" if lines else ""
    return f"{who} ended with exit code {code}{last}"


def lost_among(ends: Mapping[int, End], count: int) -> int | None:
    """The process for which others ended; `None` if the command ended by itself."""
    failures = [number for number, end in ends.items() if end.code != 0]
    killed = [k for k in failures if ends[k].code < 0 and ends[k].code != ABORTED]
    first = ends[0].code if 0 in ends else ABORTED
    if killed:
        return min(killed)
    if first == 0 or first in BY_ITSELF or first >= INTERRUPTED:
        return None
    causes = [number for number in failures if ends[number].code not in FOLLOWERS]
    others = [number for number in causes if number > 0]
    silent = [number for number in range(count) if number not in ends]
    return min(others or causes or silent or failures)


def _end_all(members: Sequence[Member]) -> None:
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


def command(typed: Sequence[str], place: str, devices: int | None) -> list[str]:
    """What one of several processes is told: the command that was typed, and where."""
    name, rest = typed[0], iter(typed[1:])
    kept = []
    for token in rest:
        if token in OURS:
            next(rest, None)
        elif token.partition("=")[0] not in OURS:
            kept.append(token)
    more = [] if devices is None else ["--devices", str(devices)]
    return [name, "--join", place, *more, *kept]
