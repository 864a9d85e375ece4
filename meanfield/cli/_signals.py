"""Ctrl-C and SIGTERM: at once, whatever compiled code is running."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GRACE = 1.0  # seconds that Python has to stop by itself
AGAIN = 0.01  # seconds until an interrupt that went astray is sent again
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
    unraisable, sys.unraisablehook = sys.unraisablehook, _send_again
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    done = threading.Event()
    threading.Thread(target=_watch, args=(reader, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = unraisable
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


def _send_again(lost: "sys.UnraisableHookArgs") -> None:
    """An interrupt inside a collector's callback or a finaliser is not to be lost.

    Python prints such exceptions and goes on; the signal comes again when it is out.
    """
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    ended = isinstance(lost.exc_value, Terminated)
    number = signal.SIGTERM if ended else signal.SIGINT
    threading.Timer(AGAIN, _thread.interrupt_main, (number,)).start()
