"""Processes that work for this one: Ctrl-C is not theirs, and they end when it does."""

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
from types import TracebackType
from typing import IO, Generic, TypeVar, cast

T = TypeVar("T")
MAIN = "import sys; sys.path[:] = {}; from meanfield.workers._serving import serve; {}"
PATIENCE = 0.4  # seconds to end in, less than an interrupted command has
LAST = 200  # characters of what a lost process said


def _nothing() -> None:
    """What a process calls first that has nothing to prepare."""


class WorkerLost(RuntimeError):
    """A process that ended, or was ended, before it had answered its call.

    Examples:
        >>> from meanfield.workers import WorkerLost
        >>> issubclass(WorkerLost, RuntimeError)
        True
    """


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What came of a call.

    Attributes:
        number: of the call, from 0, as they were given.
        value: what it returned.
        error: what it raised, or a `WorkerLost`; then there is no value.

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
        """What the call returned; what it raised is raised here."""
        if self.error is not None:
            raise self.error
        return self.value  # pyright: ignore[reportReturnType]


class Processes(Generic[T]):
    """Fresh interpreters that make calls for this process, each one at a time.

    They end with the block, whatever they do: within a moment if they can, and have
    then undone what they do by `finally`. Should this process be killed, they end at
    once. A call whose process is lost is answered by a `WorkerLost`, and the next call
    has a new process.

    Args:
        count: how many there are at most.
        ready: what each of them calls before all else.
        environment: theirs, by default that of this process.

    Examples:
        >>> from meanfield.workers import Processes
        >>> with Processes(1) as workers:
        ...     workers.give(abs, -3)
        ...     answers = [answer.result for answer in workers.answers()]
        >>> answers
        [3]
    """

    def __init__(
        self,
        count: int,
        *,
        ready: Callable[[], object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._count = count
        self._ready = ready or _nothing
        self._environment = environment
        self._given = 0
        self._waiting: deque[tuple[int, Callable[[], T]]] = deque()
        self._processes: list[_Process] = []
        self._news: SimpleQueue[News] = SimpleQueue()

    def __enter__(self) -> "Processes[T]":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.tell(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        for process in self._processes:
            process.end(deadline)

    def give(self, function: Callable[..., T], *arguments: object) -> None:
        """Has a call made, at once if a process is free or can be started."""
        self._waiting.append((self._given, partial(function, *arguments)))
        self._given += 1
        self._hand_out()

    def answers(self, patience: float | None = None) -> Iterator[Answer[T]]:
        """The answers to all calls as they come, until none is left.

        Args:
            patience: seconds to wait for each, after which no more is waited for.
        """
        while any(process.call is not None for process in self._processes):
            try:
                process, news = self._news.get(timeout=patience)
            except Empty:
                return
            answer = self._answer(process, news)
            self._hand_out()
            if answer is not None:
                yield answer

    def _answer(self, process: "_Process", news: bytes | None) -> Answer[T] | None:
        """What a process has sent; `None` if that is its end, and nobody waits."""
        if process not in self._processes:
            return None
        number, process.call = process.call, None
        value, error = (None, process.loss()) if news is None else pickle.loads(news)
        if error is not None:
            self._processes.remove(process)
            process.end(time.monotonic() + PATIENCE)
        return None if number is None else Answer(number, value, error)

    def _hand_out(self) -> None:
        """Gives calls that wait to processes that do not work."""
        while self._waiting:
            free = [process for process in self._processes if process.call is None]
            if not free:
                if len(self._processes) == self._count:
                    return
                free = [_Process(self._ready, self._environment, self._news)]
                self._processes.extend(free)
            free[0].begin(*self._waiting.popleft())


class _Process:
    """One of them: calls go to its input, and a thread hears its answers.

    Attributes:
        call: the number of the call that it makes, if it makes one.
    """

    def __init__(
        self,
        ready: Callable[[], object],
        environment: Mapping[str, str] | None,
        news: SimpleQueue["News"],
    ) -> None:
        self.call: int | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._process = subprocess.Popen(
            [sys.executable, "-c", MAIN.format(sys.path, "serve()")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=environment,
            process_group=0,  # a terminal sends Ctrl-C to its own group alone
        )
        self._calls = cast(IO[bytes], self._process.stdin)
        heard = cast(IO[bytes], self._process.stdout), news
        self._hearing = threading.Thread(target=self._hear, args=heard, daemon=True)
        self._hearing.start()
        self._send(ready)

    def begin(self, number: int, call: Callable[[], object]) -> None:
        """Has it make a call."""
        self.call = number
        self._send(call)

    def _send(self, call: Callable[[], object]) -> None:
        with suppress(BrokenPipeError):  # it has ended, which the thread hears
            pickle.dump(pickle.dumps(call), self._calls)
            self._calls.flush()

    def _hear(self, answers: IO[bytes], news: SimpleQueue["News"]) -> None:
        """Passes answers on, and `None` after the last; a thread of its own."""
        with answers, suppress(EOFError, pickle.UnpicklingError):
            while True:
                news.put((self, pickle.load(answers)))
        news.put((self, None))

    def loss(self) -> WorkerLost:
        """Why it has ended: a signal, or the last line that it wrote."""
        code = self._process.wait()
        if code < 0:
            return WorkerLost(f"ended by signal {-code}")
        self._complaints.seek(0)
        text = self._complaints.read().decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return WorkerLost(lines[-1][:LAST] if lines else f"exit code {code}")

    def tell(self, number: signal.Signals) -> None:
        """Sends a signal to it, and to all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def end(self, deadline: float) -> None:
        """Waits until it has ended, and at the deadline no longer."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.tell(signal.SIGKILL)
            self._process.wait()
        self._hearing.join(PATIENCE)
        with suppress(BrokenPipeError):
            self._calls.close()
        self._complaints.close()


News = tuple[_Process, bytes | None]  # an answer, or that the process has ended


@contextmanager
def threads(count: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Threads that compute side by side, by default as many as there are cores.

    The end of the block waits for none of them, so that an interrupt ends the command
    at once: calls that have not begun are dropped, and the block itself waits for the
    results that it needs.

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
