"""The folders `experiments` and `benchmarks`, and where what they make belongs.

A checkout has them beside the package. A wheel has them in it, under `SHIPPED`, where
the build maps them; so nothing else of an environment can take their names.
"""

from pathlib import Path

from .errors import InputFileError

SHIPPED = "_shipped"  # as `pyproject.toml` says


def holder(folder: str) -> Path:
    """The place from which `folder` is imported.

    Raises:
        InputFileError: if it is neither in the package nor beside it.
    """
    package = _package()
    for place in (package / SHIPPED, package.parent):
        if (place / folder).is_dir():
            return place
    raise InputFileError(
        f"`{folder}/` is missing from this installation of meanfield; install it "
        "again, or run this in a checkout of meanfield."
    )


def home() -> Path:
    """The place for what is made by default: the checkout, else the present folder."""
    package = _package()
    return Path.cwd() if (package / SHIPPED).is_dir() else package.parent


def _package() -> Path:
    return Path(__file__).resolve().parent
