"""Commands run in processes that can be killed, or in this one.

Most processes are forked from this one, which has imported the package and computed
nothing; others are fresh interpreters.
"""

import contextlib
import io
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

from processes import is_at_work, processes_in, seconds_of

from meanfield.cli import main as command

PATIENCE = 20.0  # processor seconds after which a command counts as hung
KILL_AFTER = 200.0  # processor seconds after which it is killed
BACKSTOP = 200.0  # wall seconds without processor time after which it counts as hung
LOOK = 0.2  # seconds between two checks of its processor time
SPEC = ["--n", "12", "--d", "2", "--A=-1", "--t", "2", "--dt", "0.05"]
SPEC += ["--frames", "41", "--segment", "2"]
SWEEP = ["--measure", "gaussian", "--d", "1", "--t", "0.5", "--chunk", "1"]
SWEEP += ["--over", "A=-1:2:4,cov=1:2:3"]
DOCUMENTED_CODES = {0, 2, 3, 4, 5, 6, 7}
# Exit codes after a signal, also before and after the handler is installed.
SIGNAL_CODES = {
    signal.SIGKILL: {-9},
    signal.SIGTERM: {143, -15},
    signal.SIGINT: {130, -2},
    signal.SIGHUP: {129, -1},
}


@dataclass(frozen=True)
class CommandResult:
    """A finished command.

    Attributes:
        code: its exit code, negative after a signal; `None` if it hung.
        stderr: its stderr.
        seconds: processor time.
        out: its stdout, if it ran in this process.
    """

    code: int | None
    stderr: str
    seconds: float
    out: str = ""


# The commands, by name.
COMMANDS: dict[str, list[str]] = {
    "simulate": ["simulate", *SPEC, "--out", "new"],
    "resume": ["resume", "half"],
    "sweep": ["sweep", *SWEEP, "--out", "new-sweep"],
    "plot": ["plot", "run", "--panel", "tokens", "--out", "picture"],
    "export": ["export", "run", "frames.npz", "--force"],
    "csv": ["export", "run", "frames.csv", "--force"],
    "animate": ["animate", "run", "--out", "film.gif"],
}


def start_command(
    arguments: list[str], place: Path, limit: int | None, fresh: bool
) -> int:
    """Starts a command in a folder; files are cut at `limit` bytes."""
    if fresh:
        with (place / "said").open("wb") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", "meanfield", *arguments],
                cwd=place,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                preexec_fn=lambda: _limit(limit),
            ).pid
    # On an interrupt the fork would remove the temporary folders of this process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, list(SIGNAL_CODES))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # JAX warns about forks, but has not computed anything yet
        number = os.fork()
    if number == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as a command begins
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _be_a_command(arguments, place, limit)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return number


def _be_a_command(arguments: list[str], place: Path, limit: int | None) -> None:
    code = 1
    try:
        os.chdir(place)
        for name, stream in (("said", 2), (os.devnull, 1)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        _limit(limit)
        sys.argv = ["meanfield", *arguments]
        from meanfield.__main__ import main

        main()
        code = 0
    except SystemExit as failure:
        code = int(failure.code or 0)
    except BaseException as error:  # noqa: BLE001 - as the interpreter would end
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        try:
            sys.stderr.flush()
        finally:  # never return into the code of the parent
            os._exit(code)


def _limit(size: int | None) -> None:
    if size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def wait(number: int, place: Path) -> CommandResult:
    """Waits for a process, and kills it if it hangs, which leaves no exit code.

    It hangs if it has computed for very long, or has waited for very long while no
    process in its folder computed, or would have on a machine with an idle core.
    """
    idle, last_change = 0.0, time.monotonic()
    while idle < BACKSTOP and seconds_of(number) < KILL_AFTER:
        result, status, usage = os.wait4(number, os.WNOHANG)
        if result:
            code, file = os.waitstatus_to_exitcode(status), place / "said"
            stderr = file.read_text(errors="replace") if file.exists() else "(nothing)"
            return CommandResult(code, stderr, usage.ru_utime + usage.ru_stime)
        time.sleep(0.005)
        if (since := time.monotonic() - last_change) > LOOK:
            at_work = any(map(is_at_work, {number, *processes_in(place)}))
            idle, last_change = idle + (0.0 if at_work else LOOK), last_change + since
    for pid in {number, *processes_in(place)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.waitpid(number, 0)
    return CommandResult(None, "", BACKSTOP)


def run_command(
    arguments: list[str], place: Path, limit: int | None = None
) -> CommandResult:
    """Runs a command to its end."""
    return wait(start_command(arguments, place, limit, fresh=False), place)


def run_in_process(arguments: list[str], place: Path) -> CommandResult:
    """Runs a command in this process, and measures its processor time."""
    stderr, out, begin = io.StringIO(), io.StringIO(), time.process_time()
    code = 1
    with (
        contextlib.chdir(place),
        contextlib.redirect_stderr(stderr),
        contextlib.redirect_stdout(out),
    ):
        try:
            command(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
        except Exception:  # noqa: BLE001 - what is looked for
            traceback.print_exc(file=stderr)
    seconds = time.process_time() - begin
    return CommandResult(code, stderr.getvalue(), seconds, out.getvalue())
