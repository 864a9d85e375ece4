"""What a reader may choose about a picture: its size, its style, what colours mean."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr

from meanfield.errors import InvalidInputError

from .styles import Style, styles

COLUMNS = {"1": 86.0, "2": 178.0}  # widths of journals, in millimetres
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
_COLUMN = 2.2  # inches that a picture among others takes, in the text of paper
_TEXT = 2.5  # inches of the height of a figure that are text
_SMALLEST, _WIDEST = 1.0, 40.0  # inches
# What every picture takes; the rest is for those that name it.
GENERAL = ("style", "width", "height", "fontsize", "title", "caption")
# Text and ticks follow the size of labels; lines and marks are repainted.
_SIZES = (
    "font.size",
    "figure.titlesize",
    "figure.labelsize",
    "axes.labelsize",
    "axes.titlesize",
    "xtick.labelsize",
    "ytick.labelsize",
    "legend.fontsize",
    "xtick.major.size",
    "xtick.major.width",
    "xtick.minor.size",
    "ytick.major.size",
    "ytick.major.width",
    "ytick.minor.size",
)

# What a `link` stays below, by the metric, and what it is measured in.
_LINKS = {"cosine": (2.0, "of 1 - cosine")}

Limits = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a picture looks; what is left out is as the panel has it.

    Attributes:
        style: a name of `styles`: `paper`, `talk`, `dark` or `dark-talk`.
        width: of the picture, in inches; see `width_of`.
        height: of the picture, in inches; else what suits its width.
        fontsize: of its labels, in points; else what suits the style and the width.
        title: in place of that of the dataset; none if it is empty.
        caption: whether small print below says what was run, and how it ended.
        xlim: limits of the horizontal axis, in units of the data.
        ylim: limits of the vertical axis, of the upper picture if there are several.
        relative: whether the mean is taken out and the RMS radius made one.
        link: the radius within which tokens are of one cluster, in RMS radii; or the
            most that the cosine of their angle is below one.
        metric: in what tokens of one cluster are near; `euclidean` if it is left out.
        colour: what colours mean; for a sweep, one of its numbers.
        x: the axis of a sweep along which lines go.
        heads: those whose attention matrices are drawn, by their numbers from zero.
        query: the one token whose weights are drawn, by its word or its number.

    Raises:
        InvalidInputError: if a number is out of range, or limits do not increase.
        UnknownNameError: if there is no such style.

    Examples:
        >>> from meanfield.plotting import Look
        >>> Look(style="dark", width=3.4, relative=True).chosen
        ['style', 'width', 'relative']
    """

    style: str = "paper"
    width: float | None = None
    height: float | None = None
    fontsize: float | None = None
    title: str | None = None
    caption: bool = True
    xlim: Limits | None = None
    ylim: Limits | None = None
    relative: bool = False
    link: float | None = None
    metric: str | None = None
    colour: str | None = None
    x: str | None = None
    heads: tuple[int, ...] | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        _ = styles[self.style]
        _check("width", self.width, _SMALLEST, _WIDEST, "inches")
        _check("height", self.height, _SMALLEST, _WIDEST, "inches")
        _check("fontsize", self.fontsize, 3.0, 72.0, "points")
        most, unit = _LINKS.get(self.metric or "", (np.inf, "RMS radii"))
        _check("link", self.link, 0.0, most, unit)
        for name in ("xlim", "ylim"):
            limits = getattr(self, name)
            if limits is not None and not (
                np.isfinite(limits).all() and limits[0] < limits[1]
            ):
                raise InvalidInputError(
                    f"`{name}` must be two numbers that increase, as 0,2.5; got "
                    f"{','.join(f'{limit:g}' for limit in limits)}."
                )

    @property
    def chosen(self) -> list[str]:
        """The names of what is not left to the panel."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]

    def refuse_beyond(self, takes: Collection[str], panel: str, where: str) -> None:
        """Refuse what the panel does not take, and say `where` it is taken.

        Raises:
            InvalidInputError: if something is chosen beyond `takes` and `GENERAL`.
        """
        idle = [n for n in self.chosen if n not in takes and n not in GENERAL]
        if idle:
            raise InvalidInputError(
                f"`{idle[0]}` does nothing in the panel `{panel}`; {where}."
            )

    def upon(self, dataset: xr.Dataset) -> xr.Dataset:
        """The dataset with this look, and with the title that it chooses."""
        title = {} if self.title is None else {"title": self.title}
        return dataset.assign_attrs(look=self, **title)

    @property
    def points(self) -> float:
        """The size of labels, in points."""
        if self.fontsize is not None:
            return self.fontsize
        if self.width is None:
            return self._style.fontsize
        return self._style.narrow * max(self.width / self._style.narrow_to, 1.0)

    @property
    def scale(self) -> float:
        """The size of text, lines and marks, over that on paper."""
        return self.points / styles["paper"].fontsize

    @property
    def inks(self) -> dict[str, str]:
        """Colours in place of those on paper."""
        return dict(self._style.inks)

    @property
    def _style(self) -> Style:
        return styles[self.style]

    def size(self, width: float, height: float) -> tuple[float, float]:
        """The size of a figure that is so large if nothing is chosen, in inches."""
        ratio = 1.0 if self.width is None else self.width / width
        if self.height is not None:
            return ratio * width, self.height
        if self.width is None:
            return width, height
        return self.width, height * ratio + _TEXT * max(self.scale - ratio, 0.0)

    def columns(self, most: int) -> int:
        """How many pictures stand side by side, up to a number, and can be read."""
        if self.width is None:
            return most
        return min(max(int(self.width / (_COLUMN * self.scale)), 1), most)

    def zoom(self, width: float) -> float:
        """How much smaller a drawing in space is, so that its labels have room.

        Args:
            width: of the figure if nothing is chosen, in inches.
        """
        if self.width is None:
            return 1.0
        return min(self.width / width / self.scale, 1.0) ** 0.5

    @contextmanager
    def applied(self) -> Iterator[None]:
        """This look over matplotlib's defaults, until the block ends.

        The user's own settings are put back afterwards.
        """
        settings: dict[Any, Any] = {**self._style.settings}
        file = Path(__file__).with_name("meanfield.mplstyle")
        with mpl.rc_context(settings, fname=file):
            mpl.rcParams.update({k: self.scale * mpl.rcParams[k] for k in _SIZES})
            yield


def look_of(dataset: xr.Dataset) -> Look:
    """The look that a dataset carries; that of paper if it has none."""
    look = dataset.attrs.get("look")
    return look if isinstance(look, Look) else Look()


def width_of(text: str) -> float:
    """A width in inches, from `1` or `2` columns of a journal, or a length as `85mm`.

    Raises:
        InvalidInputError: if it is neither.

    Examples:
        >>> from meanfield.plotting import width_of
        >>> round(width_of("1"), 2), width_of("254mm")
        (3.39, 10.0)
    """
    if text.strip() in COLUMNS:
        return COLUMNS[text.strip()] * _INCHES["mm"]
    length = _length(text)
    if length is None:
        raise InvalidInputError(
            f"`width` must be 1 or 2, for columns of a journal ({COLUMNS['1']:.0f} and "
            f"{COLUMNS['2']:.0f} mm), or a length such as 85mm, 8.5cm, 3.4in or 240pt; "
            f"got `{text}`."
        )
    return length


def height_of(text: str) -> float:
    """A height in inches, from a length as `85mm`.

    Raises:
        InvalidInputError: if it is none.

    Examples:
        >>> from meanfield.plotting import height_of
        >>> height_of("254mm")
        10.0
    """
    length = _length(text)
    if length is None:
        raise InvalidInputError(
            "`height` must be a length such as 85mm, 8.5cm, 3.4in or 240pt; got "
            f"`{text}`."
        )
    return length


def heads_of(text: str) -> tuple[int, ...]:
    """The numbers of heads, from `0,3,7` or `[0,3,7]`; each stands once.

    Raises:
        InvalidInputError: if they are no numbers from zero on.

    Examples:
        >>> from meanfield.plotting import heads_of
        >>> heads_of("0,3,7")
        (0, 3, 7)
    """
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InvalidInputError(
            f"`heads` must be numbers from 0 on, as 0,3,7; got `{text}`."
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def _length(text: str) -> float | None:
    """A length in inches; `None` if it is none."""
    number = re.fullmatch(r"([\d.]+)\s*(in|cm|mm|pt)", text.strip())
    if number is None:
        return None
    try:
        return float(number[1]) * _INCHES[number[2]]
    except ValueError:
        return None


def limits_of(name: str, text: str) -> Limits:
    """Two limits, from `0,2.5`.

    Raises:
        InvalidInputError: if they are not two numbers.

    Examples:
        >>> from meanfield.plotting import limits_of
        >>> limits_of("xlim", "0,2.5")
        (0.0, 2.5)
    """
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"`{name}` must be two numbers, as 0,2.5; got `{text}`."
        ) from None
    return low, high


def _check(name: str, value: float | None, low: float, high: float, unit: str) -> None:
    if value is not None and not low < value < high:
        raise InvalidInputError(
            f"`{name}` must be above {low:g} and below {high:g} {unit}; got {value:g}."
        )
