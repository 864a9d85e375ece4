"""Figures with a look, a title and small print."""

import re
import textwrap
from io import BytesIO

import matplotlib as mpl
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from meanfield.plotting.reading.description import description

from .look import Look, look_of
from .style import PRINT

_LETTERS = 127.5  # number of letters per inch, multiplied by the font size in points
_LINES = 3  # number of lines of small print for which every figure has room
LEADING = 1.35  # line spacing of small print and of text beside a movie
_NBSP = "\u00a0"  # no-break space
_PHRASE = re.compile(r"\S+ = (\[\[.*?\]\]|\S+)( ± \S+)?|(\S+ )?from \S+ to \S+")


class Picture(Figure):
    """A figure with a look; the look also applies when a notebook displays the figure.

    Notebooks display it whether or not pyplot was imported.

    Args:
        look: its look.
        width: default width in inches, if the look sets none.
        height: height in inches at the default width; it scales with the width.
    """

    def __init__(self, look: Look, width: float, height: float) -> None:
        self.look, self._room = look, look.size(width, height)[1]
        super().__init__(figsize=look.size(width, height), layout="compressed")

    def make_room(self, lines: int) -> None:
        """Make room for `lines` lines of small print, if the look sets only `width`."""
        if self.look.width is not None and self.look.height is None:
            line = LEADING * points_of(mpl.rcParams["figure.labelsize"]) / 72
            self.set_figheight(self._room + max(lines - _LINES, 0) * line)

    def _repr_png_(self) -> bytes:
        pixels = BytesIO()
        with self.look.rc_context():
            self.savefig(pixels, format="png")
        return pixels.getvalue()


def titled_figure(
    dataset: xr.Dataset, size: tuple[float, float], subject: str = ""
) -> Picture:
    """An empty figure of `size` inches, with the dataset's title if it has one.

    The small print begins with a description of the run, if the dataset has a spec, and
    the dataset's `remark`. The look may change the size, and its title, if it has one,
    replaces the dataset's title and the `subject` that follows it.

    Examples:
        >>> import xarray as xr
        >>> from meanfield.plotting import titled_figure
        >>> run = xr.Dataset(attrs={"title": "softmax, A = -I"})
        >>> titled_figure(run, (4.0, 3.0)).get_suptitle()
        'softmax, A = -I'
    """
    dataset = add_subject(dataset, subject) if subject else dataset
    figure = Picture(look_of(dataset), *size)
    title = str(dataset.attrs.get("title") or "")
    if title:
        figure.suptitle(_wrap_title(title, figure), parse_math=False)
    annotate(figure, *caption_notes(dataset))
    return figure


def caption_notes(dataset: xr.Dataset) -> list[str]:
    """The first notes of the small print: the run's description and `remark`."""
    return [description(dataset), str(dataset.attrs.get("remark") or "")]


def add_subject(dataset: xr.Dataset, subject: str) -> xr.Dataset:
    """The dataset with `subject` appended to its title, unless the look has a title."""
    title = str(dataset.attrs.get("title") or "")
    if not title or look_of(dataset).title is not None:
        return dataset
    return dataset.assign_attrs(title=f"{title.removesuffix(': tokens')}: {subject}")


def _wrap_title(title: str, figure: Picture) -> str:
    """A title, wrapped to the width of the figure if the look sets a width."""
    if figure.look.width is None:
        return title
    size = points_of(mpl.rcParams["figure.titlesize"])
    letters = letters_in(figure.look.width, size)
    return "\n".join(textwrap.wrap(title, letters))


def letters_in(width: float, size: float) -> int:
    """The number of letters of `size` points in a line of `width` inches."""
    return int(_LETTERS / size * width)


def points_of(size: float | str) -> float:
    """A font size in points, from a number or a matplotlib size such as `large`."""
    return FontProperties(size=size).get_size_in_points()


def annotate(figure: Figure, *notes: str) -> None:
    """Add notes to the small print under a figure; empty notes are left out."""
    if isinstance(figure, Picture) and not figure.look.caption:
        return
    size = points_of(mpl.rcParams["figure.labelsize"])
    letters = letters_in(figure.get_figwidth(), size)
    lines = [line for note in notes for line in lines_of(note, letters)]
    if lines:
        text = "\n".join([*filter(None, [figure.get_supxlabel()]), *lines])
        figure.supxlabel(text, color=PRINT, linespacing=LEADING)
        if isinstance(figure, Picture):
            figure.make_room(text.count("\n") + 1)


def lines_of(note: str, letters: int) -> list[str]:
    """A note wrapped into lines that do not break phrases such as `d = 2`."""
    whole = _PHRASE.sub(lambda match: match[0].replace(" ", _NBSP), note)
    lines = textwrap.wrap(whole, letters, break_on_hyphens=False)
    return [line.replace(_NBSP, " ") for line in lines]
