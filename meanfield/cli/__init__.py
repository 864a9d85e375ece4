"""The command line: names and numbers in, tables and files out; no mathematics."""

import atexit
import contextlib
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from cyclopts import CycloptsError

from meanfield.errors import MeanfieldError

from .commands import COMMANDS as COMMANDS
from .commands import HELP as HELP
from .commands import app as app
from .process._joining import SUPERVISED
from .process._session import open_session as open_session
from .process._signals import SAID, leave, watched
from .process._supervising import TYPED
from .process._system import (
    CLOSED,
    check_arguments,
    drop_stdout,
    expand_home,
    open_streams,
    refusal,
    shorten,
)
from .terminal._console import RunProgress as RunProgress
from .terminal._help import usage

# Objects between two collections: tracing makes many, and next to no garbage.
SELDOM = 100_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with a code that says how it went.

    0 fine, 1 internal, 2 usage, 3 input file, 4 resources, 5 numerical failure, 6
    verification failed, 7 store damaged or removed, 8 a process lost, 129, 130 and
    143 interrupted.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # the process is ours, and short
        gc.set_threshold(SELDOM)
        atexit.register(gc.freeze)  # else the interpreter looks at all once more
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing to say while it ends
        if not open_streams():
            sys.exit(_complain(CLOSED, 4))
    TYPED[:] = tokens
    debug = "--debug" in tokens
    if not debug:
        sys.excepthook = one_line
        warnings.formatwarning = _warning
    try:
        with watched():
            code = _run([token for token in tokens if token != "--debug"], debug=debug)
            code = _flush(code)
            if code and SUPERVISED in os.environ:
                leave(code)  # the parent ends others, for which this one would wait
    except KeyboardInterrupt as error:
        word, code = SAID[type(error)]
        with contextlib.suppress(OSError, ValueError):  # a terminal that has gone
            _complain(str(error) or f"{word}.", code)
        leave(code)
    sys.exit(code)


def _run(tokens: list[str], *, debug: bool) -> int:
    try:
        check_arguments(tokens)
        _obey([expand_home(token) for token in tokens])
    except CycloptsError as error:
        return _complain(usage(error), 2)
    except MeanfieldError as error:
        if debug:
            traceback.print_exc()
        return _complain(str(error), error.exit_code)
    except BrokenPipeError:
        drop_stdout()  # the reader has gone; nothing is left to say
    except OSError as error:
        if debug:
            traceback.print_exc()
        return _complain(*refusal(error))
    except MemoryError:
        return _complain("this machine's memory is full; ask for less.", 4)
    return 0


def _obey(tokens: list[str]) -> None:
    if not tokens or tokens[0] in app.help_flags:
        for name in COMMANDS:
            app[name]  # imported, so that the overview has its first line
    app(tokens, exit_on_error=False, print_error=False)


def _flush(code: int) -> int:
    """The code, once all that was printed is out; another if it cannot be."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
    except OSError as error:
        drop_stdout()
        return _complain(f"standard output cannot be written: {error.strerror}.", 4)
    return code


def _complain(message: str, code: int) -> int:
    with contextlib.suppress(OSError):  # nothing is left to say it on
        sys.stderr.write(f"meanfield: {' '.join(map(shorten, message.split()))}\n")
        sys.stderr.flush()
    return code


def one_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """What an error of ours looks like: the interpreter then exits with 1."""
    text = " ".join(str(error).split())[:300]
    whose, remedy = "internal error", "a traceback, and please report it"
    for frame, number in traceback.walk_tb(trace):
        if frame.f_globals.get("__name__", "").startswith("meanfield_plugin_"):
            file = Path(frame.f_code.co_filename).name
            whose = f"error in the plugin `{file}`, line {number}"
            remedy = "a traceback"
    sys.stderr.write(
        f"meanfield: {whose}, {kind.__name__}: {text} (add --debug for {remedy})\n"
    )


def _warning(message: Warning | str, *_place: object) -> str:
    """What a warning looks like: what it says, and not where in our code."""
    return f"meanfield: {message}\n"
