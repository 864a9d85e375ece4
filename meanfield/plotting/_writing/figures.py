"""Figures to files."""

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.picture import Picture

from ._warnings import told_plainly
from .files import named, put
from .png import paletted

_SUFFIXES = (".pdf", ".png", ".svg")


def save(figure: Figure, path: str | Path) -> tuple[Path, ...]:
    """Write a figure: to `path`, or to `path.pdf` and `path.png` if it has no suffix.

    All is drawn before anything is written, and each file is replaced whole or stays.

    Returns:
        The files written. Vector files carry no date: same figure, same bytes. A PNG
        has 256 colours.

    Raises:
        InvalidInputError: if the suffix is not one of .pdf, .png and .svg, there is no
            name, or the figure is too small for its text.
        ResourceError: if the file cannot be written; an old one then stays.

    Examples:
        >>> import xarray as xr
        >>> from meanfield.plotting import save, titled_figure
        >>> figure = titled_figure(xr.Dataset(attrs={"title": "a title"}), (3.0, 2.0))
        >>> [file.name for file in save(figure, "picture")]
        ['picture.pdf', 'picture.png']
    """
    files = figure_files(path)
    look = figure.look if isinstance(figure, Picture) else Look()
    with look.applied(), told_plainly(figure):
        drawn = {file: _bytes(figure, file.suffix.lower()[1:]) for file in files}
    return tuple(put(file, content) for file, content in drawn.items())


def figure_files(path: str | Path) -> tuple[Path, ...]:
    """The files that `save` writes to `path`.

    Raises:
        InvalidInputError: if the suffix is not one of .pdf, .png and .svg, or there is
            no name.

    Examples:
        >>> from meanfield.plotting import figure_files
        >>> [file.name for file in figure_files("picture")]
        ['picture.pdf', 'picture.png']
    """
    target = named(path)
    if target.suffix and target.suffix.lower() not in _SUFFIXES:
        raise InvalidInputError(
            f"A figure cannot be written as `{target.suffix}`; "
            f"use {', '.join(_SUFFIXES)}, or no suffix for .pdf and .png."
        )
    suffixes = [target.suffix] if target.suffix else [".pdf", ".png"]
    return tuple(target.with_suffix(suffix) for suffix in suffixes)


def _bytes(figure: Figure, kind: str) -> bytes:
    """The figure as the content of a `pdf`, a `png` or an `svg` without a date."""
    content = BytesIO()
    if kind == "png":
        paletted(figure).save(content, format="png", optimize=True)
    else:
        date = {"pdf": "CreationDate", "svg": "Date"}[kind]
        figure.savefig(content, format=kind, metadata={date: None})
    return content.getvalue()
