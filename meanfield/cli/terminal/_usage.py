"""What is wrong with a command line, in a line."""

from cyclopts import CycloptsError
from cyclopts.exceptions import UnknownCommandError, UnknownOptionError

from meanfield._registry import suggestion


def usage(error: CycloptsError) -> str:
    """The line, with a near name where one is unknown."""
    if isinstance(error, UnknownOptionError):
        given = str(error.token.keyword or error.token.value)
        known = [name for each in error.argument_collection for name in each.names]
        return f"There is no option `{given}`; {_near(given, known, 'options')}"
    line = " ".join(str(error).split())
    if isinstance(error, UnknownCommandError):
        given = (error.unused_tokens or [""])[0]
        known = [] if error.app is None else [n for n in error.app if n[0] != "-"]
        return f"There is no command `{given}`; {_near(given, known, 'commands')}"
    return f"{line} See `meanfield {' '.join(error.command_chain or ())} --help`."


def _near(given: str, known: list[str], what: str) -> str:
    if not known:
        return f"see `--help` for the {what}."
    return suggestion(given, known)
