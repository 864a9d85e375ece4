"""Where words stand about a picture that moves: around it, or beside it where wide."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from mpl_toolkits.mplot3d.axes3d import Axes3D
from typing_extensions import override

from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import HANDLERS, Key, legend
from meanfield.plotting._figure.picture import (
    LEADING,
    Picture,
    annotate,
    letters_in,
    lines_of,
    points_of,
    said_of,
    titled_figure,
)
from meanfield.plotting._figure.style import PRINT

from .space_room import Extent, fill

_COLUMN = 2.4  # inches of text beside a picture at least, in the size of paper
_SHARE = 0.6  # of the width, which a picture has at least
_MARGIN = 0.14  # inches about it
_LINE = 1.1  # lines that the time takes
_GAP = 0.7  # of a line, between its parts
_LARGE, _MIDDLE = 2.0, 1.25  # of the headline: its time, and the rest
_NARROW = 1.15  # letters in a line, over those of small print in lines of its own
_INDENTED = 0.84  # of the width of a page, from where axes begin at the latest
_ENTRY = 1.15  # lines that an entry of the legend takes
_LEAST = 0.6  # of its size, to which small print shrinks that has too little room
_FOOT = 0.16  # of the height, which a legend leaves to small print
_FLOOR = 0.02  # of the height, below which the progress is
_LIFT = 14.0  # points of a headline above the axes, whose power of ten is below it
_SUNK = -16.0  # of a headline over axes in space, whose upper corners are empty
_CLEAR = 0.01  # of the height, between axes in space and small print
_APART = "     "  # between the parts of a headline


class AbstractPage(ABC):
    """A figure with room for a picture, and for the words about it."""

    @property
    @abstractmethod
    def figure(self) -> Figure:
        """The figure, which one adds axes to."""

    @abstractmethod
    def write(self, axes: Axes, key: Key, headlines: Sequence[Sequence[str]]) -> None:
        """Write all that stands still, and make room for the headlines of all frames.

        Args:
            axes: the picture.
            key: entries of its legend, and its small print.
            headlines: their parts, for each frame.
        """

    @abstractmethod
    def say(self, frame: int) -> None:
        """Write the headline of a frame."""

    @abstractmethod
    def fill(self, axes: Axes3D, extent: Extent) -> None:
        """Draw laid out axes in space as large as the page holds.

        Args:
            axes: on this page.
            extent: what they take now, in pixels.
        """


def page_of(dataset: xr.Dataset, size: tuple[float, float]) -> AbstractPage:
    """The page of so many inches on which a picture is largest.

    Args:
        dataset: whose title, look and spec it has.
        size: in inches.
    """
    width, _ = size
    if width - _picture_width(size) >= _COLUMN * look_of(dataset).scale:
        return Beside(dataset, size)
    return Around(dataset, size)


class Around(AbstractPage):
    """The title, headlines and the legend above the picture, small print below it."""

    def __init__(self, dataset: xr.Dataset, size: tuple[float, float]) -> None:
        self._figure = titled_figure(dataset, size)
        self._axes: Axes | None = None
        self._lines: list[str] = []
        self._lift, self._headline = 0.0, Text()
        self._corner = np.array([0.0, 1.0])  # of the axes, where headlines begin

    @property
    @override
    def figure(self) -> Figure:
        return self._figure

    @override
    def write(self, axes: Axes, key: Key, headlines: Sequence[Sequence[str]]) -> None:
        handles = [*key.handles, *key.clusters]
        if handles:
            legend(axes, handles, len(handles))
        annotate(self._figure, "; ".join(filter(None, key.notes)))
        self._axes, self._lift = axes, _lift(axes)
        size = points_of(mpl.rcParams["axes.titlesize"])
        letters = _NARROW * letters_in(_INDENTED * self._figure.get_figwidth(), size)
        self._lines = _in_lines(headlines, letters)

    @override
    def say(self, frame: int) -> None:
        assert self._axes is not None
        x, y = self._corner
        self._headline = self._axes.set_title(
            self._lines[frame], loc="left", x=x, y=y, pad=self._lift
        )
        self._headline.set_y(y)  # axes in space lower it

    @override
    def fill(self, axes: Axes3D, extent: Extent) -> None:
        """Draw them between the small print and what is above, which stays."""
        page, above = self._figure.bbox, axes.get_legend()
        low = [text.get_window_extent().y1 for text in self._small_print()]
        floor = max(low, default=_FLOOR * page.height) + _CLEAR * page.height
        top = (above or self._headline).get_window_extent().y0
        before = axes.bbox.frozen()
        fill(axes, Bbox([[page.x0, floor], [page.x1, top]]), extent)
        self._corner = axes.transAxes.inverted().transform((before.x0, before.y1))
        if above is not None:
            middle = ((before.x0 + before.x1) / 2, before.y1)
            place = axes.transAxes.inverted().transform(middle)
            above.set_bbox_to_anchor(tuple(place), axes.transAxes)

    def _small_print(self) -> list[Text]:
        words = self._figure.get_supxlabel()
        return [t for t in self._figure.texts if words and t.get_text() == words]


def _in_lines(headlines: Sequence[Sequence[str]], letters: float) -> list[str]:
    """Headlines in one line each; in more, all in the same way, if one is too long."""
    lines = [_APART.join(parts) for parts in headlines]
    if max(map(len, lines)) <= letters:
        return lines
    first = max(min(map(len, headlines)) - 1, 1)
    rests = [_APART.join(parts[first:]) for parts in headlines]
    if max(map(len, rests)) > letters:  # each part has a line of its own
        most = max(map(len, headlines))
        return ["\n".join([*p, *[""] * (most - len(p))]) for p in headlines]
    pairs = zip((_APART.join(p[:first]) for p in headlines), rests, strict=True)
    return ["\n".join(pair) for pair in pairs]


def _lift(axes: Axes) -> float:
    """How high the headline stands above the axes, in points: over any legend."""
    above, figure = axes.get_legend(), axes.get_figure(root=True)
    if above is None or figure is None:
        return _SUNK if isinstance(axes, Axes3D) else _LIFT
    return _LIFT + 72 / figure.dpi * float(above.get_window_extent().height)


class Beside(AbstractPage):
    """The picture as high as the page, and all words in a column beside it.

    From above the title, the time, large, with what else the headline says, and the
    legend; small print stands at the foot.
    """

    def __init__(self, dataset: xr.Dataset, size: tuple[float, float]) -> None:
        self._figure = Picture(look_of(dataset), *size)
        width, height = size
        share = _picture_width(size) / width
        engine = self._figure.get_layout_engine()
        assert isinstance(engine, ConstrainedLayoutEngine)
        engine.set(rect=(0.0, _FLOOR, share, 1.0 - _FLOOR))
        self._left, self._top = share + _MARGIN / width, 1.0 - _MARGIN / height
        self._title = str(dataset.attrs.get("title") or "")
        self._said = said_of(dataset)
        self._lines: list[tuple[str, str]] = []
        self._time, self._rest = Text(), Text()

    @property
    @override
    def figure(self) -> Figure:
        return self._figure

    @override
    def write(self, axes: Axes, key: Key, headlines: Sequence[Sequence[str]]) -> None:
        above = self._write_title(self._top)
        above = self._write_headlines(above, headlines)
        handles = [*key.handles, *key.clusters]
        if handles:
            above = self._write_legend(above, handles)
        self._write_small_print(above, [*self._said, *key.notes])

    @override
    def say(self, frame: int) -> None:
        time, rest = self._lines[frame]
        self._time.set_text(time)
        self._rest.set_text(rest)

    @override
    def fill(self, axes: Axes3D, extent: Extent) -> None:
        """Draw them in the room beside the column."""
        page, margin = self._figure.bbox, _MARGIN * self._figure.dpi
        corner = (self._left * page.width - margin, page.height - margin)
        fill(axes, Bbox([(margin, margin), corner]), extent)

    def _write_title(self, above: float) -> float:
        if not self._title:
            return above
        size = points_of(mpl.rcParams["figure.titlesize"])
        lines = self._folded([self._title], size)
        text = self._text(above, "\n".join(lines), size)
        text.set_parse_math(False)
        return above - self._height(len(lines) + _GAP, size)

    def _write_headlines(
        self, above: float, headlines: Sequence[Sequence[str]]
    ) -> float:
        """Make room for the time, and as many lines below it as any frame has."""
        plain = points_of(mpl.rcParams["axes.titlesize"])
        large, middle = _LARGE * plain, _MIDDLE * plain
        rests = [self._folded(parts[1:], middle) for parts in headlines]
        self._lines = [
            (parts[0], "\n".join(rest))
            for parts, rest in zip(headlines, rests, strict=True)
        ]
        self._time = self._text(above, "", large)
        above -= self._height(_LINE, large)
        self._rest = self._text(above, "", middle)
        return above - self._height(max(map(len, rests)) + _GAP, middle)

    def _write_legend(self, above: float, handles: Sequence[Artist]) -> float:
        """Write it; smaller where it would leave no room for small print."""
        largest = points_of(mpl.rcParams["legend.fontsize"])
        needed = self._height(_ENTRY * len(handles) + _GAP, largest)
        size = largest * float(np.clip((above - _FOOT) / needed, _LEAST, 1.0))
        self._figure.legend(
            handles=handles,
            handler_map=HANDLERS,
            loc="upper left",
            fontsize=size,
            bbox_to_anchor=(self._left, above),
            borderaxespad=0.0,
            borderpad=0.0,
        )
        return above - self._height(_ENTRY * len(handles) + _GAP, size)

    def _write_small_print(self, above: float, notes: Sequence[str]) -> None:
        """Write it at the foot; smaller where it would reach what stands above it."""
        if not self._figure.look.caption:
            return
        largest = points_of(mpl.rcParams["figure.labelsize"])
        sizes = [float(largest * share) for share in np.linspace(1.0, _LEAST, 5)]
        room = above - 2 * _FLOOR
        folds = [(size, self._folded(notes, size)) for size in sizes]
        fits = (fold for fold in folds if self._height(len(fold[1]), fold[0]) <= room)
        size, lines = next(fits, folds[-1])
        text = self._text(2 * _FLOOR, "\n".join(lines), size)
        text.set(color=PRINT, va="bottom")

    def _text(self, above: float, words: str, size: float) -> Text:
        """Words in the column; they may change, and are no part of the layout."""
        text = Text(self._left, above, words, va="top", fontsize=size)
        text.set(linespacing=LEADING, transform=self._figure.transFigure)
        self._figure.add_artist(text)
        return text

    def _folded(self, parts: Sequence[str], size: float) -> list[str]:
        """Parts in lines that the column holds, each on lines of its own."""
        room = self._figure.get_figwidth() * (1 - self._left) - _MARGIN
        letters = int(_NARROW * letters_in(room, size))
        return [line for part in parts for line in lines_of(part, letters)]

    def _height(self, lines: float | int, size: float) -> float:
        """The share of the page that lines of a size take."""
        return LEADING * lines * size / 72 / self._figure.get_figheight()


def _picture_width(size: tuple[float, float]) -> float:
    """The width of a picture with a column beside it, in inches."""
    width, height = size
    return max(height, _SHARE * width)
