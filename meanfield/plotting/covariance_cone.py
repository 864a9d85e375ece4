"""Covariances of order two: their paths in the cone, and in the disc of trace one."""

import numpy as np
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

from ._cone_paths import (
    below,
    by_ending,
    cone_height,
    cone_paths,
    ending_handles,
    shapes_of_trace_one,
)
from ._data import ending
from ._marks import legend
from ._panels import annotate, ending_note, panels, titled_figure
from ._paths import opacity
from ._space import bare_space
from ._style import ENDING_COLOURS, GREY, INK, PALE, style

_AXIS = Line2D([], [], color=INK, linestyle="--", linewidth=0.9, label="isotropic")


@panels.register("cone")
@style()
def cone(dataset: xr.Dataset) -> Figure:
    r"""Paths of covariances in the cone $z \ge \sqrt{x^2 + y^2}$, coloured by ending.

    A covariance with entries $a, c, c, b$ is the point $(a - b, 2c, a + b)$. Points are
    drawn by their weighted covariance. Paths that blow up leave through the top.

    Raises:
        InvalidInputError: if the dimension is not two.
    """
    paths = cone_paths(dataset, "cone")
    height = cone_height(paths)
    figure = titled_figure(dataset, (6.6, 6.2))
    axes = figure.add_subplot(projection="3d")
    _surface(axes, height)
    groups = by_ending(paths)
    for name, found in groups.items():
        kept = [below(points, height) for points in found]
        _cone_group(axes, kept, ENDING_COLOURS[name], len(paths))
    handles = [*ending_handles(groups), _AXIS]
    legend(axes, handles, min(len(handles), 4))
    tallest = max(path.points[:, 2].max() for path in paths)
    cut = f"cut at trace {height:.3g}; traces go on to {tallest:.2g}"
    annotate(figure, cut if tallest > height else "", _single_ending(dataset))
    return figure


@panels.register("disc")
@style()
def disc(dataset: xr.Dataset) -> Figure:
    r"""Paths of $\Sigma / \operatorname{tr}\Sigma$ in a disc, coloured by ending.

    The coordinates are $(a - b, 2c) / (a + b)$: the centre is isotropic, the rim has
    rank one. Frames in which $\Sigma$ vanishes have no place in it.

    Raises:
        InvalidInputError: if the dimension is not two, or $\Sigma$ always vanishes.
    """
    groups, note = shapes_of_trace_one(by_ending(cone_paths(dataset, "disc")))
    figure = titled_figure(dataset, (5.6, 6.2))
    axes = figure.add_subplot()
    axes.add_patch(Circle((0, 0), 1.0, facecolor="#f7f7f7", edgecolor=GREY))
    axes.plot(0, 0, "+", color=GREY, markersize=9)
    n_paths = sum(len(found) for found in groups.values())
    for name, found in groups.items():
        colour = ENDING_COLOURS[name]
        lines = LineCollection(found, colors=colour, alpha=_opacity(n_paths))
        lines.set_linewidth(_width(n_paths))
        axes.add_collection(lines)
        starts, ends = _tips(found)
        axes.scatter(*starts.T, s=7, c=GREY, linewidths=0, zorder=3)
        sizes = 20 * _width(n_paths)
        axes.scatter(*ends.T, s=sizes, c=colour, edgecolors="white", lw=0.4, zorder=4)
    ticks = [-1.0, -0.5, 0.0, 0.5, 1.0]
    axes.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), xticks=ticks, yticks=ticks)
    axes.set_aspect("equal")
    axes.set_xlabel(r"$(a - b)\,/\,\mathrm{tr}\,\Sigma$")
    axes.set_ylabel(r"$2c\,/\,\mathrm{tr}\,\Sigma$")
    handles = ending_handles(groups)
    legend(axes, handles, min(len(handles), 4))
    rim = "centre: isotropic; rim: rank one"
    annotate(figure, rim, note, _single_ending(dataset))
    return figure


def _opacity(n_paths: int) -> float:
    """The opacity of a path among others."""
    return max(opacity(n_paths), 0.4)


def _width(n_paths: int) -> float:
    """The width of a path among others, in points."""
    return float(np.clip(4 / np.sqrt(n_paths), 0.5, 1.4))


def _single_ending(dataset: xr.Dataset) -> str:
    return "" if "run" in dataset.dims else ending_note(ending(dataset))


def _tips(paths: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last points of paths."""
    return np.array([p[0] for p in paths]), np.array([p[-1] for p in paths])


def _cone_group(
    axes: Axes3D, paths: list[np.ndarray], colour: str, n_paths: int
) -> None:
    """Paths of one ending, with their starts and ends, drawn over the surface."""
    lines = [path for path in paths if len(path) > 1]
    if lines:
        threads = Line3DCollection(lines, colors=colour, zorder=3)
        threads.set(linewidths=_width(n_paths), alpha=_opacity(n_paths))
        axes.add_collection3d(threads, autolim=False)
    starts, ends = _tips(paths)
    axes.scatter(*starts.T, s=5, c=GREY, depthshade=False, zorder=4)
    axes.scatter(
        *ends.T,
        s=12 * _width(n_paths),  # pyright: ignore[reportArgumentType]
        c=colour,
        depthshade=False,
        zorder=5,
    )


def _surface(axes: Axes3D, height: float) -> None:
    """The cone up to `height`, with its rim, some generators and the isotropic axis."""
    angle = np.linspace(0.0, 2 * np.pi, 121)
    circle = np.stack([np.cos(angle), np.sin(angle), np.ones_like(angle)])
    x, y, z = height * circle[..., None] * np.array([0.0, 1.0])
    axes.plot_surface(
        x, y, z, color="#9db8d2", alpha=0.13, linewidth=0, shade=False, rasterized=True
    )
    for share in (0.25, 0.5, 0.75, 1.0):
        x, y, z = share * height * circle
        axes.plot(x, y, z, color=PALE, linewidth=0.9)
    for ray in circle.T[:-1:15]:
        x, y, z = np.outer(ray, [0.0, height])
        axes.plot(x, y, z, color=PALE, linewidth=0.7)
    axes.plot([0, 0], [0, 0], [0, height], color=INK, linestyle="--", linewidth=0.9)
    bare_space(axes)
    axes.set(xlim=(-height, height), ylim=(-height, height), zlim=(0, height))
    axes.set(xlabel="$a - b$", ylabel="$2c$", zlabel=r"$a + b = \mathrm{tr}\,\Sigma$")
    axes.computed_zorder = False
