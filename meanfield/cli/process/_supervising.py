"""Supervision of a command that runs as several processes.

Process 0 provides the output and the exit code. If a process is lost, the supervisor
names it; without a supervisor, JAX would only end the others.
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
from meanfield.errors import InvalidInputError, ProcessLostError

from ._joining import LOOPBACK, SUPERVISOR_PIPE, devices_per_process

POLL_INTERVAL = 0.05  # seconds between two checks of all processes
SETTLING_TIME = 1.0  # seconds to wait for processes that end because one was lost
TERMINATION_TIMEOUT = 0.8  # seconds from SIGTERM to SIGKILL; must be less than `GRACE`
ABORT_CODE = -signal.SIGABRT  # the runtime aborts a process if another is lost
# Exit codes of processes that ended because another process was lost.
FOLLOWER_CODES = ABORT_CODE, ProcessLostError.exit_code
FAILURE_CODES = range(2, ProcessLostError.exit_code)  # exit codes of a failed command
SIGNAL_BASE = 128  # an exit code of at least 128 stands for a signal
# Largest number of processes per core: each needs 500 MB, and all wait for the slowest.
MAX_PER_CORE = 16
INPUT = "-", "/dev/stdin"
# Options that the parent process replaces for its child processes.
PARENT_OPTIONS = "--processes", "--devices"

COMMAND_LINE: list[str] = []  # the command, with new names in place of old ones


class Member(NamedTuple):
    """One process of a supervised command, with the file of its output."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]


class End(NamedTuple):
    """Exit code of a process, and its peak memory in MB."""

    code: int
    megabytes: float


def supervise(processes: int, devices: int | None, hint: str) -> int:
    """Runs the command line in several processes on this machine.

    Args:
        processes: number of processes.
        devices: total number of devices, a multiple of `processes`.
        hint: advice that is shown if a process is lost.

    Returns:
        The exit code of process 0.

    Raises:
        InvalidInputError: if `processes` or `devices` is invalid.
        ProcessLostError: naming the process that was lost.
    """
    limit = MAX_PER_CORE * (os.cpu_count() or 1)
    if not 1 <= processes <= limit:
        raise InvalidInputError(
            f"`--processes` must be from 1 to {limit} on this machine, which has "
            f"{os.cpu_count()} cores; got {processes}."
        )
    if set(INPUT) & set(COMMAND_LINE):
        raise InvalidInputError(
            "Several processes cannot share standard input. Give a file instead."
        )
    devices_per_process(devices, processes)
    begin = time.perf_counter()
    with _start_all(processes, devices) as members:
        ends = _watch_all(members)
        _end_all(members)
        message = verdict(ends, members)
    if message is not None:
        raise ProcessLostError(f"{message}; {hint}")
    if ends[0].code == 0:
        seconds = time.perf_counter() - begin
        memory = ", ".join(f"{ends[k].megabytes:.0f}" for k in sorted(ends))
        note(f"{processes} processes: {seconds:.1f} s, {memory} MB at most")
    return ends[0].code


@contextmanager
def _start_all(count: int, devices: int | None) -> Iterator[list[Member]]:
    """Starts the processes; they end with the `with` block, or with this process."""
    with socket.socket() as probe:  # finds a free port
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    theirs, ours = os.pipe()
    members: list[Member] = []
    try:
        for number in range(count):
            place = f"{LOOPBACK}:{port}/{number}/{count}"
            log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the block
            arguments = command(COMMAND_LINE, place, devices)
            process = _start(arguments, theirs, None if number == 0 else log)
            members.append(Member(process, log))
        yield members
    finally:
        _end_all(members)
        for member in members:
            member.log.close()
        os.close(theirs)
        os.close(ours)


def _start(
    arguments: Sequence[str], pipe: int, output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    """Starts one process, which inherits `pipe` and ends with this process."""
    return subprocess.Popen(
        [sys.executable, "-m", "meanfield", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**os.environ, SUPERVISOR_PIPE: str(pipe)},
        pass_fds=[pipe],
    )


def _watch_all(members: Sequence[Member]) -> dict[int, End]:
    """Waits until all processes have ended or one has failed; returns exit codes."""
    ends: dict[int, End] = {}
    deadline = float("inf")
    while len(ends) < len(members) and time.monotonic() < deadline:
        for number, member in enumerate(members):
            if number not in ends and (end := _end(member.process)) is not None:
                ends[number] = end
                if end.code != 0:
                    deadline = min(deadline, time.monotonic() + SETTLING_TIME)
        time.sleep(POLL_INTERVAL)
    return ends


def _end(process: subprocess.Popen[bytes]) -> End | None:
    """How a process ended; `None` if it is still running."""
    pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if pid == 0:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return End(process.returncode, usage.ru_maxrss / unit)


def verdict(ends: Mapping[int, End], members: Sequence[Member]) -> str | None:
    """Message about the lost process; `None` if the command ended by itself."""
    number = find_lost_process(ends, len(members))
    if number is None:
        return None
    label = f"Process {number} of {len(members)} (pid {members[number].process.pid})"
    if number not in ends:
        return f"{label} did not answer"
    code = ends[number].code
    if code < 0:
        return f"{label} was ended by {signal.Signals(-code).name}"
    log = members[number].log
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    last = f": {lines[-1].rstrip('.')}" if lines else ""
    return f"{label} ended with exit code {code}{last}"


def find_lost_process(ends: Mapping[int, End], count: int) -> int | None:
    """Number of the lost process; `None` if the command ended by itself."""
    failures = {k: end.code for k, end in ends.items() if end.code != 0}
    signal_deaths = [k for k, c in failures.items() if c < 0 and c != ABORT_CODE]
    first = ends[0].code if 0 in ends else ABORT_CODE
    if signal_deaths:
        return min(signal_deaths)
    if first == 0 or first in FAILURE_CODES or first >= SIGNAL_BASE:
        return None
    causes = [k for k, code in failures.items() if code not in FOLLOWER_CODES]
    later_causes = [number for number in causes if number > 0]
    silent = [number for number in range(count) if number not in ends]
    return min(later_causes or causes or silent or failures)


def _end_all(members: Sequence[Member]) -> None:
    """Ends the running processes: first with SIGTERM, then with SIGKILL."""
    for process, _ in members:
        if process.returncode is None:
            process.terminate()
    deadline = time.monotonic() + TERMINATION_TIMEOUT
    for process, _ in members:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def command(tokens: Sequence[str], place: str, devices: int | None) -> list[str]:
    """Command line of one process, with options for its place and its devices."""
    name, rest = tokens[0], iter(tokens[1:])
    arguments = []
    for token in rest:
        if token in PARENT_OPTIONS:
            next(rest, None)
        elif token.partition("=")[0] not in PARENT_OPTIONS:
            arguments.append(token)
    more = [] if devices is None else ["--devices", str(devices)]
    return [name, "--join", place, *more, *arguments]
