"""Words beside moving tokens in a movie."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from typing_extensions import override

from meanfield.plotting._figure.parts import draw_lines
from meanfield.plotting._figure.style import GREY
from meanfield.plotting.reading.data import Cloud

from .labels import Labels, labels
from .moving import AbstractPart, trail_length
from .views import Window, view_limits
from .words import LEAD_DISTANCE, word_extents, word_order, word_rank, write_word

_SIZE = 0.82  # font size of words, relative to the default font size
_STEP = 2  # number of frames between the points of a tail that words avoid


class WordLabels(AbstractPart):
    """Words beside their tokens where there is room, long words first.

    Args:
        axes: where to draw.
        cloud: tokens with words, in the plane.
        views: the window of each frame.
        trails: trail length of tokens in frames; a default if None.
    """

    def __init__(
        self, axes: Axes, cloud: Cloud, *, views: list[Window], trails: int | None
    ) -> None:
        x, words = cloud.state[0], cloud.words
        assert words is not None
        order = word_order(words)
        self._axes, self._views, self._look = axes, views, cloud.look
        self._x = x[:, order]
        size = _SIZE * mpl.rcParams["font.size"]
        words_in_order = [str(words[i]) for i in order]
        self._ranks = np.array([word_rank(word) for word in words_in_order])
        self._extents = word_extents(words_in_order, size)
        self._length = trail_length(x.shape[1], trails)
        self._room, self._labels = np.zeros(2), None
        shades = [to_rgba(GREY)] * order.size
        self._lines = draw_lines(axes, [], shades, linewidths=0.5, zorder=4)
        self._lines.set_linestyle((0, (1.5, 2.5)))  # dashed, because tails are solid
        self._texts = [write_word(axes, word, size) for word in words_in_order]
        n = words.size
        self.note = "" if order.size == n else f"words of {order.size} of {n} tokens"

    @override
    def show(self, frame: int, view: Window) -> None:
        layout = self._place_labels()
        points = self._x[frame]
        offsets, opacity = layout.offsets[frame], layout.opacity[frame]
        for text, place, offset, alpha in zip(
            self._texts, points, offsets, opacity, strict=True
        ):
            text.set_visible(bool(alpha > 0))
            if alpha > 0:
                text.xy, text.xyann = tuple(place), tuple(offset)
                text.set_alpha(float(alpha))
        self._lead(points, offsets, opacity)

    def _lead(
        self, points: np.ndarray, offsets: np.ndarray, opacity: np.ndarray
    ) -> None:
        """Draw a line from the dot to the nearest point of every word far from it."""
        reach = np.clip(0.0, offsets, offsets + self._extents)
        is_far = np.linalg.norm(reach, axis=1) > LEAD_DISTANCE
        ends = points + reach * self._axes.viewLim.size / self._room
        self._lines.set_segments(list(np.stack([points, ends], axis=1)))
        self._lines.set_alpha(np.where(is_far, opacity, 0.0).tolist())

    def _place_labels(self) -> Labels:
        """The places of the words, recomputed only if the size of the axes changes."""
        figure = self._axes.get_figure(root=True)
        assert figure is not None
        room = 72 / figure.dpi * np.array(self._axes.bbox.size)
        if self._labels is None or not np.allclose(room, self._room, rtol=1e-3):
            self._room = room
            corners = [view_limits(view, room, self._look) for view in self._views]
            low, high = np.stack(corners, axis=1)[:, :, None]
            dots = (self._x - low) / (high - low) * room
            tails = (self._tails() - low[:, :, None]) / (high - low)[:, :, None] * room
            self._labels = labels(
                dots,
                self._extents,
                ranks=self._ranks,
                room=room,
                tails=tails.reshape(len(dots), -1, 2),
            )
        return self._labels

    def _tails(self) -> np.ndarray:
        """Points of the tails of the words' tokens, (frames, k, words, 2)."""
        frames = np.arange(len(self._x))
        lags = np.arange(_STEP, self._length + 1, _STEP)
        return self._x[np.maximum(frames[:, None] - lags, 0)]
