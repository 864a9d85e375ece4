"""Handling of Ctrl-C, SIGTERM and SIGHUP, even while compiled code is running."""

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GRACE = 1.0  # seconds for Python to stop before the process is ended
RETRY_INTERVAL = 0.01  # seconds until a lost interrupt is sent again
RESTORE = "\x1b[?25h"  # shows the cursor that a progress bar has hidden

# An interrupt inside these files may leave a lock held, or release it twice. Only
# functions that wait for another thread can be interrupted safely.
_LOCKING = (threading.__file__, weakref.__file__, "<frozen importlib._bootstrap>")
_WAITING = ("wait", "wait_for", "join", "_wait_for_tstate_lock")


class Termination(KeyboardInterrupt):
    """SIGTERM, handled like an interrupt, so that committed frames are kept."""


class HangUp(Termination):
    """SIGHUP, sent when the terminal closes; it is handled like SIGTERM."""


# The exception of each signal, and the message and exit code of each exception.
EXCEPTIONS = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Termination,
    signal.SIGHUP: HangUp,
}
EXIT_MESSAGES = {
    KeyboardInterrupt: ("interrupted", 130),
    Termination: ("terminated", 143),
    HangUp: ("hung up", 129),
}


@contextmanager
def handle_signals() -> Iterator[None]:
    """Turns signals into exceptions, and ends the process if Python does not react.

    Python handles signals only between bytecode instructions, and a compiled segment
    may last minutes. Stores survive a kill, so the process ends after `GRACE` seconds.
    Signals that the process ignores from the start, as under `nohup`, stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watch = _Watch(reader)
    numbers = [n for n in EXCEPTIONS if signal.getsignal(n) is not signal.SIG_IGN]
    old_handlers = {n: signal.signal(n, watch.raise_signal) for n in numbers}
    unraisable, sys.unraisablehook = sys.unraisablehook, watch.handle_unraisable
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch.run, daemon=True).start()
    try:
        yield
    except Exception as error:
        if watch.interrupt is None:
            raise
        # An interrupted import raises an error of its own: raise the interrupt instead.
        raise watch.interrupt from error
    finally:
        watch.is_over = True
        signal.set_wakeup_fd(wakeup)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = unraisable
        os.close(writer)  # ends the thread, which closes `reader`


def exit_now(code: int) -> NoReturn:
    """Ends the process at once; a normal exit would wait for compiled code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the streams may be closed
            stream.flush()
    os._exit(code)


class _Watch:
    """Raises an exception for the first signal; a thread sends lost signals again.

    The handler and the thread share only plain attributes, because the code that the
    handler interrupts might hold a lock that the handler would need.
    """

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._is_raised = False
        self.interrupt: KeyboardInterrupt | None = None
        self.is_over = False

    def raise_signal(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal: raises its exception, unless `frame` may hold a lock."""
        if self._is_raised or self.is_over or _holds_locks(frame):
            return
        interrupt = EXCEPTIONS[signal.Signals(number)]()
        self._is_raised, self.interrupt = True, interrupt
        raise interrupt

    def handle_unraisable(self, args: "sys.UnraisableHookArgs") -> None:
        """Records that an interrupt was lost in a finaliser or in garbage collection.

        Python prints such exceptions and continues; the thread sends the signal again.
        """
        if isinstance(args.exc_value, KeyboardInterrupt):
            self._is_raised, self.interrupt = False, None
        else:
            sys.__unraisablehook__(args)

    def run(self) -> None:
        """Waits for signals in a thread, and makes sure that they end the command."""
        while octet := os.read(self._reader, 1):
            number = signal.Signals(octet[0])
            if number in EXCEPTIONS:
                self._enforce(number)
        os.close(self._reader)

    def _enforce(self, number: signal.Signals) -> None:
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            time.sleep(RETRY_INTERVAL)
            if self.is_over:
                return
            if not self._is_raised:
                _thread.interrupt_main(number)
        word, code = EXIT_MESSAGES[EXCEPTIONS[number]]
        with contextlib.suppress(OSError, ValueError):
            show = RESTORE + "\r\n" if sys.stderr.isatty() else ""
            sys.stderr.write(f"{show}meanfield: {word}; committed frames are kept.\n")
        exit_now(code)


def _holds_locks(frame: FrameType | None) -> bool:
    """Whether Python is inside code that acquires or releases a lock."""
    if frame is None:
        return False
    code = frame.f_code
    return code.co_filename in _LOCKING and code.co_name not in _WAITING
