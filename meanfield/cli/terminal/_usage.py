"""What is wrong with a command line, in a line."""

from cyclopts import CycloptsError
from cyclopts.exceptions import (
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from meanfield._registry import suggestion


def usage(error: CycloptsError) -> str:
    """The line, with a near name where one is unknown."""
    if isinstance(error, UnknownOptionError):
        word = str(error.token.keyword or error.token.value)
        names = [
            name for argument in error.argument_collection for name in argument.names
        ]
        return f"There is no option `{word}`; {_near(word, names, 'options')}"
    line = " ".join(str(error).split())
    if isinstance(error, UnknownCommandError):
        word = (error.unused_tokens or [""])[0]
        names = [] if error.app is None else [n for n in error.app if n[0] != "-"]
        return f"There is no command `{word}`; {_near(word, names, 'commands')}"
    if isinstance(error, UnusedCliTokensError):
        line = f"`{(error.unused_tokens or [''])[0]}` is one argument too many."
    return f"{line} See `meanfield {' '.join(error.command_chain or ())} --help`."


def _near(word: str, names: list[str], kind: str) -> str:
    if not names:
        return f"see `--help` for the {kind}."
    return suggestion(word, names)
