"""What the system gives a command, and what it refuses: streams, names, folders."""

import errno
import io
import os
import re
import sys
from pathlib import Path

from meanfield._reading import path_of
from meanfield.errors import InvalidInputError

CLOSED = "standard output is closed; send it to a file, or to /dev/null."
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EMFILE)
_AT_HOME = re.compile(r"(--[\w-]+=)?(@)?(~[\w.-]*(?:/.*)?)", re.DOTALL)
_WORDS = ("--text=", "--title=")  # whose values are no names of files
_LONGEST = 320  # characters of a word, more than a name of a file may have
_KEPT = 60  # of them at either end of a longer one


def open_streams() -> bool:
    """Makes the standard streams ready for any text; whether there is an output.

    A stream that was closed would lend its number to the next file that is opened.
    """
    is_open = sys.stdout is not None
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as of the other stream
    return is_open


def drop_stdout() -> None:
    """Lets what is still to be printed vanish: the interpreter would try once more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def check_arguments(tokens: list[str]) -> None:
    """Refuses what no shell can pass, and no system call takes.

    Raises:
        InvalidInputError: for NUL, and for characters that are none.
    """
    for token in tokens:
        try:
            if b"\0" not in os.fsencode(token):
                continue
        except UnicodeEncodeError:
            pass
        raise InvalidInputError(f"The argument {token!r} holds what no name may hold.")


def expand_home(token: str) -> str:
    """An argument whose `~` is a home, also where shells leave it: in `--out=~/run`.

    Raises:
        InputFileError: if nobody has that home.
    """
    if not (parts := _AT_HOME.fullmatch(token)):
        return token
    option, mark, path = parts.groups(default="")
    if option in _WORDS and not mark:
        return token
    return f"{option}{mark}{path_of(path)}"


def refusal(error: OSError) -> tuple[str, int]:
    """What the system refused, in a line, and the exit code that tells of it."""
    code = 4 if error.errno in _FULL else 3
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"`{error.filename}` cannot be used: {reason}.", code
    if not _has_folder():
        return "the working folder was deleted; change to one that is there.", code
    subject = "standard output or a file cannot be written" if code == 4 else "refused"
    return f"{subject}: {reason}.", code


def shorten(word: str) -> str:
    """A word, its middle left out if it is longer than any that one can read."""
    if len(word) <= _LONGEST:
        return word
    return f"{word[:_KEPT]}…{word[-_KEPT:]}"


def _has_folder() -> bool:
    try:
        return Path.cwd().is_dir()
    except FileNotFoundError:
        return False
