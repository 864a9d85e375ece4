"""Paths of the folders that are shipped with the package.

A checkout has `experiments`, `benchmarks` and `docs/extending` beside the package. A
wheel has them inside the package, in `BUNDLE_FOLDER`, so that their names cannot clash
with the names of other packages in the environment.
"""

from pathlib import Path

from .errors import InputFileError

BUNDLE_FOLDER = "_shipped"  # the name that `pyproject.toml` uses
_TEMPLATES = "docs/extending"
_PREFIX = "template_"


def root_of(folder: str) -> Path:
    """The directory that contains `folder`.

    Raises:
        InputFileError: if `folder` is neither in the package nor beside it.
    """
    package = Path(__file__).resolve().parent
    for place in (package / BUNDLE_FOLDER, package.parent):
        if (place / folder).is_dir():
            return place
    raise InputFileError(
        f"The folder `{folder}/` is missing from this installation of meanfield; "
        "install it again, or run the command in a checkout of meanfield."
    )


def templates() -> dict[str, Path]:
    """The template file of each kind of plugin, commented and ready to run.

    Raises:
        InputFileError: if this installation has no templates.

    Examples:
        >>> from meanfield._folders import templates
        >>> sorted(templates())
        ['attention', 'panel', 'statement', 'task']
    """
    files = sorted((root_of(_TEMPLATES) / _TEMPLATES).glob(f"{_PREFIX}*.py"))
    return {file.stem.removeprefix(_PREFIX): file for file in files}
