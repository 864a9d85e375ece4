"""Styles that show how paths in the cone and the disc end, with legends and notes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from meanfield.endings import Status
from meanfield.plotting._figure.marks import Key, dot_entry, entry, square_legend
from meanfield.plotting._figure.panels import (
    add_subject,
    annotate,
    ending_note,
    titled_figure,
)
from meanfield.plotting._figure.parts import draw_dots, draw_lines
from meanfield.plotting._figure.style import GREY
from meanfield.plotting.reading.data import ending

from .paths import DETAIL, ConePath, group_by_ending, thin_paths

# If paths have more than `RASTER_POINTS` points in total, vector files contain them as
# pixels.
RASTER_POINTS = 30_000


def width(n_paths: int) -> float:
    """The line width of each of `n_paths` paths, in points."""
    return float(np.clip(5 / np.sqrt(n_paths), 0.4, 1.5))


def opacity(n_paths: int) -> float:
    """The opacity of each of `n_paths` paths, which shows both overlaps and colours."""
    return float(np.clip(8 / np.sqrt(n_paths), 0.3, 0.9))


def draw_path_lines(
    axes: Axes, lines: Sequence[np.ndarray], paths: Sequence[ConePath], n: int
) -> LineCollection:
    """Draw each path in the colour of its ending; lines of many paths are thin."""
    colours = [to_rgba(path.mark.colour, opacity(n)) for path in paths]
    return draw_lines(axes, lines, colours, linewidths=width(n))


def draw_tips(
    axes: Axes,
    paths: Sequence[ConePath],
    stays: Sequence[ConePath],
    *,
    areas: tuple[float, float],
    **how: Any,
) -> None:
    """Draw small grey starting points, and end points in the style of their ending.

    Args:
        axes: axes of the cone or the disc.
        paths: paths whose starts are drawn.
        stays: paths whose ends are drawn, because they end inside the picture.
        areas: areas of starts and ends in square points, for lines one point wide.
        how: further keywords of `draw_dots`.
    """
    thin = width(len(paths))
    starts = np.array([path.points[0] for path in paths])
    draw_dots(axes, starts, areas[0] * thin, c=GREY, linewidths=0, **how)
    for mark, group in group_by_ending(stays).items():
        ends = np.array([path.points[-1] for path in group])
        style = {"c": mark.colour, "marker": mark.marker, **how}
        dots = draw_dots(axes, ends, areas[1] * thin, **style)
        dots.set(edgecolors="white", linewidths=0.3 * thin)


def draw_plane_paths(axes: Axes, paths: Sequence[ConePath]) -> None:
    """Draw paths in the disc or the triangle, with their starts and ends."""
    lines = [rows[:, :2] for rows in thin_paths([path.rows for path in paths], DETAIL)]
    is_large = sum(len(line) for line in lines) > RASTER_POINTS
    draw_path_lines(axes, lines, paths, len(paths)).set_rasterized(is_large)
    draw_tips(axes, paths, paths, areas=(7.0, 24.0), zorder=4)


def ending_handles(paths: Sequence[ConePath]) -> list[Artist]:
    """Legend entries of the endings with their counts, and of starting points."""
    counts = [len(group) for group in group_by_ending(paths).values()]
    handles = ending_marks(paths)
    for handle, count in zip(handles, counts, strict=True):
        handle.set_label(f"{handle.get_label()} ({count})")
    return [*handles, dot_entry("start", GREY, markersize=3)]


def ending_marks(paths: Sequence[ConePath]) -> list[Artist]:
    """Legend entries of the endings, without counts."""
    return [
        entry(mark.name, mark.colour, marker=mark.marker, markersize=5.5)
        for mark in group_by_ending(paths)
    ]


def early_note(paths: Sequence[ConePath]) -> str:
    """A note on paths whose last frame precedes their blow-up, and by how much."""
    ends = [
        (p.rows[-1, -1], p.ending) for p in paths if p.ending.status is Status.BLOW_UP
    ]
    early = [end.stop_time - t for t, end in ends if t < end.stop_time]
    if not early:
        return ""
    if len(early) == 1:
        return f"1 path stops at its last frame, {early[0]:.2g} before its blow-up"
    farthest = f"up to {max(early):.2g} before their blow-ups"
    return f"{len(early)} paths stop at their last frames, {farthest}"


def path_figure(
    dataset: xr.Dataset,
    size: tuple[float, float],
    draw: Callable[[Any, xr.Dataset], Key],
    *,
    columns: int = 4,
    projection: str | None = None,
) -> Figure:
    """A figure of paths with a legend, and small print that names a single ending.

    Args:
        dataset: the runs; covariances of tokens are named in the title.
        size: width and height in inches.
        draw: draws the dataset on axes, and returns the legend and the small print.
        columns: largest number of columns of the legend.
        projection: `3d` for axes in space.
    """
    if str(dataset.attrs.get("title") or "").endswith(": tokens"):
        dataset = add_subject(dataset, "covariance of tokens")
    figure = titled_figure(dataset, size)
    axes = figure.add_subplot(projection=projection)
    key = draw(axes, dataset)
    square_legend(axes, key.handles, min(len(key.handles), columns))
    end = "" if "run" in dataset.dims else ending_note(ending(dataset))
    annotate(figure, *key.notes, end)
    return figure
