"""The command line: names and numbers in, tables and files out; no mathematics."""

import signal
import sys
from collections.abc import Sequence
from types import FrameType

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import UnknownCommandError

from meanfield.errors import MeanfieldError

COMMANDS = {
    "simulate": "simulate:simulate",
    "resume": "resume:resume",
    "plot": "plot:plot",
    "animate": "plot:animate",
    "export": "export:export",
    "models": "models:app",
    "list": "catalog:list_",
    "show": "catalog:show",
    "info": "catalog:info",
}

app = App(
    name="meanfield",
    help="Token flows under attention: particles, Gaussians, real transformers.",
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
    result_action="return_value",
)
for _name, _target in COMMANDS.items():
    app.command(f"meanfield.cli.{_target}", name=_name)


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like an interrupt: what is committed stays."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with a code that says how it went.

    0 fine, 1 internal, 2 usage, 3 input file, 4 resources, 5 numerical failure, 7 store
    damaged, 130 and 143 interrupted.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in tokens
    sys.excepthook = sys.__excepthook__ if debug else _one_line
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(_run([token for token in tokens if token != "--debug"], debug=debug))


def _run(tokens: list[str], *, debug: bool) -> int:
    try:
        app(tokens, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(_usage(error), 2)
    except MeanfieldError as error:
        if debug:
            raise
        return _complain(str(error), error.exit_code)
    except Terminated:
        return _complain("terminated; a run with `--out` can be resumed.", 143)
    except KeyboardInterrupt:
        return _complain("interrupted; a run with `--out` can be resumed.", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; nothing is left to say
        return 0
    return 0


def _usage(error: CycloptsError) -> str:
    line = " ".join(str(error).split())
    if isinstance(error, UnknownCommandError):
        return f"{line} See `meanfield --help`."
    return line


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"meanfield: {' '.join(message.split())}\n")
    return code


def _one_line(kind: type[BaseException], error: BaseException, trace: object) -> None:
    del trace
    text = " ".join(str(error).split())[:300]
    sys.stderr.write(
        f"meanfield: internal error, {kind.__name__}: {text} "
        "(add --debug for a traceback, and please report it)\n"
    )


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Terminated
