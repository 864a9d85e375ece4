"""Scenes of movies of a density: a curve in one dimension, or a map."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.lines import Line2D
from matplotlib.transforms import Affine2D

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.marks import Key, colour_scale, dot_entry, line_entry
from meanfield.plotting._figure.parts import Show
from meanfield.plotting._figure.style import CYCLE, GREY, INK
from meanfield.plotting.reading.data import Swarm
from meanfield.plotting.reading.density import Density, peaks, quantiles, ratio
from meanfield.plotting.reading.observables import even_frames

from .line import LEVELS
from .views import Extent, box_corners, map_view, scale

_N_TOKENS = 400  # largest number of tokens drawn over a density
TOKENS = dot_entry("tokens", INK, marker=".")
_BOX, _FOLLOW_NOTE = CYCLE[2], "the view follows the density: mind the scale"
_TICKS = (0.6, 1.0, 1.6, 1.0, 0.6)  # line widths of marks at the quantiles, in points
_QUANTILES = "quantiles: 2.5, 25, 50 (the median), 75 and 97.5 %"
_STEADY = 8.0  # largest ratio of peak heights for which the vertical axis is fixed


def density_scene(axes: Axes, run: Density, look: Look) -> tuple[Show, Key]:
    """The scene of a run on the given axes, and the `Key` that explains it."""
    if run.dimension == 1 and run.position is None:
        return _curve(axes, run)
    run, views, notes = map_view(run, _FOLLOW_NOTE)
    shades = scale(run.laws, look)
    scene = MapScene(axes, run, views, shades)
    x_name, y_name = axis_names(run)
    axes.set(xlabel=x_name, ylabel=y_name)
    colour_scale(axes, Key([], shades, height_label(run), []), pad=0.02)
    return scene.show, Key(_handles(run, views), None, "", notes)


def axis_names(run: Density) -> tuple[str, str]:
    """The axis labels of a map."""
    return ("$x_1$", "$x_2$") if run.dimension == 2 else ("position $s$", "$x$")


def height_label(run: Density) -> str:
    """The label of the colour bar."""
    return r"density $\rho$" if run.position is None else r"density $\rho(x\,|\,s)$"


def layer_edges(position: np.ndarray) -> np.ndarray:
    """The edges of the columns of a map, one for each position, from 0 to 1."""
    middles = (position[1:] + position[:-1]) / 2
    return np.concatenate([[0.0], middles, [1.0]])


def _curve(axes: Axes, run: Density) -> tuple[Show, Key]:
    run, views, notes = map_view(run, _FOLLOW_NOTE)
    tops = peaks(run.density)
    steady = ratio(tops) <= _STEADY
    heights = np.full_like(tops, tops.max()) if steady else tops
    marks = "quantiles, 2.5 to 97.5 %"
    handles = [line_entry("at the start", GREY, ":"), line_entry(marks, CYCLE[1])]
    scene = CurveScene(axes, run, views, 1.08 * heights)
    notes = [_QUANTILES, *(notes or ["" if steady else _FOLLOW_NOTE])]
    return scene.show, Key([*handles, *_handles(run, views)], None, "", notes)


def _handles(run: Density, views: Extent) -> list[Line2D]:
    """Legend entries of the box, if any of it is in view, and of tokens."""
    box = [line_entry("box", _BOX)] if _shows_box(run, views) else []
    return [*box, *([] if run.tokens is None else [TOKENS])]


def _shows_box(run: Density, views: Extent) -> bool:
    """Whether an end or a corner of the box is in view in some frame."""
    corners = np.stack([box_corners(run, i) for i in range(run.times.size)])
    low, high = views.low[:, None], views.high[:, None]
    return bool(((low <= corners) & (corners <= high)).all(axis=-1).any())


class CurveScene:
    r"""$\rho(t, x)$ over $x$, with marks at its quantiles, and tokens below it.

    Args:
        axes: where to draw.
        run: a density in one dimension.
        views: limits of the $x$ axis in each frame.
        heights: upper limit of the vertical axis in each frame.
    """

    def __init__(
        self, axes: Axes, run: Density, views: Extent, heights: np.ndarray
    ) -> None:
        self._axes, self._run, self._views, self._heights = axes, run, views, heights
        self._density, self._quantiles = run.density[:, 0], quantiles(run, LEVELS)
        axes.set(xlabel="$x$", ylabel=r"density $\rho(t, x)$")
        (first,) = axes.plot(*self._outline(0), color=GREY, linewidth=0.8)
        first.set(linestyle=":")
        (self._line,) = axes.plot([], [], color=CYCLE[0], linewidth=1.6)
        self._fill = axes.fill_between([], [], color=CYCLE[0], alpha=0.18, linewidth=0)
        self._marks = [
            axes.plot([], [], color=CYCLE[1], linewidth=width)[0] for width in _TICKS
        ]
        self._ends = [axes.plot([], [], color=_BOX, linewidth=1.4)[0] for _ in range(2)]
        self._tokens = axes.plot([], [], "|", color=INK, markersize=5)[0]

    def _outline(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        run = self._run
        middles = run.places(frame, *run.middles)[:, 0]
        return middles, self._density[frame]

    def show(self, frame: int) -> None:
        """Move the artists to their places in `frame`."""
        run, top = self._run, self._heights[frame]
        low, high = self._views.low[frame, 0], self._views.high[frame, 0]
        floor = -0.06 * top
        self._axes.set(xlim=(low, high), ylim=(floor, top))
        x, heights = self._outline(frame)
        self._line.set_data(x, heights)
        self._fill.set_data(x, np.zeros_like(x), heights)
        for mark, place in zip(self._marks, self._quantiles[frame], strict=True):
            mark.set_data([place, place], [0, np.interp(place, x, heights)])
        for end, place in zip(self._ends, box_corners(run, frame)[:, 0], strict=True):
            end.set_data([place, place], [floor, top])
        if run.tokens is not None:
            indices = even_frames(run.tokens.x.shape[1], _N_TOKENS)
            places = run.tokens.x[frame, indices, 0]
            self._tokens.set_data(places, np.full(indices.size, floor / 2))


class MapScene:
    """A map of a density on a moving mesh, in the plane or over (position, state).

    The box of the grid and the tokens are drawn too. The mesh is rasterised in vector
    files.

    Args:
        axes: where to draw.
        run: a density in two dimensions without layers, or in one dimension with them.
        views: axis limits in each frame.
        shades: the colour scale.
    """

    def __init__(
        self, axes: Axes, run: Density, views: Extent, shades: ScalarMappable
    ) -> None:
        self._axes, self._run, self._views = axes, run, views
        if run.position is None:
            (x, y), self._heights = run.edges, run.density[:, 0]
            axes.set_aspect("equal")
        else:
            x, y, self._heights = layer_edges(run.position), run.edges[0], run.laws
        colours = {"cmap": shades.cmap, "norm": shades.norm}
        first = self._heights[0].T
        self._mesh = axes.pcolormesh(x, y, first, rasterized=True, **colours)
        bottom, top = [[x[0], y[0]], [x[-1], y[0]]], [[x[-1], y[-1]], [x[0], y[-1]]]
        gap = [] if run.position is None else [[np.nan, np.nan]]  # NaN breaks the line
        self._corners = np.array([*bottom, *gap, *top, *([] if gap else bottom[:1])])
        (self._box,) = axes.plot([], [], color=_BOX, linewidth=1.2)
        (self._tokens,) = axes.plot([], [], ".", color=INK, markersize=2.4)

    def show(self, frame: int) -> None:
        """Move the artists to their places in `frame`."""
        run, (low, high) = self._run, (self._views.low[frame], self._views.high[frame])
        self._axes.set_ylim(low[-1], high[-1])
        if run.dimension == 2:
            self._axes.set_xlim(low[0], high[0])
        # A position axis, if there is one, keeps its row of the identity.
        matrix = np.eye(3)
        matrix[-1 - run.dimension : -1, -1] = run.origin[frame]
        matrix[-1 - run.dimension : -1, -1 - run.dimension : -1] = run.axes[frame]
        place = Affine2D(matrix)
        self._mesh.set_transform(place + self._axes.transData)
        self._mesh.set_array(self._heights[frame].T)
        self._box.set_data(*place.transform(self._corners).T)
        if run.tokens is not None:
            self._tokens.set_data(*_places(run.tokens, run.dimension, frame))


def _places(tokens: Swarm, dimension: int, frame: int) -> np.ndarray:
    """Places (2, n) of some tokens on a map: two coordinates, or position and state."""
    indices = even_frames(tokens.x.shape[1], _N_TOKENS)
    x = tokens.x[frame, indices].T
    if dimension == 2:
        return x
    if tokens.position is None:
        return np.empty((2, 0))
    return np.stack([tokens.position[indices], x[0]])
