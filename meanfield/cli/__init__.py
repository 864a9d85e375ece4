"""The command line, which reads options and files, and prints and writes results.

It contains no mathematics.
"""

import atexit
import contextlib
import gc
import os
import re
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
from .process._joining import SUPERVISOR_PIPE
from .process._session import open_session as open_session
from .process._signals import EXIT_MESSAGES, exit_now, handle_signals
from .process._supervising import COMMAND_LINE
from .process._system import (
    NO_OUTPUT_MESSAGE,
    check_arguments,
    describe_os_error,
    drop_stdout,
    expand_home,
    open_streams,
    shorten,
)
from .terminal._console import RunProgress as RunProgress
from .terminal._help import HELP_ALL, Help, usage

# Number of allocations between two garbage collections. It is large, because JAX's
# tracing allocates many objects and leaves little garbage.
GC_THRESHOLD = 100_000
_KEY = re.compile(r"`(\w+) = ([\w.:+-]+)`")  # a key with its value, as in TOML


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with an exit code.

    Codes: 0 success, 1 internal error, 2 usage, 3 input file, 4 resources, 5 numerical
    failure, 6 failed verification, 7 damaged or removed store, 8 lost process. The
    codes 129, 130 and 143 stand for an interrupt.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # the process exits after this one command
        gc.set_threshold(GC_THRESHOLD)
        atexit.register(gc.freeze)  # skips the garbage collection at exit
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback on Ctrl-C
        if not open_streams():
            sys.exit(_print_error(NO_OUTPUT_MESSAGE, 4))
    debug = "--debug" in tokens
    if not debug:
        sys.excepthook = print_internal_error
        warnings.formatwarning = _warning
    try:
        with handle_signals():
            code = _run([token for token in tokens if token != "--debug"], debug=debug)
            code = _flush(code)
            if code and SUPERVISOR_PIPE in os.environ:
                exit_now(code)  # a normal exit would wait for the other processes
    except KeyboardInterrupt as error:
        word, code = EXIT_MESSAGES[type(error)]
        with contextlib.suppress(OSError, ValueError):  # the terminal may be closed
            _print_error(str(error) or f"{word}.", code)
        exit_now(code)
    sys.exit(code)


def _run(tokens: list[str], *, debug: bool) -> int:
    try:
        check_arguments(tokens)
        COMMAND_LINE[:] = [*tokens, "--debug"] if debug else tokens
        _dispatch([expand_home(token) for token in tokens])
    except CycloptsError as error:
        return _print_error(usage(error), 2)
    except MeanfieldError as error:
        if debug:
            traceback.print_exc()
        return _print_error(str(error), error.exit_code)
    except BrokenPipeError:
        drop_stdout()  # the reader of the pipe has exited
    except OSError as error:
        if debug:
            traceback.print_exc()
        return _print_error(*describe_os_error(error))
    except MemoryError:
        return _print_error("This machine is out of memory. Use a smaller size.", 4)
    return 0


def _dispatch(tokens: list[str]) -> None:
    if not tokens or tokens[0] in (*app.help_flags, HELP_ALL):
        for name in COMMANDS:
            app[name]  # imports the command, whose summary the overview shows
    if not {*app.help_flags, HELP_ALL}.isdisjoint(tokens):
        from .options._options import RARE_OPTIONS

        app.help_formatter = Help() if HELP_ALL in tokens else Help(RARE_OPTIONS)
    words = ["--help" if token == HELP_ALL else token for token in tokens]
    app(words, exit_on_error=False, print_error=False)


def _flush(code: int) -> int:
    """Flushes standard output; returns `code`, or 4 if writing fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
    except OSError as error:
        drop_stdout()
        return _print_error(f"Cannot write to standard output: {error.strerror}.", 4)
    return code


def _print_error(message: str, code: int) -> int:
    message = _KEY.sub(_option_of, message)
    with contextlib.suppress(OSError):  # standard error may be closed
        sys.stderr.write(f"meanfield: {' '.join(map(shorten, message.split()))}\n")
        sys.stderr.flush()
    return code


def _option_of(match: re.Match[str]) -> str:
    """The option of a key with its value, such as `--measure points`."""
    from meanfield.spec import KEYS

    key, value = match.groups()
    return f"`--{key.replace('_', '-')} {value}`" if key in KEYS else match[0]


def print_internal_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Prints an internal error on one line; the interpreter then exits with 1."""
    text = " ".join(str(error).split())[:300]
    origin, remedy = "internal error", "a traceback, and please report it"
    for frame, number in traceback.walk_tb(trace):
        if frame.f_globals.get("__name__", "").startswith("meanfield_plugin_"):
            file = Path(frame.f_code.co_filename).name
            origin = f"error in the plugin `{file}`, line {number}"
            remedy = "a traceback"
    sys.stderr.write(
        f"meanfield: {origin}, {kind.__name__}: {text} (add --debug for {remedy})\n"
    )


def _warning(message: Warning | str, *_place: object) -> str:
    """Formats a warning without its location in the source code."""
    return f"meanfield: {message}\n"
