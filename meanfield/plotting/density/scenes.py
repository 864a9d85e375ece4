"""What moves in an animation of a density: a curve on the line, or a map."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import Affine2D
from typing_extensions import override

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.marks import Key, colour_scale, outline
from meanfield.plotting._figure.scenes import AbstractScene
from meanfield.plotting._figure.style import CYCLE, GREY, INK
from meanfield.plotting._runs.density import Density, peaks, quantiles, ratio
from meanfield.plotting._runs.observables import even_frames

from .frames import TOKENS, height_label, layer_edges
from .line import LEVELS
from .views import Extent, box_corners, framed, scale

_BOX, _FOLLOWED = CYCLE[2], "the view follows the density: mind the scale"
_TICKS = (0.6, 1.0, 1.6, 1.0, 0.6)  # widths of the marks of quantiles
_QUANTILES = "quantiles: 2.5, 25, 50 (the median), 75 and 97.5 %"
_STEADY = 8.0  # peaks that differ by more are not shown under one height


def density_scene(axes: Axes, run: Density, look: Look) -> tuple[AbstractScene, Key]:
    """A scene of the run on the axes, and its key."""
    if run.dimension == 1 and run.position is None:
        return _curve(axes, run)
    run, views, notes = framed(run, _FOLLOWED)
    scene = LayerScene if run.dimension == 1 else MapScene
    return scene(axes, run, views, look), Key(_handles(run, views), None, "", notes)


def _curve(axes: Axes, run: Density) -> tuple[AbstractScene, Key]:
    run, views, notes = framed(run, _FOLLOWED)
    tops = peaks(run.density)
    steady = ratio(tops) <= _STEADY
    heights = np.full_like(tops, tops.max()) if steady else tops
    marks = "quantiles, 2.5 to 97.5 %"
    handles = [outline("at the start", GREY, ":"), outline(marks, CYCLE[1])]
    scene = CurveScene(axes, run, views, 1.08 * heights)
    notes = [_QUANTILES, *(notes or ["" if steady else _FOLLOWED])]
    return scene, Key([*handles, *_handles(run, views)], None, "", notes)


def _handles(run: Density, views: Extent) -> list[Line2D]:
    """The entries of the box, if any of it is in the view, and of tokens."""
    tokens = Line2D([], [], color=INK, marker=".", linestyle="", label="tokens")
    box = [outline("box", _BOX)] if _shows_box(run, views) else []
    return [*box, *([] if run.tokens is None else [tokens])]


def _shows_box(run: Density, views: Extent) -> bool:
    """Whether an end of the box, or a corner, is inside the view of some frame."""
    corners = np.stack([box_corners(run, i) for i in range(run.times.size)])
    low, high = views.low[:, None], views.high[:, None]
    return bool(((low <= corners) & (corners <= high)).all(axis=-1).any())


class CurveScene(AbstractScene):
    r"""$\rho(t, x)$ over $x$, with marks at its quantiles, and tokens below it.

    Args:
        axes: where to draw.
        run: a density on the line.
        views: what is seen of $x$ in each frame.
        heights: the upper end of the axis of each frame.
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

    @override
    def show(self, frame: int) -> None:
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
            indices = even_frames(run.tokens.x.shape[1], TOKENS)
            places = run.tokens.x[frame, indices, 0]
            self._tokens.set_data(places, np.full(indices.size, floor / 2))


class MapScene(AbstractScene):
    """A map of the plane on its moving mesh, with its box, and tokens over it.

    Args:
        axes: where to draw.
        run: a density of the plane, without layers.
        views: what is seen in each frame.
        look: its colour map.
    """

    def __init__(self, axes: Axes, run: Density, views: Extent, look: Look) -> None:
        self._axes, self._run, self._views = axes, run, views
        self._heights = run.density[:, 0]
        axes.set(xlabel="$x_1$", ylabel="$x_2$")
        axes.set_aspect("equal")
        shades = scale(self._heights, look)
        self._mesh = axes.pcolormesh(
            *run.edges, self._heights[0].T, cmap=shades.cmap, norm=shades.norm
        )
        colour_scale(axes, Key([], self._mesh, height_label(run), []), pad=0.02)
        (self._box,) = axes.plot([], [], color=_BOX, linewidth=1.2)
        (self._tokens,) = axes.plot([], [], ".", color=INK, markersize=2.4)

    @override
    def show(self, frame: int) -> None:
        run, (low, high) = self._run, (self._views.low, self._views.high)
        self._axes.set(
            xlim=(low[frame, 0], high[frame, 0]), ylim=(low[frame, 1], high[frame, 1])
        )
        moved = np.eye(3)
        moved[:2, :2], moved[:2, 2] = run.axes[frame], run.origin[frame]
        self._mesh.set_transform(Affine2D(moved) + self._axes.transData)
        self._mesh.set_array(self._heights[frame].T)
        self._box.set_data(*box_corners(run, frame)[[0, 1, 2, 3, 0]].T)
        if run.tokens is not None:
            indices = even_frames(run.tokens.x.shape[1], TOKENS)
            self._tokens.set_data(*run.tokens.x[frame, indices].T)


class LayerScene(AbstractScene):
    """A map of states against positions, and tokens over it.

    Args:
        axes: where to draw.
        run: a density on the line, in layers.
        views: what is seen of the state in each frame.
        look: its colour map.
    """

    def __init__(self, axes: Axes, run: Density, views: Extent, look: Look) -> None:
        assert run.position is not None
        self._axes, self._run, self._views = axes, run, views
        self._heights = run.laws
        axes.set(xlabel="position $s$", ylabel="$x$")
        shades = scale(self._heights, look)
        self._mesh = axes.pcolormesh(
            layer_edges(run.position),
            run.edges[0],
            self._heights[0].T,
            cmap=shades.cmap,
            norm=shades.norm,
        )
        colour_scale(axes, Key([], self._mesh, height_label(run), []), pad=0.02)
        self._ends: list[Line2D] = [
            axes.axhline(0, color=_BOX, linewidth=1.2) for _ in range(2)
        ]
        (self._tokens,) = axes.plot([], [], ".", color=INK, markersize=2.4)

    @override
    def show(self, frame: int) -> None:
        run = self._run
        low, high = self._views.low[frame, 0], self._views.high[frame, 0]
        self._axes.set(ylim=(low, high))
        stretch = Affine2D().scale(1, run.axes[frame, 0, 0])
        moved = stretch.translate(0, run.origin[frame, 0])
        self._mesh.set_transform(moved + self._axes.transData)
        self._mesh.set_array(self._heights[frame].T)
        for end, place in zip(self._ends, box_corners(run, frame)[:, 0], strict=True):
            end.set_ydata([place, place])
        if run.tokens is not None and run.tokens.position is not None:
            indices = even_frames(run.tokens.x.shape[1], TOKENS)
            self._tokens.set_data(
                run.tokens.position[indices], run.tokens.x[frame, indices, 0]
            )
