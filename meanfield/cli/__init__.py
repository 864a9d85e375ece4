"""The command line: names and numbers in, tables and files out; no mathematics."""

import atexit
import contextlib
import gc
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from types import TracebackType

from cyclopts import App, CycloptsError, Parameter

from meanfield.errors import MeanfieldError

from ._console import RunProgress as RunProgress
from ._session import open_session as open_session
from ._signals import Terminated, leave, watched
from ._system import (
    CLOSED,
    check_arguments,
    drop_stdout,
    open_streams,
    refusal,
    shortened,
)
from ._usage import usage

SIMULATE = """\
Integrate a token flow: tokens, Gaussians or densities under attention.

Keys come from a preset, a TOML file and options of the same names; the later win.
A MATRIX is a number c (for c I), a list of rows such as [[1,0],[0,2]], @FILE.npy,
@FILE.csv, or the law normal:SCALE, drawn from the seed."""
COMMANDS = {
    "simulate": ("simulate:simulate", SIMULATE),
    "compare": (
        "compare:compare",
        "Run a spec as tokens, Gaussian and density, and say when and why they part.",
    ),
    "resume": ("resume:resume", "Go on with an interrupted run."),
    "sweep": (
        "sweep:sweep",
        "Integrate a flow for every combination of values: a phase diagram.",
    ),
    "plot": ("plot:plot", "Draw a panel of a run, as PDF and PNG."),
    "animate": ("plot:animate", "Make a GIF of a run."),
    "export": ("export:export", "Write the frames of a run as .npz or .csv."),
    "reproduce": (
        "reproduce:reproduce",
        "Rebuild figures of the literature; `reproduce list` lists them.",
    ),
    "verify": (
        "verify:verify",
        "Measure the statements of the papers, each with a control that must fail.",
    ),
    "bench": (
        "bench:bench",
        "Measure time, memory and error against what one would use instead.",
    ),
    "models": ("models:app", "Real transformers as input: list them, inspect one."),
    "list": ("catalog:list_", "List what can be named."),
    "show": ("show:show", "Show a run, or anything that can be named."),
    "info": ("catalog:info", "Show versions, device and cache."),
}
EPILOGUE = """\
Try `meanfield simulate --preset collapse --out first.zarr`, then
`meanfield plot first.zarr`. Any command takes --debug, for tracebacks of errors."""

app = App(
    name="meanfield",
    help="Token flows under attention: particles, Gaussians, real transformers.",
    help_epilogue=EPILOGUE,
    help_format="plaintext",
    version=lambda: metadata.version("meanfield-attention"),
    default_parameter=Parameter(negative=()),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _name, (_target, _help) in COMMANDS.items():
    app.command(f"meanfield.cli.{_target}", name=_name, help=_help)


# Objects between two collections: tracing makes many, and next to no garbage.
SELDOM = 100_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with a code that says how it went.

    0 fine, 1 internal, 2 usage, 3 input file, 4 resources, 5 numerical failure, 6
    verification failed, 7 store damaged, 130 and 143 interrupted.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # the process is ours, and short
        gc.set_threshold(SELDOM)
        atexit.register(gc.freeze)  # else the interpreter looks at all once more
        if not open_streams():
            sys.exit(_complain(CLOSED, 4))
    debug = "--debug" in tokens
    if not debug:
        sys.excepthook = _one_line
    try:
        with watched():
            code = _run([token for token in tokens if token != "--debug"], debug=debug)
            code = _flushed(code)
    except Terminated as error:
        leave(_complain(str(error) or "terminated.", 143))
    except KeyboardInterrupt as error:
        leave(_complain(str(error) or "interrupted.", 130))
    sys.exit(code)


def _run(tokens: list[str], *, debug: bool) -> int:
    try:
        check_arguments(tokens)
        app(tokens, exit_on_error=False, print_error=False)
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


def _flushed(code: int) -> int:
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
        sys.stderr.write(f"meanfield: {' '.join(map(shortened, message.split()))}\n")
        sys.stderr.flush()
    return code


def _one_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """What an error of ours looks like: the interpreter then exits with 1."""
    del trace
    text = " ".join(str(error).split())[:300]
    sys.stderr.write(
        f"meanfield: internal error, {kind.__name__}: {text} "
        "(add --debug for a traceback, and please report it)\n"
    )
