"""Standard streams, arguments and errors of the operating system."""

import errno
import io
import os
import re
import sys
from pathlib import Path

from meanfield._reading import path_of
from meanfield.errors import InvalidInputError

NO_OUTPUT_MESSAGE = "Standard output is closed. Redirect it to a file or /dev/null."
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EMFILE)
_TILDE = re.compile(r"(--[\w-]+=)?(@)?(~[\w.-]*(?:/.*)?)", re.DOTALL)
_TEXT_OPTIONS = ("--text=", "--title=")  # options whose values are not file names
_LONGEST = 320  # largest number of characters of a word; longer words are cut
_END_LENGTH = 60  # characters that are kept at each end of a cut word


def open_streams() -> bool:
    """Prepares the standard streams for any text; returns whether stdout is open.

    A closed stream is replaced, since the next opened file would get its descriptor.
    """
    is_open = sys.stdout is not None
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the default of stderr
    return is_open


def drop_stdout() -> None:
    """Discards buffered output, which the interpreter would try to write at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def check_arguments(tokens: list[str]) -> None:
    """Raises for arguments that no system call accepts.

    Raises:
        InvalidInputError: for NUL characters and invalid Unicode.
    """
    for token in tokens:
        try:
            if b"\0" not in os.fsencode(token):
                continue
        except UnicodeEncodeError:
            pass
        raise InvalidInputError(f"The argument {token!r} contains invalid characters.")


def expand_home(token: str) -> str:
    """Expands `~` in an argument, even where shells do not, as in `--out=~/run`.

    Raises:
        InputFileError: if the user after `~` does not exist.
    """
    if not (parts := _TILDE.fullmatch(token)):
        return token
    option, mark, path = parts.groups(default="")
    if option in _TEXT_OPTIONS and not mark:
        return token
    return f"{option}{mark}{path_of(path)}"


def describe_os_error(error: OSError) -> tuple[str, int]:
    """One-line message about an error of the system, and its exit code."""
    code = 4 if error.errno in _FULL else 3
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"`{error.filename}` cannot be used: {reason}.", code
    if not _has_folder():
        return "The working folder was deleted. Change to another one.", code
    if code == 4:
        return f"Standard output or a file cannot be written: {reason}.", code
    return f"The operating system reports: {reason}.", code


def shorten(word: str) -> str:
    """A word, with … in place of its middle if the word is very long."""
    if len(word) <= _LONGEST:
        return word
    return f"{word[:_END_LENGTH]}…{word[-_END_LENGTH:]}"


def _has_folder() -> bool:
    try:
        return Path.cwd().is_dir()
    except FileNotFoundError:
        return False
