"""Legends and their entries, colour bars, and the `Key` returned by drawings."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.legend import Legend
from matplotlib.legend_handler import HandlerBase
from matplotlib.lines import Line2D
from matplotlib.transforms import Transform
from matplotlib.typing import LineStyleType
from typing_extensions import override

from .style import CLOSURE_COLOUR, GREY

# Widths of a mark and of a letter, as multiples of the font size.
_MARK, _LETTER = 3.5, 0.45
# A legend is at most `_PAGE` times as wide as the page. It is centred over the axes,
# which a colour bar pushes aside, so it cannot use the full width.
_PAGE = 0.88
# Distance of a legend from the axes, as a multiple of the font size, and the additional
# distance if the tick labels share a power of ten, which is written above the axes.
_PAD, _POWER = 0.5, 1.1
_WIDE = 1.4  # least ratio of width and height of a page with a legend on the right
_SHADES = 3  # number of dots that represent a colour scale in a legend


class Key(NamedTuple):
    """Explanation of a drawing: legend entries, a colour scale, small print.

    `clusters` holds further legend entries that apply to one run only.
    """

    handles: Sequence[Artist]
    scale: ScalarMappable | None
    label: str
    notes: list[str]
    clusters: Sequence[Artist] = ()


def entry(label: str, colour: str, **style: Any) -> Line2D:
    """The legend entry of a curve."""
    return Line2D([], [], color=colour, label=label, **style)


def dot_entry(label: str, colour: str, **style: Any) -> Line2D:
    """The legend entry of dots."""
    return entry(label, colour, linestyle="", **{"marker": "o", **style})


def end_entry(faces: np.ndarray) -> Line2D:
    """The legend entry of end points, with one or two of the given colours (n, 4)."""
    second_face = faces[np.argmax(np.abs(faces - faces[0]).sum(axis=1))]
    face, half = to_hex(faces[0]), to_hex(second_face)
    style = "full" if face == half else "left"
    halves = {"markerfacecoloralt": half, "fillstyle": style}
    return dot_entry("end", face, markeredgewidth=0.0, **halves)


def ellipse_entry(colour: str) -> Line2D:
    """The legend entry of ellipses at several times, in the colour of the last one."""
    return entry("2σ, at several times", colour, linewidth=1.2)


def line_entry(label: str, colour: str, pattern: LineStyleType = "-") -> Line2D:
    """The legend entry of a curve in a movie, such as an ellipse."""
    return entry(label, colour, linewidth=1.4, linestyle=pattern)


START = dot_entry("start", GREY, markerfacecolor="white")
CLOSURE = line_entry("2σ, Gaussian closure", CLOSURE_COLOUR, (0.0, (4.0, 2.0)))


def named_entry(label: str, colour: str) -> Line2D:
    """The legend entry of a curve that users named.

    matplotlib leaves out labels that begin with an underscore.
    """
    return entry(f" {label}" if label.startswith("_") else label, colour)


class Shades(Line2D):
    """The legend entry of a colour scale: dots of colours from low to high."""

    def __init__(self, scale: ScalarMappable, label: str) -> None:
        super().__init__([], [], marker="o", linestyle="", label=label)
        low, high = scale.get_clim()
        assert low is not None
        assert high is not None
        self.shades = scale.to_rgba(np.linspace(low, high, _SHADES))


class _ShadesHandler(HandlerBase):
    """Legend handler that draws the dots of `Shades` side by side."""

    @override
    def create_artists(
        self,
        legend: Legend,
        orig_handle: Artist,
        xdescent: float,
        ydescent: float,
        width: float,
        height: float,
        fontsize: float,
        trans: Transform,
    ) -> Sequence[Artist]:
        assert isinstance(orig_handle, Shades)
        places = np.linspace(0.15, 0.85, _SHADES) * width - xdescent
        level = height / 2 - ydescent
        return [
            Line2D([x], [level], marker="o", markersize=4, color=shade, transform=trans)
            for x, shade in zip(places, orig_handle.shades, strict=True)
        ]


HANDLERS = {Shades: _ShadesHandler()}


def square_legend(axes: Axes, handles: Sequence[Artist], columns: int) -> None:
    """Add a legend above square axes, or on the right of a wide page (a slide)."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    if figure.get_figwidth() <= _WIDE * figure.get_figheight():
        legend(axes, handles, columns)
        return
    options = {"handler_map": HANDLERS, "frameon": False}
    figure.legend(handles=list(handles), loc="outside right center", **options)


def legend(axes: Axes, handles: Sequence[Artist], columns: int) -> None:
    """Add a legend above the axes, where it covers no data; rows are filled first."""
    columns = legend_columns(axes, handles, columns)
    column_order = [handle for i in range(columns) for handle in handles[i::columns]]
    axes.legend(
        handles=column_order,
        handler_map=HANDLERS,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        borderaxespad=_PAD + (_POWER if _has_power(axes) else 0.0),
        ncols=columns,
        columnspacing=1.4,
        handletextpad=0.5,
    )


def _has_power(axes: Axes) -> bool:
    """Whether the ticks share a power of ten, written above the vertical axis."""
    formatter = axes.yaxis.get_major_formatter()
    formatter.set_locs(list(axes.yaxis.get_majorticklocs()))
    return bool(formatter.get_offset())


def legend_columns(axes: Axes, handles: Sequence[Artist], max_columns: int) -> int:
    """The largest number of columns, up to `max_columns`, that fits on the page."""
    figure, size = axes.get_figure(root=True), mpl.rcParams["legend.fontsize"]
    assert figure is not None
    wide = [_MARK + _LETTER * len(str(handle.get_label())) for handle in handles]
    for columns in range(max_columns, 1, -1):
        total = sum(max(wide[i::columns], default=0.0) for i in range(columns))
        if size * total <= _PAGE * 72 * figure.get_figwidth():
            return columns
    return 1


def legend_row(figure: Figure, cell: SubplotSpec, handles: Sequence[Artist]) -> None:
    """Add a legend in a cell of its own, above pictures that share it."""
    top = figure.add_subplot(cell)
    top.axis("off")
    columns = legend_columns(top, handles, len(handles))
    top.legend(handles=handles, loc="center", ncols=columns)


def colour_bar(
    axes: Axes | Sequence[Axes], scale: ScalarMappable, label: str, **how: Any
) -> Colorbar:
    """Add a frameless colour bar beside one or several axes."""
    first = axes if isinstance(axes, Axes) else axes[0]
    figure = first.get_figure(root=True)
    assert figure is not None
    bar = figure.colorbar(scale, ax=axes, label=label, **{"pad": 0.02, **how})
    bar.outline.set_visible(False)
    return bar


def colour_scale(axes: Axes, key: Key, pad: float) -> None:
    """Add a slim colour bar beside the axes if `key` has a colour scale."""
    if key.scale is not None:
        colour_bar(axes, key.scale, key.label, shrink=0.75, aspect=28, pad=pad)
