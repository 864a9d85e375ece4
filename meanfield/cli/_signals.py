"""Ctrl-C and SIGTERM: at once, whatever compiled code is running."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GRACE = 1.0  # seconds that Python has to stop by itself
RESTORE = "\x1b[?25h"  # shows the cursor that a progress bar has hidden


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like an interrupt: what is committed stays."""


@contextmanager
def watched() -> Iterator[None]:
    """Turns signals into exceptions, and ends the process if Python cannot.

    Python sees a signal only between two of its own instructions: a compiled segment
    may last minutes. Stores survive being killed, so after a second the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.signal(signal.SIGTERM, _terminate)
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    done = threading.Event()
    threading.Thread(target=_watch, args=(reader, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGTERM, before)
        os.close(writer)  # ends the thread, which closes its own end


def leave(code: int) -> NoReturn:
    """Ends the process now: Python would first wait for compiled code to end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _watch(reader: int, done: threading.Event) -> None:
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143}
    while received := os.read(reader, 1):
        code = codes.get(signal.Signals(received[0]))
        if code is not None and not done.wait(GRACE):
            show = RESTORE + "\r\n" if sys.stderr.isatty() else ""
            word = "terminated" if code == codes[signal.SIGTERM] else "interrupted"
            sys.stderr.write(f"{show}meanfield: {word}; committed frames are kept.\n")
            leave(code)
    os.close(reader)


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Terminated
