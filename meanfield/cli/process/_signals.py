"""Ctrl-C, SIGTERM and SIGHUP: at once, whatever compiled code is running."""

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

GRACE = 1.0  # seconds that Python has to stop by itself
AGAIN = 0.01  # seconds until an interrupt that went astray is sent again
RESTORE = "\x1b[?25h"  # shows the cursor that a progress bar has hidden

# An exception between two instructions of these files leaves a lock held, or released
# twice, except where a thread waits there for another.
_LOCKING = (threading.__file__, weakref.__file__, "<frozen importlib._bootstrap>")
_WAITING = ("wait", "wait_for", "join", "_wait_for_tstate_lock")


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like an interrupt: what is committed stays."""


class HungUp(Terminated):
    """SIGHUP, the end of a terminal, handled like SIGTERM."""


# What a signal raises; what the command then says, and exits with.
RAISED = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}
SAID = {
    KeyboardInterrupt: ("interrupted", 130),
    Terminated: ("terminated", 143),
    HungUp: ("hung up", 129),
}


@contextmanager
def watched() -> Iterator[None]:
    """Turns signals into exceptions, and ends the process if Python cannot.

    Python sees a signal only between two of its own instructions: a compiled segment
    may last minutes. Stores survive being killed, so after a second the process ends.
    A signal that the process was told to ignore, as by `nohup`, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watch = _Watch(reader)
    heard = [n for n in RAISED if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, watch.strike) for number in heard}
    unraisable, sys.unraisablehook = sys.unraisablehook, watch.lost
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch.run, daemon=True).start()
    try:
        yield
    except Exception as error:
        if watch.struck is None:
            raise
        # An import turns what strikes it into an error of its own.
        raise watch.struck from error
    finally:
        watch.over = True
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = unraisable
        os.close(writer)  # ends the thread, which closes its own end


def leave(code: int) -> NoReturn:
    """Ends the process now: Python would first wait for compiled code to end."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # their reader may have gone
            stream.flush()
    os._exit(code)


class _Watch:
    """The signals of one command: raised once, and sent again until that works.

    Plain attributes are all that handler and thread share: a lock that the handler
    takes may be held by the very instruction that it interrupts.
    """

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._landed = False
        self.struck: KeyboardInterrupt | None = None
        self.over = False

    def strike(self, number: int, frame: FrameType | None) -> None:
        """Raises what a signal stands for, unless a lock would break; a handler."""
        if self._landed or self.over or _holds_locks(frame):
            return
        strike = RAISED[signal.Signals(number)]()
        self._landed, self.struck = True, strike
        raise strike

    def lost(self, args: "sys.UnraisableHookArgs") -> None:
        """Takes up an interrupt inside a collector's callback or a finaliser.

        Python prints such exceptions and goes on; the thread sends the signal again.
        """
        if isinstance(args.exc_value, KeyboardInterrupt):
            self._landed, self.struck = False, None
        else:
            sys.__unraisablehook__(args)

    def run(self) -> None:
        """Waits for signals, and sees to it that the first ends the command."""
        while octet := os.read(self._reader, 1):
            number = signal.Signals(octet[0])
            if number in RAISED:
                self._see_to(number)
        os.close(self._reader)

    def _see_to(self, number: signal.Signals) -> None:
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            time.sleep(AGAIN)
            if self.over:
                return
            if not self._landed:
                _thread.interrupt_main(number)
        word, code = SAID[RAISED[number]]
        with contextlib.suppress(OSError, ValueError):
            show = RESTORE + "\r\n" if sys.stderr.isatty() else ""
            sys.stderr.write(f"{show}meanfield: {word}; committed frames are kept.\n")
        leave(code)


def _holds_locks(frame: FrameType | None) -> bool:
    """Whether Python is in the middle of taking or releasing a lock."""
    if frame is None:
        return False
    code = frame.f_code
    return code.co_filename in _LOCKING and code.co_name not in _WAITING
