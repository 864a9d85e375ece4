"""Writing of figures as PDF, PNG or SVG files."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.picture import Picture

from .files import output_path, write_file
from .png import palette_image

_SUFFIXES = (".pdf", ".png", ".svg")
_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")
_NO_ROOM = "constrained_layout not applied"


def save(figure: Figure, path: str | Path) -> tuple[Path, ...]:
    """Write a figure to `path`, or to `path.pdf` and `path.png` if it has no suffix.

    All files are drawn before any is written, and each file is replaced atomically.

    Returns:
        The files written. Vector files contain no date, so equal figures give equal
        bytes. A PNG has at most 256 colours if that makes no visible difference.

    Raises:
        InvalidInputError: if the suffix is not one of .pdf, .png and .svg, `path` has
            no file name, or the figure is too small for its text.
        ResourceError: if a file cannot be written; an old file is then kept.

    Examples:
        >>> import xarray as xr
        >>> from meanfield.plotting import save, titled_figure
        >>> figure = titled_figure(xr.Dataset(attrs={"title": "a title"}), (3.0, 2.0))
        >>> [file.name for file in save(figure, "picture")]
        ['picture.pdf', 'picture.png']
    """
    files = figure_files(path)
    look = figure.look if isinstance(figure, Picture) else Look()
    with look.rc_context(), translate_warnings(figure):
        contents = {file: _bytes(figure, file.suffix.lower()[1:]) for file in files}
    return tuple(write_file(file, content) for file, content in contents.items())


def figure_files(path: str | Path) -> tuple[Path, ...]:
    """The files that `save` writes for `path`.

    Raises:
        InvalidInputError: if the suffix is not one of .pdf, .png and .svg, or `path`
            has no file name.

    Examples:
        >>> from meanfield.plotting import figure_files
        >>> [file.name for file in figure_files("picture")]
        ['picture.pdf', 'picture.png']
    """
    target = output_path(path)
    if target.suffix and target.suffix.lower() not in _SUFFIXES:
        raise InvalidInputError(
            f"The suffix of a figure must be one of {', '.join(_SUFFIXES)}; got "
            f"`{target.suffix}`. Without a suffix, .pdf and .png are written."
        )
    suffixes = [target.suffix] if target.suffix else [".pdf", ".png"]
    return tuple(target.with_suffix(suffix) for suffix in suffixes)


def _bytes(figure: Figure, kind: str) -> bytes:
    """The figure as the bytes of a `pdf`, `png` or `svg` file that contains no date."""
    content = BytesIO()
    if kind == "png":
        palette_image(figure).save(content, format="png", optimize=True)
    else:
        date = {"pdf": "CreationDate", "svg": "Date"}[kind]
        figure.savefig(content, format=kind, metadata={date: None})
    return content.getvalue()


@contextmanager
def translate_warnings(figure: Figure) -> Iterator[None]:
    """Context manager that gives one warning for all characters that no font contains.

    Raises:
        InvalidInputError: if the figure has no room for its axes.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in caught]
    if any(message.startswith(_NO_ROOM) for message in messages):
        width, height = figure.get_size_inches()
        raise InvalidInputError(
            f"A picture of {width:.3g} by {height:.3g} inches has no room for its "
            "axes: choose a larger `width` or `height`, or a smaller `fontsize`."
        )
    _warn_of_characters(messages)
    for warning, message in zip(caught, messages, strict=True):
        if not _GLYPH.match(message):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def _warn_of_characters(messages: Sequence[str]) -> None:
    matches = [match for m in messages if (match := _GLYPH.match(m))]
    characters = "".join(sorted({chr(int(match[1])) for match in matches}))
    if characters:
        warnings.warn(
            f"No font contains {characters}, drawn as boxes. Install a font that has "
            "these characters, such as Noto Sans CJK.",
            stacklevel=4,
        )
