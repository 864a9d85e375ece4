"""How runs of each ending look in the cone and in the disc, and what explains it."""

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
from meanfield.plotting._figure.panels import about, ending_note
from meanfield.plotting._figure.parts import draw_dots, draw_lines
from meanfield.plotting._figure.style import GREY
from meanfield.plotting.reading.data import ending

from .paths import ConePath, by_ending

# Beyond this many points of paths a vector file holds them as an image.
RASTERISED = 30_000


def width(n_paths: int) -> float:
    """The width of a path among others, in points."""
    return float(np.clip(5 / np.sqrt(n_paths), 0.4, 1.5))


def opacity(n_paths: int) -> float:
    """The opacity at which paths let one another through, yet keep their colours."""
    return float(np.clip(8 / np.sqrt(n_paths), 0.3, 0.9))


def tips(paths: Sequence[ConePath]) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last points of paths."""
    first = np.array([path.points[0] for path in paths])
    return first, np.array([path.points[-1] for path in paths])


def draw_threads(
    axes: Axes, lines: Sequence[np.ndarray], paths: Sequence[ConePath], n: int
) -> LineCollection:
    """Lines in the colours of the endings of their paths, as thin as suits `n`."""
    colours = [to_rgba(path.ending.status.row.colour, opacity(n)) for path in paths]
    return draw_lines(axes, lines, colours, linewidths=width(n))


def draw_tips(
    axes: Axes,
    paths: Sequence[ConePath],
    stays: Sequence[ConePath],
    *,
    areas: tuple[float, float],
    **how: Any,
) -> None:
    """Small grey starts, and ends of those that stay, as their ending looks.

    Args:
        axes: of the cone or the disc.
        paths: that have a start.
        stays: that have an end.
        areas: of a start and of an end, in square points, for a path a point wide.
        how: what both have beside.
    """
    thin = width(len(paths))
    draw_dots(axes, tips(paths)[0], areas[0] * thin, c=GREY, linewidths=0, **how)
    for status, group in by_ending(stays).items():
        ends = draw_dots(
            axes,
            tips(group)[1],
            areas[1] * thin,
            c=status.row.colour,
            marker=status.row.marker,
            **how,
        )
        ends.set(edgecolors="white", linewidths=0.3 * thin)


def ending_handles(paths: Sequence[ConePath]) -> list[Artist]:
    """Legend entries: each ending with its count, then the mark of a start."""
    counts = [len(group) for group in by_ending(paths).values()]
    handles = fates(paths)
    for handle, count in zip(handles, counts, strict=True):
        handle.set_label(f"{handle.get_label()} ({count})")
    start = Line2D([], [], color=GREY, marker="o", markersize=3, linestyle="")
    start.set_label("start")
    return [*handles, start]


def fates(paths: Sequence[ConePath]) -> list[Artist]:
    """Legend entries of endings, without counts: how a path goes on is its colour."""
    return [
        Line2D(
            [],
            [],
            color=status.row.colour,
            marker=status.row.marker,
            markersize=5.5,
            label=str(status),
        )
        for status in by_ending(paths)
    ]


def early_note(paths: Sequence[ConePath]) -> str:
    """How many paths stop short of the blow-up, which came between two frames."""
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


def of_covariance(dataset: xr.Dataset) -> xr.Dataset:
    """With a title that says that the covariance of tokens is drawn, if it is."""
    is_of_tokens = str(dataset.attrs.get("title") or "").endswith(": tokens")
    return about(dataset, "covariance of tokens") if is_of_tokens else dataset


def single_ending(dataset: xr.Dataset) -> str:
    """How the run ended; nothing for many runs, whose legend says it."""
    return "" if "run" in dataset.dims else ending_note(ending(dataset))
