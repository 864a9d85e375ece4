"""A figure that knows its look, and has room for its small print."""

import re
import textwrap
from io import BytesIO

import matplotlib as mpl
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from meanfield.plotting.reading.described import described

from .look import Look, look_of
from .style import PRINT

_LETTERS = 127.5  # of the small print in an inch, times its size in points
_LINES = 3  # of small print for which every figure has room
LEADING = 1.35  # of lines of small print, and of a column beside a picture
_FIRM = "\u00a0"  # a space at which no line ends
_TOGETHER = re.compile(r"\S+ = (\[\[.*?\]\]|\S+)( ± \S+)?|(\S+ )?from \S+ to \S+")


class Picture(Figure):
    """A figure in a look, whose ticks are drawn in it too.

    It shows itself in a notebook, whether or not pyplot was started.

    Args:
        look: its look.
        width: if its look chooses none, in inches.
        height: for this width; it grows or shrinks with it.
    """

    def __init__(self, look: Look, width: float, height: float) -> None:
        self.look, self._room = look, look.size(width, height)[1]
        super().__init__(figsize=look.size(width, height), layout="compressed")

    def make_room(self, lines: int) -> None:
        """Grow for so many lines of small print, if the width alone was chosen."""
        if self.look.width is not None and self.look.height is None:
            line = LEADING * points_of(mpl.rcParams["figure.labelsize"]) / 72
            self.set_figheight(self._room + max(lines - _LINES, 0) * line)

    def _repr_png_(self) -> bytes:
        pixels = BytesIO()
        with self.look.applied():
            self.savefig(pixels, format="png")
        return pixels.getvalue()


def titled_figure(dataset: xr.Dataset, size: tuple[float, float]) -> Picture:
    """An empty figure of `size` inches, with the dataset's title if it has one.

    What was run stands first in the small print, if the dataset says it, then the
    `remark` that it carries. Its look may choose another width.

    Examples:
        >>> import xarray as xr
        >>> from meanfield.plotting import titled_figure
        >>> run = xr.Dataset(attrs={"title": "softmax, A = -I"})
        >>> titled_figure(run, (4.0, 3.0)).get_suptitle()
        'softmax, A = -I'
    """
    figure = Picture(look_of(dataset), *size)
    title = str(dataset.attrs.get("title") or "")
    if title:
        figure.suptitle(_folded(title, figure), parse_math=False)
    annotate(figure, *said_of(dataset))
    return figure


def said_of(dataset: xr.Dataset) -> list[str]:
    """What small print says of a dataset first: what was run, and its `remark`."""
    return [described(dataset), str(dataset.attrs.get("remark") or "")]


def about(dataset: xr.Dataset, subject: str) -> xr.Dataset:
    """With a title that says what of the tokens is drawn, unless the look has one."""
    own = str(dataset.attrs.get("title") or "")
    if not own or look_of(dataset).title is not None:
        return dataset
    return dataset.assign_attrs(title=f"{own.removesuffix(': tokens')}: {subject}")


def _folded(title: str, figure: Picture) -> str:
    """A title in lines that the width holds, if one was chosen."""
    if figure.look.width is None:
        return title
    size = points_of(mpl.rcParams["figure.titlesize"])
    letters = letters_in(figure.look.width, size)
    return "\n".join(textwrap.wrap(title, letters))


def letters_in(width: float, size: float) -> int:
    """How many letters of a size in points stand in a line of so many inches."""
    return int(_LETTERS / size * width)


def points_of(size: float | str) -> float:
    """A size of text in points, which matplotlib may say in words, as `large`."""
    return FontProperties(size=size).get_size_in_points()


def annotate(figure: Figure, *notes: str) -> None:
    """Add small print under the figure, if it has any; empty notes are left out."""
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
    """A note in lines that end between phrases: `d = 2` and a matrix stay together."""
    whole = _TOGETHER.sub(lambda match: match[0].replace(" ", _FIRM), note)
    lines = textwrap.wrap(whole, letters, break_on_hyphens=False)
    return [line.replace(_FIRM, " ") for line in lines]
