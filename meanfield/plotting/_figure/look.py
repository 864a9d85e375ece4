"""Options of pictures: size, style, axis limits, meaning of colours."""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

from .options import (
    Limits,
    camera_of,
    check_axes,
    check_limits,
    check_map,
    check_range,
    check_scale,
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

_COLUMN = 2.2  # minimum width in inches, at scale one, of pictures that share a row
_TEXT = 2.5  # height of the text of a figure at scale one, in inches
_SMALLEST, _WIDEST = 1.0, 40.0  # limits of a figure's width and height, in inches
# For each metric: the upper limit of the option `link`, and the unit of this limit.
_LINKS = {"cosine": (2.0, "of 1 - cosine")}
_SCALE_PANELS = ("clusters", "rank", "spectrum", "energy", "numbers")
_SWEEPS = ("phase", "lines")
_PLANES = ("tokens", "density", "merges", "inner-products", "balance", "disc")
_LIMIT_PANELS = (*_SCALE_PANELS, *_PLANES, *_SWEEPS)
_NO_MOVIES = ()


@document
@dataclass(frozen=True, kw_only=True)
class Look:
    """Appearance of a picture; options that are left out keep the panel's defaults.

    Sizes are in inches, limits in units of the data; `width_of`, `height_of`,
    `heads_of` and `limits_of` parse them from text.

    Raises:
        InvalidInputError: if a number is out of range, or limits do not increase.
        UnknownNameError: if the style or the colour map is unknown.

    Examples:
        >>> from meanfield.plotting import Look
        >>> Look(style="dark", width=3.4, relative=True).choices
        ['style', 'width', 'relative']
    """

    style: str = option(
        "paper, talk (larger), dark (light on dark) or dark-talk",
        "NAME",
        default="paper",
    )
    width: float | None = option(
        "width: 1 or 2 columns of a journal (86 and 178 mm), or a length: 120mm, 3.4in",
        "COLUMNS|LENGTH",
        read=width_of,
        movies=_NO_MOVIES,
    )
    height: float | None = option(
        "height, such as 100mm or 4in [default: in proportion to the width]",
        "LENGTH",
        read=height_of,
        movies=_NO_MOVIES,
    )
    fontsize: float | None = option(
        "size of labels; other text, lines and marks scale with it", "POINTS"
    )
    title: str | None = option(
        "title of the picture [default: a short description of the run]",
        "TEXT",
        negation_help="no title",
        negation_value="",
    )
    caption: bool = option(
        negation_help="no small print below the picture", default=True
    )
    xlim: Limits | None = option(
        "limits of the horizontal axis",
        "LOW,HIGH",
        read=partial(limits_of, "xlim"),
        panels=_LIMIT_PANELS,
    )
    ylim: Limits | None = option(
        "limits of the vertical axis, of the top row if there are several",
        "LOW,HIGH",
        read=partial(limits_of, "ylim"),
        panels=_LIMIT_PANELS,
    )
    xscale: str | None = option(
        "scale of the horizontal axis: linear or log [default: log if times are so]",
        "NAME",
        panels=_SCALE_PANELS,
        movies=_NO_MOVIES,
    )
    yscale: str | None = option(
        "scale of the vertical axis, of the top row if there are several: linear or "
        "log [default: log if values span decades]",
        "NAME",
        panels=_SCALE_PANELS,
        movies=_NO_MOVIES,
    )
    relative: bool = option(
        "shift the mean to 0 and scale the RMS radius to 1 in every frame",
        default=False,
        panels=("tokens", "clusters", "spectrum", "density"),
        movies=("tokens", "density"),
    )
    axes: str | None = option(
        "coordinates to draw, from 1, such as 1,3; or main, main:3: the two or three "
        "main axes of the flow",
        "LIST",
        panels=("tokens", "clusters", "rank", "spectrum", "cone", "disc", "simplex"),
        movies=("tokens", "cone", "disc"),
    )
    link: float | None = option(
        "distance within which tokens are linked into clusters, in RMS radii or as "
        "1 - cosine; also colours by cluster",
        "NUMBER",
        panels=("tokens", "clusters", "merges"),
        movies=("tokens",),
    )
    metric: str | None = option(
        "distance that defines clusters: euclidean, or cosine of the angle "
        "seen from 0 [default: euclidean; cosine on spheres]",
        "NAME",
        panels=("tokens", "clusters", "merges"),
        movies=("tokens",),
    )
    colour: str | None = option(
        "what colours show: for tokens start, cluster, label (words, or "
        "@FILE.npy), norm or position; for a sweep a number such as t_star (the "
        "blow-up time), clusters, trace or steps, or `ending` for the endings alone",
        "NAME",
        panels=("tokens", *_SWEEPS),
        movies=("tokens",),
    )
    cmap: str | None = option(
        "matplotlib colour map of colour scales, such as cividis or magma_r",
        "NAME",
        panels=(
            "tokens",
            "spectrum",
            "density",
            *_SWEEPS,
            "attention",
            "inner-products",
        ),
        movies=("tokens", "density"),
    )
    x: str | None = option(
        "axis of a sweep on the horizontal axis, or `time` if it observed numbers",
        "KEY",
        panels=("lines",),
        movies=_NO_MOVIES,
    )
    camera: Limits | None = option(
        "azimuth and elevation of the camera in 3D, in degrees [default: -58,20]",
        "AZIMUTH,ELEVATION",
        read=camera_of,
        panels=("tokens",),
        movies=_NO_MOVIES,
    )
    heads: tuple[int, ...] | None = option(
        "heads whose attention matrices are drawn, from 0, such as 0,3,7 "
        "[default: the first six]",
        "LIST",
        read=heads_of,
        panels=("attention",),
        movies=_NO_MOVIES,
    )
    query: str | None = option(
        "token whose attention alone is drawn, by head: a word of the text, or "
        "the number of a token, from 0",
        "TOKEN",
        panels=("attention",),
        movies=_NO_MOVIES,
    )

    def __post_init__(self) -> None:
        _ = styles[self.style]
        check_range("width", self.width, _SMALLEST, _WIDEST, "inches")
        check_range("height", self.height, _SMALLEST, _WIDEST, "inches")
        check_range("fontsize", self.fontsize, 3.0, 72.0, "points")
        max_link, unit = _LINKS.get(self.metric or "", (math.inf, "RMS radii"))
        check_range("link", self.link, 0.0, max_link, unit)
        check_scale("xscale", self.xscale)
        check_scale("yscale", self.yscale)
        check_limits("xlim", self.xlim)
        check_limits("ylim", self.ylim)
        check_axes(self.axes)
        if self.cmap is not None:
            check_map(self.cmap)

    @property
    def choices(self) -> list[str]:
        """The names of the options that differ from their defaults."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]

    def attach_to(self, dataset: "xr.Dataset") -> "xr.Dataset":
        """The dataset with this look, and with the title of the look if it has one."""
        title = {} if self.title is None else {"title": self.title}
        return dataset.assign_attrs(look=self, **title)

    @property
    def points(self) -> float:
        """The font size of labels, in points."""
        if self.fontsize is not None:
            return self.fontsize
        if self.width is None:
            return self._style.fontsize
        return self._style.narrow * max(self.width / self._style.narrow_to, 1.0)

    @property
    def scale(self) -> float:
        """The size of text, lines and marks relative to the default paper style."""
        return self.points / styles["paper"].fontsize

    @property
    def inks(self) -> dict[str, str]:
        """The colours that replace those of the paper style."""
        return dict(self._style.inks)

    @property
    def _style(self) -> Style:
        return styles[self.style]

    def size(self, width: float, height: float) -> tuple[float, float]:
        """The size in inches of a figure whose default size is `width` by `height`."""
        ratio = 1.0 if self.width is None else self.width / width
        if self.height is not None:
            return ratio * width, self.height
        if self.width is None:
            return width, height
        return self.width, height * ratio + _TEXT * max(self.scale - ratio, 0.0)

    def columns(self, max_columns: int) -> int:
        """The number of legible pictures in a row, at most `max_columns`."""
        if self.width is None:
            return max_columns
        return min(max(int(self.width / (_COLUMN * self.scale)), 1), max_columns)

    def zoom(self, width: float) -> float:
        """The factor by which a 3D drawing is scaled down to make room for its labels.

        Args:
            width: default width of the figure, in inches.
        """
        if self.width is None:
            return 1.0
        return min(self.width / width / self.scale, 1.0) ** 0.5

    def rc_context(self) -> AbstractContextManager[None]:
        """Context manager that sets matplotlib's defaults and the style of this look.

        The user's settings are restored afterwards.
        """
        return self._style.rc_context(self.scale)


OPTIONS = options_of(Look)
# `GENERAL` lists the options that every picture takes.
GENERAL = [name for name, field in OPTIONS.items() if field.option.panels is None]


def options_for(panel: str) -> tuple[str, ...]:
    """The options that a panel takes in addition to those of all panels."""
    panels = {name: field.option.panels or () for name, field in OPTIONS.items()}
    return tuple(name for name, takers in panels.items() if panel in takers)


def look_of(dataset: "xr.Dataset") -> Look:
    """The look stored in a dataset; the default look if there is none."""
    look = dataset.attrs.get("look")
    return look if isinstance(look, Look) else Look()
