"""Contents of a figure: legends, drawn colours, texts beyond its axes."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.plotting import Look
from meanfield.plotting._figure.picture import Picture

COARSE = 40  # dots per inch: enough to draw every artist, in a fifth of the time


def draw(figure: Figure) -> Figure:
    """Draws the figure in its style, without a file."""
    look = figure.look if isinstance(figure, Picture) else Look()
    with look.rc_context():
        figure.savefig(BytesIO(), format="rgba", dpi=COARSE)
    return figure


def legend_entries(figure: Figure) -> Iterator[tuple[str, Artist]]:
    """The entries of all legends: label and handle."""
    for legend in figure.findobj(Legend):
        texts = [text.get_text() for text in legend.get_texts()]
        for text, handle in zip(texts, legend.legend_handles, strict=True):
            assert handle is not None
            yield text, handle


def legend_colour(handle: Artist) -> str:
    """The colour of a legend handle, or of its hatch if it is white."""
    if isinstance(handle, Line2D):
        return to_hex(handle.get_color())
    assert isinstance(handle, Patch)
    colour = to_hex(handle.get_facecolor()[:3])
    return handle.get_hatch() or "" if colour == "#ffffff" else colour


def drawn_colours(figure: Figure) -> set[str]:
    """Colours and hatches of everything drawn within the axes."""
    figure.draw_without_rendering()
    return {actual for axes in _axes_of(figure) for actual in colours_in_axes(axes)}


def texts_beyond_axes(figure: Figure) -> list[str]:
    """Texts at data coordinates that reach beyond their axes."""
    figure.draw_without_rendering()
    actual = []
    for axes in _axes_of(figure):
        for text in axes.texts:
            box = text.get_window_extent()
            corners = np.array([box.min, box.max])
            if text.get_text() and not _mask_within(axes, corners).all():
                actual.append(text.get_text())
    return actual


def _axes_of(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.findobj(Axes) if isinstance(axes, Axes)]


def colours_in_axes(axes: Axes) -> Iterator[str]:
    """Colours and hatches of what is drawn within the axes."""
    for line in axes.lines:
        if isinstance(axes, Axes3D) or _is_within(line, axes):
            yield to_hex(line.get_color())
            yield to_hex(line.get_markeredgecolor())
    for collection in axes.collections:
        yield from _collection_marks(collection)
    for patch in axes.patches:
        if np.asarray(patch.get_path().vertices).size:
            yield to_hex(patch.get_facecolor()[:3])
            yield patch.get_hatch() or ""


def _collection_marks(collection: Collection) -> Iterator[str]:
    for colours in (collection.get_edgecolor(), collection.get_facecolor()):
        for colour in np.unique(np.atleast_2d(np.asarray(colours, float)), axis=0):
            if len(colour):
                yield to_hex(colour[:3])


def _is_within(line: Line2D, axes: Axes) -> bool:
    """Whether any point of a line is on the page."""
    points = line.get_transform().transform(np.ma.filled(line.get_xydata(), np.nan))
    points = points[np.isfinite(points).all(axis=1)]
    return len(points) > 0 and bool(_mask_within(axes, points).any())


def _mask_within(axes: Axes, pixels: np.ndarray) -> np.ndarray:
    """The points within the axes, to a pixel."""
    box = axes.get_window_extent().padded(1.0)
    inside = (pixels >= box.min) & (pixels <= box.max)
    return inside[:, 0] & inside[:, 1]


def lightness(colour: Any) -> float:
    """Relative luminance, as WCAG defines it."""
    c = np.array(to_rgb(colour))
    linear = np.where(c <= 0.03928, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
