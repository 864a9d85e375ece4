"""The main loop of a worker process, which answers the calls of its parent.

Calls arrive on standard input, which closes when the parent ends; answers go to
standard output, and anything that a call prints goes to standard error.
"""

import contextlib
import os
import pickle
import signal
import sys
import threading
import traceback
from queue import SimpleQueue
from types import TracebackType
from typing import IO, NoReturn


def serve() -> NoReturn:
    """Answers calls, one after the other, in the order in which they arrive.

    The first call is the initializer, which has no answer. The process ends after a
    call that raises an exception.
    """
    calls, answers = _streams()
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(calls, requests), daemon=True).start()
    # SystemExit lets the `finally` clauses of the current call run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # A KeyboardInterrupt here would be sent to the parent and raised there.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.excepthook = lambda _, error, trace: _report(answers, error, trace)
    try:
        pickle.loads(requests.get())()
        while True:
            value = pickle.loads(requests.get())()
            _send(answers, pickle.dumps((value, None)))
    except SystemExit:
        os._exit(1)  # a normal exit would wait for threads that are computing


def _streams() -> tuple[IO[bytes], IO[bytes]]:
    """The streams of calls and answers; a call has no stdin, and prints to stderr."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return calls, answers


def _receive(calls: IO[bytes], requests: SimpleQueue[bytes]) -> NoReturn:
    """Forwards calls, and ends this process when the parent ends."""
    with contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            requests.put(pickle.load(calls))
    os._exit(1)


def _report(
    answers: IO[bytes], error: BaseException, trace: TracebackType | None
) -> None:
    """Sends the exception of a call, with its traceback, to the parent."""
    error.add_note("".join(traceback.format_tb(trace)))
    content = pickle.dumps((None, error))
    pickle.loads(content)  # if this fails, the parent reads the error from stderr
    _send(answers, content)


def _send(answers: IO[bytes], content: bytes) -> None:
    pickle.dump(content, answers)
    answers.flush()
