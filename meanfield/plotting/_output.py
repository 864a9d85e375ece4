"""Figures to files."""

from pathlib import Path

from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError

from ._png import paletted
from ._style import style
from ._unwritable import unwritable

_SUFFIXES = (".pdf", ".png", ".svg")


@style()
def save(figure: Figure, path: str | Path) -> tuple[Path, ...]:
    """Write a figure: to `path`, or to `path.pdf` and `path.png` if it has no suffix.

    Returns:
        The files written. Vector files carry no date: same figure, same bytes. A PNG
        has 256 colours.

    Raises:
        InvalidInputError: if the suffix is not one of .pdf, .png and .svg.
        ResourceError: if the file cannot be written.
    """
    target = Path(path)
    if target.suffix and target.suffix.lower() not in _SUFFIXES:
        raise InvalidInputError(
            f"A figure cannot be written as `{target.suffix}`; "
            f"use {', '.join(_SUFFIXES)}, or no suffix for .pdf and .png."
        )
    suffixes = [target.suffix] if target.suffix else [".pdf", ".png"]
    files = tuple(target.with_suffix(suffix) for suffix in suffixes)
    for file in files:
        try:
            _write(figure, file)
        except OSError as error:
            raise unwritable(file, error) from error
    return files


def _write(figure: Figure, file: Path) -> None:
    if file.suffix.lower() != ".png":
        figure.savefig(file, metadata=_metadata(file))
        return
    paletted(figure).save(file, optimize=True)


def _metadata(file: Path) -> dict[str, str | None]:
    """What leaves the date out of a vector file."""
    dates = {".pdf": "CreationDate", ".svg": "Date"}
    suffix = file.suffix.lower()
    return {dates[suffix]: None} if suffix in dates else {}
