"""What a process does that works for another: it answers calls until those end.

Calls come on its standard input, which ends with the process that it works for;
answers go to its standard output, and whatever a call prints to its standard error.
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
    """Answers calls, one after the other, in the order in which they come.

    The first is made to get ready, and has no answer. A call that raises is the last.
    """
    calls, answers = _streams()
    received: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(calls, received), daemon=True).start()
    # A call that is told to end undoes what it has begun, if it does so by `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # An interrupt would be sent on, and interrupt the process that it works for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.excepthook = lambda _, error, trace: _report(answers, error, trace)
    try:
        pickle.loads(received.get())()
        while True:
            value = pickle.loads(received.get())()
            _send(answers, pickle.dumps((value, None)))
    except SystemExit:
        os._exit(1)  # the interpreter would wait for threads that still compute


def _streams() -> tuple[IO[bytes], IO[bytes]]:
    """Calls and answers; a call reads nothing, and what it prints is a complaint."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return calls, answers


def _receive(calls: IO[bytes], received: SimpleQueue[bytes]) -> NoReturn:
    """Passes calls on, and ends this process with the one that it works for."""
    with contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            received.put(pickle.load(calls))
    os._exit(1)


def _report(
    answers: IO[bytes], error: BaseException, trace: TracebackType | None
) -> None:
    """Sends what a call raised, and where, to be raised by the other process."""
    error.add_note("".join(traceback.format_tb(trace)))
    content = pickle.dumps((None, error))
    pickle.loads(content)  # what cannot be read there is told by its last line here
    _send(answers, content)


def _send(answers: IO[bytes], content: bytes) -> None:
    pickle.dump(content, answers)
    answers.flush()
