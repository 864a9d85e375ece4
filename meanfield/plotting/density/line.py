"""A density in one dimension: a map over time and space, with quantiles."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D

from meanfield.plotting._figure.marks import colour_bar, entry, legend
from meanfield.plotting._figure.panels import mark_blow_up
from meanfield.plotting._figure.picture import Picture
from meanfield.plotting._figure.style import CYCLE, INK
from meanfield.plotting.reading.data import Swarm
from meanfield.plotting.reading.density import Density, quantiles
from meanfield.plotting.reading.observables import even_frames

from .views import bulk, scale

LEVELS = np.array([0.025, 0.25, 0.5, 0.75, 0.975])
_PATTERNS = (":", "--", "-", "--", ":")
_COLOUR, _BOX = CYCLE[5], CYCLE[2]
_TOKENS = 40


def draw_line(figure: Picture, density: Density) -> list[str]:
    """Draw a run of dimension one; return notes."""
    axes = figure.add_subplot()
    heights = density.density[:, 0]
    shades = scale(heights, figure.look)
    colours = {"cmap": shades.cmap, "norm": shades.norm}
    axes.pcolormesh(*_mesh(density), heights, **colours, rasterized=True)
    label = r"density $\rho(t, x)$"
    if isinstance(shades.norm, LogNorm):
        label += ", logarithmic"
    colour_bar(axes, shades, label, aspect=30)
    handles = _paths(axes, density)
    view = bulk(density).common()
    low, high = view.low[0, 0], view.high[0, 0]
    ends = density.origin + density.axes[:, :, 0] * density.edges[0][[0, -1]]
    axes.plot(density.times, ends, color=_BOX, linewidth=1.4)
    handles.append(entry("box of the grid", _BOX, linewidth=1.4))
    if density.tokens is not None:
        handles += _tokens(axes, density, density.tokens)
    pad = 0.02 * (high - low)
    axes.set(xlabel="time $t$", ylabel="$x$", ylim=(low - pad, high + pad))
    mark_blow_up(axes, density.ending)
    legend(axes, handles, len(handles))
    return [_box_note(ends, low, high)]


def _mesh(density: Density) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the mesh: times and cell faces, both midway between frames."""
    times = midpoints(density.times)
    faces = density.origin + density.axes[:, :, 0] * density.edges[0]
    shape = (len(times), faces.shape[1])
    return np.broadcast_to(times[:, None], shape), midpoints(faces)


def midpoints(values: np.ndarray) -> np.ndarray:
    """The first row, means of neighbouring rows, and the last row."""
    if len(values) == 1:  # a single frame is drawn with a width of one
        return np.concatenate([values, values + (1.0 if values.ndim == 1 else 0.0)])
    return np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, values[-1:]])


def _paths(axes: Axes, density: Density) -> list[Line2D]:
    """Draw quantiles over time with a pale outline, legible on any colour."""
    for path, pattern in zip(quantiles(density, LEVELS).T, _PATTERNS, strict=True):
        axes.plot(density.times, path, "-", color="white", linewidth=2.2, alpha=0.6)
        axes.plot(density.times, path, pattern, color=_COLOUR, linewidth=1.2)
    names = ("median", "25, 75 %", "2.5, 97.5 %")
    return [
        entry(name, _COLOUR, linestyle=pattern)
        for pattern, name in zip(("-", "--", ":"), names, strict=True)
    ]


def _tokens(axes: Axes, density: Density, tokens: Swarm) -> list[Line2D]:
    """Draw the paths of a few tokens, evenly chosen by their starting points."""
    order = np.argsort(tokens.x[0, :, 0])
    indices = order[even_frames(order.size, _TOKENS)]
    paths = [np.column_stack([density.times, tokens.x[:, i, 0]]) for i in indices]
    axes.add_collection(
        LineCollection(paths, colors=INK, linewidths=0.6, alpha=0.7), autolim=False
    )
    share = f", {indices.size} of {order.size}" if indices.size < order.size else ""
    return [entry(f"tokens{share}", INK, linewidth=0.8)]


def _box_note(ends: np.ndarray, low: float, high: float) -> str:
    """A note on the ends (time, 2) of the box, if all are outside the picture."""
    if np.any((ends >= low) & (ends <= high)):
        return ""
    (a, b), (c, d) = ends[0], ends[-1]
    start = f"the box reaches from {a:.3g} to {b:.3g}"
    return f"{start}, at the end from {c:.3g} to {d:.3g}"
