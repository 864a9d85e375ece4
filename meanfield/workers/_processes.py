"""Worker processes, which ignore Ctrl-C and end with this process."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import IO, Generic, TypeVar, cast

T = TypeVar("T")
MAIN = "import sys; sys.path[:] = {}; from meanfield.workers._serving import serve; {}"
TIMEOUT = 0.4  # seconds from SIGTERM to SIGKILL; a whole command gets more
LAST = 200  # number of characters shown from a lost process's last output line


def _no_setup() -> None:
    """The default initializer of a process, which does nothing."""


class WorkerLost(RuntimeError):
    """The error of a call whose process ended before it answered.

    Examples:
        >>> from meanfield.workers import WorkerLost
        >>> issubclass(WorkerLost, RuntimeError)
        True
    """


@dataclass(frozen=True)
class Answer(Generic[T]):
    """The result of a call: a value or an error.

    Attributes:
        number: the number of the call, from 0, in the order of submission.
        value: the value that the call returned.
        error: the exception that the call raised, or a `WorkerLost`; else `None`.

    Examples:
        >>> from meanfield.workers import Answer
        >>> Answer(0, 42).result
        42
    """

    number: int
    value: T | None = None
    error: BaseException | None = None

    @property
    def result(self) -> T:
        """The value of the call; raises the exception that the call raised."""
        if self.error is not None:
            raise self.error
        return self.value  # pyright: ignore[reportReturnType]


class Processes(Generic[T]):
    """A pool of fresh interpreters, each of which executes one call at a time.

    When the `with` block ends, the processes get SIGTERM, so that `finally` clauses
    run; those that still run after a short time get SIGKILL. If this process is killed,
    they end immediately. If a worker process is lost, its call is answered with a
    `WorkerLost` error, and the next call gets a new process.

    Args:
        count: the largest number of processes.
        initializer: a function that each process calls first.
        environment: environment variables of the processes; by default those of this
            process.

    Examples:
        >>> from meanfield.workers import Processes
        >>> with Processes(1) as workers:
        ...     workers.submit(abs, -3)
        ...     answers = [answer.result for answer in workers.answers()]
        >>> answers
        [3]
    """

    def __init__(
        self,
        count: int,
        *,
        initializer: Callable[[], object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._count = count
        self._ready = initializer or _no_setup
        self._environment = environment
        self._given = 0
        self._waiting: deque[tuple[int, Callable[[], T]]] = deque()
        self._processes: list[_Process] = []
        self._news: SimpleQueue[Message] = SimpleQueue()

    def __enter__(self) -> "Processes[T]":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + TIMEOUT
        for process in self._processes:
            process.end(deadline)

    def submit(self, function: Callable[..., T], *arguments: object) -> None:
        """Submits a call; it starts at once if a process is free or can be started."""
        self._waiting.append((self._given, partial(function, *arguments)))
        self._given += 1
        self._dispatch()

    def answers(self, timeout: float | None = None) -> Iterator[Answer[T]]:
        """The answers to all calls, in the order in which they complete.

        Args:
            timeout: seconds to wait for each answer before the iteration ends.
        """
        while any(process.call is not None for process in self._processes):
            try:
                process, message = self._news.get(timeout=timeout)
            except Empty:
                return
            answer = self._answer(process, message)
            self._dispatch()
            if answer is not None:
                yield answer

    def _answer(self, process: "_Process", message: bytes | None) -> Answer[T] | None:
        """The answer held by a message; `None` if the process ended between calls."""
        if process not in self._processes:
            return None
        number, process.call = process.call, None
        value, error = (
            (None, process.loss_error()) if message is None else pickle.loads(message)
        )
        if error is not None:
            self._processes.remove(process)
            process.end(time.monotonic() + TIMEOUT)
        return None if number is None else Answer(number, value, error)

    def _dispatch(self) -> None:
        """Assigns waiting calls to free processes, and starts new ones if needed."""
        while self._waiting:
            free = [process for process in self._processes if process.call is None]
            if not free:
                if len(self._processes) == self._count:
                    return
                free = [_Process(self._ready, self._environment, self._news)]
                self._processes.extend(free)
            free[0].begin(*self._waiting.popleft())


class _Process:
    """One worker process: calls go to its input, and a thread reads its answers.

    Attributes:
        call: the number of the current call; `None` if the process is free.
    """

    def __init__(
        self,
        initializer: Callable[[], object],
        environment: Mapping[str, str] | None,
        messages: SimpleQueue["Message"],
    ) -> None:
        self.call: int | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._process = subprocess.Popen(
            [sys.executable, "-c", MAIN.format(sys.path, "serve()")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=environment,
            process_group=0,  # so that Ctrl-C in a terminal does not reach it
        )
        self._calls = cast(IO[bytes], self._process.stdin)
        reader_arguments = cast(IO[bytes], self._process.stdout), messages
        self._hearing = threading.Thread(
            target=self._read_answers, args=reader_arguments, daemon=True
        )
        self._hearing.start()
        self._send(initializer)

    def begin(self, number: int, call: Callable[[], object]) -> None:
        """Starts a call in the process."""
        self.call = number
        self._send(call)

    def _send(self, call: Callable[[], object]) -> None:
        with suppress(BrokenPipeError):  # the process has ended; its thread reports it
            pickle.dump(pickle.dumps(call), self._calls)
            self._calls.flush()

    def _read_answers(
        self, answers: IO[bytes], messages: SimpleQueue["Message"]
    ) -> None:
        """Forwards answers, then `None` at the end; runs in its own thread."""
        with answers, suppress(EOFError, pickle.UnpicklingError):
            while True:
                messages.put((self, pickle.load(answers)))
        messages.put((self, None))

    def loss_error(self) -> WorkerLost:
        """The error of a lost process: its signal, last output line or exit code."""
        code = self._process.wait()
        if code < 0:
            return WorkerLost(f"ended by signal {-code}")
        self._complaints.seek(0)
        text = self._complaints.read().decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return WorkerLost(lines[-1][:LAST] if lines else f"exit code {code}")

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def end(self, deadline: float) -> None:
        """Waits until the process ends; kills it if it still runs at the deadline."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.send_signal(signal.SIGKILL)
            self._process.wait()
        self._hearing.join(TIMEOUT)
        with suppress(BrokenPipeError):
            self._calls.close()
        self._complaints.close()


Message = tuple[_Process, bytes | None]  # an answer, or `None` after the process ended


@contextmanager
def threads(count: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Context manager for a pool of threads, by default one for each core.

    Leaving the `with` block does not wait for the threads, so an interrupt ends the
    command at once. Calls that have not begun are cancelled: wait for results inside
    the block.

    Examples:
        >>> from meanfield.workers import threads
        >>> with threads(2) as pool:
        ...     squares = list(pool.map(lambda x: x**2, range(4)))
        >>> squares
        [0, 1, 4, 9]
    """
    pool = ThreadPoolExecutor(count or os.cpu_count())
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
