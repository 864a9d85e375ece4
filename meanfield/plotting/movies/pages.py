"""Page layouts of movies: text above and below the picture, or in a side column."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import HANDLERS, Key, legend
from meanfield.plotting._figure.picture import (
    LEADING,
    Picture,
    annotate,
    caption_notes,
    letters_in,
    lines_of,
    points_of,
    titled_figure,
)
from meanfield.plotting._figure.style import PRINT

from .space_room import Extent, fill

_COLUMN = 2.4  # minimum width of a text column at scale one, in inches
_SHARE = 0.6  # minimum width of the picture, as a share of the page's width
_MARGIN = 0.14  # margin around the text column, in inches
_LINE = 1.1  # height reserved for the time, in lines of its own font size
_GAP = 0.7  # gap between parts of the text column, in lines
# Font sizes of the time and of the other notes, as multiples of `axes.titlesize`.
_LARGE, _MIDDLE = 2.0, 1.25
_NARROW = 1.15  # number of letters per line, relative to the estimate `letters_in`
_TEXT_WIDTH = 0.84  # share of the page's width that a headline may take
_ENTRY = 1.15  # height of a legend entry, in lines
_LEAST = 0.6  # legends and small print shrink at most by this factor
_FOOT = 0.16  # share of the page's height that a legend leaves for small print
_FLOOR = 0.02  # share of the page's height for the progress bar
_LIFT = 14.0  # points between headline and axes; leaves room for a power of ten
_SPACE_LIFT = -16.0  # `_LIFT` for 3D axes, whose upper corners are empty
_CLEAR = 0.01  # gap between 3D axes and small print, as a share of the page's height
_SEPARATOR = "     "  # text between the parts of a headline


def page_of(
    dataset: xr.Dataset, size: tuple[float, float]
) -> "StackedPage | ColumnPage":
    """A page of the given size, with the layout that leaves the picture the most room.

    Args:
        dataset: the run, with its title, look and spec.
        size: width and height in inches.
    """
    width, _ = size
    if width - _picture_width(size) >= _COLUMN * look_of(dataset).scale:
        return ColumnPage(dataset, size)
    return StackedPage(dataset, size)


class StackedPage:
    """A page with title, headline and legend above the picture, small print below."""

    def __init__(self, dataset: xr.Dataset, size: tuple[float, float]) -> None:
        self.figure = titled_figure(dataset, size)
        self._axes: Axes | None = None
        self._lines: list[str] = []
        self._lift, self._headline = 0.0, Text()
        self._corner = np.array([0.0, 1.0])  # headline's corner, in axes coordinates

    def write(self, axes: Axes, key: Key, headlines: Sequence[Sequence[str]]) -> None:
        """Write all static text, and reserve room for the headlines of all frames.

        Args:
            axes: the axes of the picture.
            key: the legend entries and small print of the picture.
            headlines: the parts of the headline of each frame.
        """
        handles = [*key.handles, *key.clusters]
        if handles:
            legend(axes, handles, len(handles))
        annotate(self.figure, "; ".join(filter(None, key.notes)))
        self._axes, self._lift = axes, _lift(axes)
        size = points_of(mpl.rcParams["axes.titlesize"])
        letters = _NARROW * letters_in(_TEXT_WIDTH * self.figure.get_figwidth(), size)
        self._lines = _headline_lines(headlines, letters)

    def write_headline(self, frame: int) -> None:
        """Write the headline of frame `frame`."""
        assert self._axes is not None
        x, y = self._corner
        self._headline = self._axes.set_title(
            self._lines[frame], loc="left", x=x, y=y, pad=self._lift
        )
        self._headline.set_y(y)  # needed because 3D axes lower the title

    def fill(self, axes: Axes3D, extent: Extent) -> None:
        """Enlarge the axes to fill the room between small print and the text above.

        Args:
            axes: the axes, on this page, after its layout is fixed.
            extent: returns the box that the axes occupy now, in pixels.
        """
        page, top_legend = self.figure.bbox, axes.get_legend()
        note = self.figure.get_supxlabel()
        notes = [t for t in self.figure.texts if note and t.get_text() == note]
        low = [text.get_window_extent().y1 for text in notes]
        floor = max(low, default=_FLOOR * page.height) + _CLEAR * page.height
        top = (top_legend or self._headline).get_window_extent().y0
        old_box = axes.bbox.frozen()
        fill(axes, Bbox([[page.x0, floor], [page.x1, top]]), extent)
        self._corner = axes.transAxes.inverted().transform((old_box.x0, old_box.y1))
        if top_legend is not None:
            middle = ((old_box.x0 + old_box.x1) / 2, old_box.y1)
            place = axes.transAxes.inverted().transform(middle)
            top_legend.set_bbox_to_anchor(tuple(place), axes.transAxes)


def _headline_lines(headlines: Sequence[Sequence[str]], letters: float) -> list[str]:
    """The headlines as text, all with the same line breaks if one is too long."""
    lines = [_SEPARATOR.join(parts) for parts in headlines]
    if max(map(len, lines)) <= letters:
        return lines
    first = max(min(map(len, headlines)) - 1, 1)
    rests = [_SEPARATOR.join(parts[first:]) for parts in headlines]
    if max(map(len, rests)) > letters:  # too long: each part gets its own line
        n_lines = max(map(len, headlines))
        return ["\n".join([*p, *[""] * (n_lines - len(p))]) for p in headlines]
    pairs = zip((_SEPARATOR.join(p[:first]) for p in headlines), rests, strict=True)
    return ["\n".join(pair) for pair in pairs]


def _lift(axes: Axes) -> float:
    """The distance in points from the axes to the headline, above a legend if any."""
    axes_legend, figure = axes.get_legend(), axes.get_figure(root=True)
    if axes_legend is None or figure is None:
        return _SPACE_LIFT if isinstance(axes, Axes3D) else _LIFT
    return _LIFT + 72 / figure.dpi * float(axes_legend.get_window_extent().height)


class ColumnPage:
    """A page with a picture of full height, and all text in a column beside it.

    The column has, from top to bottom, the title, the time in large type, the rest of
    the headline, the legend, and the small print.
    """

    def __init__(self, dataset: xr.Dataset, size: tuple[float, float]) -> None:
        self.figure = Picture(look_of(dataset), *size)
        width, height = size
        share = _picture_width(size) / width
        engine = self.figure.get_layout_engine()
        assert isinstance(engine, ConstrainedLayoutEngine)
        engine.set(rect=(0.0, _FLOOR, share, 1.0 - _FLOOR))
        self._left, self._top = share + _MARGIN / width, 1.0 - _MARGIN / height
        self._title = str(dataset.attrs.get("title") or "")
        self._said = caption_notes(dataset)
        self._lines: list[tuple[str, str]] = []
        self._time, self._rest = Text(), Text()

    def write(self, axes: Axes, key: Key, headlines: Sequence[Sequence[str]]) -> None:
        """Write all static text, and reserve room for the headlines of all frames.

        Args:
            axes: the axes of the picture.
            key: the legend entries and small print of the picture.
            headlines: the parts of the headline of each frame.
        """
        del axes  # all text stands beside them
        top = self._write_title(self._top)
        top = self._write_headlines(top, headlines)
        handles = [*key.handles, *key.clusters]
        if handles:
            top = self._write_legend(top, handles)
        self._write_small_print(top, [*self._said, *key.notes])

    def write_headline(self, frame: int) -> None:
        """Write the headline of frame `frame`."""
        time, rest = self._lines[frame]
        self._time.set_text(time)
        self._rest.set_text(rest)

    def fill(self, axes: Axes3D, extent: Extent) -> None:
        """Enlarge the axes to fill the room beside the column."""
        page, margin = self.figure.bbox, _MARGIN * self.figure.dpi
        corner = (self._left * page.width - margin, page.height - margin)
        fill(axes, Bbox([(margin, margin), corner]), extent)

    def _write_title(self, top: float) -> float:
        if not self._title:
            return top
        size = points_of(mpl.rcParams["figure.titlesize"])
        lines = self._wrap([self._title], size)
        text = self._text(top, "\n".join(lines), size)
        text.set_parse_math(False)
        return top - self._height(len(lines) + _GAP, size)

    def _write_headlines(self, top: float, headlines: Sequence[Sequence[str]]) -> float:
        """Reserve room for the time and for the longest headline below it."""
        plain = points_of(mpl.rcParams["axes.titlesize"])
        large, middle = _LARGE * plain, _MIDDLE * plain
        rests = [self._wrap(parts[1:], middle) for parts in headlines]
        self._lines = [
            (parts[0], "\n".join(rest))
            for parts, rest in zip(headlines, rests, strict=True)
        ]
        self._time = self._text(top, "", large)
        top -= self._height(_LINE, large)
        self._rest = self._text(top, "", middle)
        return top - self._height(max(map(len, rests)) + _GAP, middle)

    def _write_legend(self, top: float, handles: Sequence[Artist]) -> float:
        """Write the legend, smaller if it would leave no room for small print."""
        largest = points_of(mpl.rcParams["legend.fontsize"])
        height = self._height(_ENTRY * len(handles) + _GAP, largest)
        size = largest * float(np.clip((top - _FOOT) / height, _LEAST, 1.0))
        self.figure.legend(
            handles=handles,
            handler_map=HANDLERS,
            loc="upper left",
            fontsize=size,
            bbox_to_anchor=(self._left, top),
            borderaxespad=0.0,
            borderpad=0.0,
        )
        return top - self._height(_ENTRY * len(handles) + _GAP, size)

    def _write_small_print(self, top: float, notes: Sequence[str]) -> None:
        """Write the small print at the bottom, smaller if there is too little room."""
        if not self.figure.look.caption:
            return
        largest = points_of(mpl.rcParams["figure.labelsize"])
        sizes = [float(largest * share) for share in np.linspace(1.0, _LEAST, 5)]
        room = top - 2 * _FLOOR
        folds = [(size, self._wrap(notes, size)) for size in sizes]
        fits = (fold for fold in folds if self._height(len(fold[1]), fold[0]) <= room)
        size, lines = next(fits, folds[-1])
        text = self._text(2 * _FLOOR, "\n".join(lines), size)
        text.set(color=PRINT, va="bottom")

    def _text(self, top: float, content: str, size: float) -> Text:
        """Add to the column a text that can change without affecting the layout."""
        text = Text(self._left, top, content, va="top", fontsize=size)
        text.set(linespacing=LEADING, transform=self.figure.transFigure)
        self.figure.add_artist(text)
        return text

    def _wrap(self, parts: Sequence[str], size: float) -> list[str]:
        """The parts wrapped to the column's width; each part begins a new line."""
        room = self.figure.get_figwidth() * (1 - self._left) - _MARGIN
        letters = int(_NARROW * letters_in(room, size))
        return [line for part in parts for line in lines_of(part, letters)]

    def _height(self, lines: float | int, size: float) -> float:
        """The height of `lines` lines of `size` points, as a share of the page."""
        return LEADING * lines * size / 72 / self.figure.get_figheight()


def _picture_width(size: tuple[float, float]) -> float:
    """The width in inches of a picture with a column beside it."""
    width, height = size
    return max(height, _SHARE * width)
