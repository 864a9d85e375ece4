"""Styles that show how paths in the cone and the disc end, with legends and notes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D

from meanfield.endings import Status
from meanfield.plotting._figure.panels import add_subject, ending_note
from meanfield.plotting._figure.parts import draw_dots, draw_lines
from meanfield.plotting._figure.style import GREY
from meanfield.plotting.reading.data import ending

from .paths import ConePath, group_by_ending

# If paths have more than `RASTER_POINTS` points in total, vector files contain them as
# pixels.
RASTER_POINTS = 30_000


def width(n_paths: int) -> float:
    """The line width of each of `n_paths` paths, in points."""
    return float(np.clip(5 / np.sqrt(n_paths), 0.4, 1.5))


def opacity(n_paths: int) -> float:
    """The opacity of each of `n_paths` paths, which shows both overlaps and colours."""
    return float(np.clip(8 / np.sqrt(n_paths), 0.3, 0.9))


def tips(paths: Sequence[ConePath]) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last point of each path."""
    first = np.array([path.points[0] for path in paths])
    return first, np.array([path.points[-1] for path in paths])


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
    draw_dots(axes, tips(paths)[0], areas[0] * thin, c=GREY, linewidths=0, **how)
    for mark, group in group_by_ending(stays).items():
        ends = draw_dots(
            axes,
            tips(group)[1],
            areas[1] * thin,
            c=mark.colour,
            marker=mark.marker,
            **how,
        )
        ends.set(edgecolors="white", linewidths=0.3 * thin)


def ending_handles(paths: Sequence[ConePath]) -> list[Artist]:
    """Legend entries of the endings with their counts, and of starting points."""
    counts = [len(group) for group in group_by_ending(paths).values()]
    handles = ending_marks(paths)
    for handle, count in zip(handles, counts, strict=True):
        handle.set_label(f"{handle.get_label()} ({count})")
    start = Line2D([], [], color=GREY, marker="o", markersize=3, linestyle="")
    start.set_label("start")
    return [*handles, start]


def ending_marks(paths: Sequence[ConePath]) -> list[Artist]:
    """Legend entries of the endings, without counts."""
    return [
        Line2D(
            [],
            [],
            color=mark.colour,
            marker=mark.marker,
            markersize=5.5,
            label=mark.name,
        )
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


def retitle_covariance(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset, with `covariance of tokens` for `tokens` at the end of its title."""
    is_of_tokens = str(dataset.attrs.get("title") or "").endswith(": tokens")
    return add_subject(dataset, "covariance of tokens") if is_of_tokens else dataset


def single_ending(dataset: xr.Dataset) -> str:
    """A note on how a single run ended; empty for an ensemble, which has a legend."""
    return "" if "run" in dataset.dims else ending_note(ending(dataset))
