"""The folders beside the package.

A checkout has `experiments`, `benchmarks` and `docs/extending` there. A wheel has them
in the package, under `SHIPPED`, where the build maps them; so nothing else of an
environment can take their names.
"""

from pathlib import Path

from .errors import InputFileError

SHIPPED = "_shipped"  # as `pyproject.toml` says
_TEMPLATES = "docs/extending"
_BEGINNING = "template_"


def holder(folder: str) -> Path:
    """The place from which `folder` is imported.

    Raises:
        InputFileError: if it is neither in the package nor beside it.
    """
    package = Path(__file__).resolve().parent
    for place in (package / SHIPPED, package.parent):
        if (place / folder).is_dir():
            return place
    raise InputFileError(
        f"`{folder}/` is missing from this installation of meanfield; install it "
        "again, or run this in a checkout of meanfield."
    )


def templates() -> dict[str, Path]:
    """The commented file to begin each kind of plugin from; it works as it stands.

    Raises:
        InputFileError: if this installation lacks them.

    Examples:
        >>> from meanfield._folders import templates
        >>> sorted(templates())
        ['attention', 'panel', 'statement', 'task']
    """
    files = sorted((holder(_TEMPLATES) / _TEMPLATES).glob(f"{_BEGINNING}*.py"))
    return {file.stem.removeprefix(_BEGINNING): file for file in files}
