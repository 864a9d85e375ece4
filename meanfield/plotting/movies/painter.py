"""Rendering of the frames of a figure; static parts are drawn once for each view."""

from collections.abc import Iterator

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from mpl_toolkits.mplot3d import Axes3D
from PIL import Image

from meanfield.plotting._figure.panels import COLOUR_BAR

_ROUNDING = 1e-9  # relative increase of the resolution, so that rounding loses no pixel


class Painter:
    """Renders a figure repeatedly; in 2D, it redraws static parts only for a new view.

    Args:
        figure: the figure, whose layout is fixed.
        width: its width in pixels.
    """

    def __init__(self, figure: Figure, width: int) -> None:
        figure.set_dpi(width / figure.get_figwidth() * (1 + _ROUNDING))
        self._figure, self._canvas = figure, FigureCanvasAgg(figure)
        self._in_space = any(isinstance(axes, Axes3D) for axes in figure.axes)
        self._view, self._backdrop = None, None

    def image(self) -> Image.Image:
        """The figure in its current state, as an image."""
        if self._in_space:
            self._canvas.draw()
        else:
            self._repaint()
        return Image.fromarray(np.asarray(self._canvas.buffer_rgba())[..., :3])

    def _repaint(self) -> None:
        movers = list(_movers(self._figure))
        view = [axes.viewLim.bounds for axes in self._figure.axes]
        if view != self._view:
            for mover in movers:
                mover.set_visible(False)
            self._canvas.draw()
            self._backdrop = self._canvas.copy_from_bbox(self._figure.bbox)
            for mover in movers:
                mover.set_visible(True)
            self._view = view
        self._canvas.restore_region(self._backdrop)
        for mover in sorted(movers, key=Artist.get_zorder):
            mover.draw(self._canvas.get_renderer())


def _movers(figure: Figure) -> Iterator[Artist]:
    """The artists that may change, unlike axes frames, legends and small print."""
    yield from figure.artists
    for axes in figure.axes:
        if axes.get_label() != COLOUR_BAR:
            yield from (part for part in axes.get_children() if _is_moving(part, axes))


def _is_moving(part: Artist, axes: Axes) -> bool:
    static_parts = (*axes.spines.values(), axes.xaxis, axes.yaxis, axes.patch)
    return (
        part.get_visible() and part not in static_parts and not isinstance(part, Legend)
    )
