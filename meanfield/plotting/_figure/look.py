"""What a reader may choose about a picture: its size, its style, what colours mean."""

import difflib
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

from meanfield.errors import UnknownNameError

from .options import (
    Limits,
    check_limits,
    check_range,
    document,
    heads_of,
    height_of,
    limits_of,
    option,
    options_of,
    width_of,
)
from .styles import Style, styles

if TYPE_CHECKING:
    import xarray as xr

_COLUMN = 2.2  # inches that a picture among others takes, in the text of paper
_TEXT = 2.5  # inches of the height of a figure that are text
_SMALLEST, _WIDEST = 1.0, 40.0  # inches
# What a `link` stays below, by the metric, and what it is measured in.
_LINKS = {"cosine": (2.0, "of 1 - cosine")}
_CURVES = ("clusters", "spectrum", "energy", "balance", "disc", "phase", "lines")
_IN_UNITS = ("tokens", "density", *_CURVES)
_STILL = ()


@document
@dataclass(frozen=True, kw_only=True)
class Look:
    """How a picture looks; what is left out is as the panel has it.

    Sizes are in inches, limits in units of the data; `width_of`, `height_of`,
    `heads_of` and `limits_of` read them from text.

    Raises:
        InvalidInputError: if a number is out of range, or limits do not increase.
        UnknownNameError: if there is no such style or colour map.

    Examples:
        >>> from meanfield.plotting import Look
        >>> Look(style="dark", width=3.4, relative=True).chosen
        ['style', 'width', 'relative']
    """

    style: str = option(
        "paper, talk (larger), dark (light on dark) or dark-talk",
        "NAME",
        default="paper",
    )
    width: float | None = option(
        "1 or 2, for columns of a journal (86 and 178 mm), or a length: 120mm, 3.4in",
        "COLUMNS|LENGTH",
        read=width_of,
        movies=_STILL,
    )
    height: float | None = option(
        "as 100mm or 4in; by default what suits the width",
        "LENGTH",
        read=height_of,
        movies=_STILL,
    )
    fontsize: float | None = option(
        "size of labels; other text, lines and marks keep their ratio", "POINTS"
    )
    title: str | None = option(
        "in place of what was run, in a few words",
        "TEXT",
        without="no title",
        absent="",
    )
    caption: bool = option(without="no small print below the picture", default=True)
    xlim: Limits | None = option(
        "limits of the horizontal axis",
        "LOW,HIGH",
        read=partial(limits_of, "xlim"),
        panels=_IN_UNITS,
    )
    ylim: Limits | None = option(
        "limits of the vertical axis, of the upper picture",
        "LOW,HIGH",
        read=partial(limits_of, "ylim"),
        panels=_IN_UNITS,
    )
    relative: bool = option(
        "take the mean out and make the RMS radius one, in every frame",
        default=False,
        panels=("tokens", "clusters", "spectrum", "density"),
        movies=("tokens", "density"),
    )
    link: float | None = option(
        "radius within which tokens are of one cluster, in RMS radii, or "
        "1 - cosine; colours by it",
        "NUMBER",
        panels=("tokens", "clusters"),
        movies=("tokens",),
    )
    metric: str | None = option(
        "in what tokens of one cluster are near: euclidean, or cosine, of "
        "their angles seen from 0 [default: euclidean]",
        "NAME",
        panels=("tokens", "clusters"),
        movies=("tokens",),
    )
    colour: str | None = option(
        "what colours mean: of tokens start, cluster, label (words, or "
        "@FILE.npy), norm or position; of a sweep a number such as t_star, "
        "clusters, trace or steps, or `ending` for none",
        "NAME",
        panels=("tokens", "phase", "lines"),
        movies=("tokens",),
    )
    cmap: str | None = option(
        "colour map of a scale, one of matplotlib's, as cividis or magma_r",
        "NAME",
        panels=("tokens", "spectrum", "density", "phase", "lines", "attention"),
        movies=("tokens", "density"),
    )
    x: str | None = option(
        "the axis of a sweep along which lines go",
        "KEY",
        panels=("lines",),
        movies=_STILL,
    )
    heads: tuple[int, ...] | None = option(
        "whose attention matrices are drawn, from 0, as 0,3,7 [default: the first]",
        "LIST",
        read=heads_of,
        panels=("attention",),
        movies=_STILL,
    )
    query: str | None = option(
        "a word of the text, or the number of a token from 0: draw its "
        "attention alone, by head",
        "TOKEN",
        panels=("attention",),
        movies=_STILL,
    )

    def __post_init__(self) -> None:
        _ = styles[self.style]
        check_range("width", self.width, _SMALLEST, _WIDEST, "inches")
        check_range("height", self.height, _SMALLEST, _WIDEST, "inches")
        check_range("fontsize", self.fontsize, 3.0, 72.0, "points")
        most, unit = _LINKS.get(self.metric or "", (math.inf, "RMS radii"))
        check_range("link", self.link, 0.0, most, unit)
        check_limits("xlim", self.xlim)
        check_limits("ylim", self.ylim)
        if self.cmap is not None:
            _check_map(self.cmap)

    @property
    def chosen(self) -> list[str]:
        """The names of what is not left to the panel."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]

    def upon(self, dataset: "xr.Dataset") -> "xr.Dataset":
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

    def applied(self) -> AbstractContextManager[None]:
        """This look over matplotlib's defaults, until the block ends.

        The user's own settings are put back afterwards.
        """
        return self._style.applied(self.scale)


OPTIONS = options_of(Look)
# What every picture takes.
GENERAL = [name for name, field in OPTIONS.items() if field.option.panels is None]


def options_for(panel: str) -> tuple[str, ...]:
    """The options that a picture takes beside those of every picture."""
    panels = {name: field.option.panels or () for name, field in OPTIONS.items()}
    return tuple(name for name, takers in panels.items() if panel in takers)


def look_of(dataset: "xr.Dataset") -> Look:
    """The look that a dataset carries; that of paper if it has none."""
    look = dataset.attrs.get("look")
    return look if isinstance(look, Look) else Look()


def _check_map(name: str) -> None:
    """Raises unless matplotlib has the colour map, naming those most like it."""
    from matplotlib import colormaps  # the help of commands needs none

    if name in colormaps:
        return
    near = difflib.get_close_matches(name.casefold(), list(colormaps), n=4, cutoff=0.5)
    hint = " or ".join(f"`{other}`" for other in near) or "viridis, cividis or magma"
    raise UnknownNameError(f"There is no colour map `{name}`; take one such as {hint}.")
