"""Words beside moving tokens in a movie."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.font_manager import FontProperties
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.textpath import text_to_path
from typing_extensions import override

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.parts import draw_lines
from meanfield.plotting._figure.style import GREY, INK, paper
from meanfield.plotting._figure.text import verbatim

from .labels import Labels, labels
from .moving import AbstractPart, trail_length
from .views import Window, view_limits

_SIZE = 0.82  # font size of words, relative to the default font size
_HIGH, _MARGIN = 1.05, 1.5  # word height relative to its font size; margin in points
_MAX_LABELS = 120  # largest number of words that are placed
_STEP = 2  # number of frames between the points of a tail that words avoid
_LEAD_DISTANCE = 8.0  # distance in points beyond which a line joins dot and word


class WordLabels(AbstractPart):
    """Words beside their tokens where there is room, long words first.

    Args:
        axes: where to draw.
        x: places of all tokens, (frames, n, 2).
        words: the words of all tokens.
        views: the window of each frame.
        look: the look, which may set axis limits.
        trails: trail length of tokens in frames; a default if None.
    """

    def __init__(
        self,
        axes: Axes,
        x: np.ndarray,
        *,
        words: np.ndarray,
        views: list[Window],
        look: Look,
        trails: int | None,
    ) -> None:
        order = word_order(words)
        self._axes, self._views, self._look = axes, views, look
        self._x = x[:, order]
        self._size = _SIZE * mpl.rcParams["font.size"]
        self._words = [str(words[i]) for i in order]
        self._ranks = np.array([_rank(word) for word in self._words])
        self._extents = self._measure()
        self._length = trail_length(x.shape[1], trails)
        self._room, self._labels = np.zeros(2), None
        shades = [to_rgba(GREY)] * order.size
        self._lines = draw_lines(axes, [], shades, linewidths=0.5, zorder=4)
        self._lines.set_linestyle((0, (1.5, 2.5)))  # dashed, because tails are solid
        self._texts = [self._text(word) for word in self._words]
        n = words.size
        self.note = "" if order.size == n else f"words of {order.size} of {n} tokens"

    def _text(self, word: str) -> Annotation:
        text = self._axes.annotate(
            verbatim(word),
            (0.0, 0.0),
            xytext=(0.0, 0.0),
            textcoords="offset points",
            va="bottom",
            fontsize=self._size,
            color=INK,
            zorder=5,
            path_effects=[withStroke(linewidth=1.8, foreground=paper())],
            annotation_clip=False,
        )
        text.set_in_layout(False)
        return text

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
        is_far = np.linalg.norm(reach, axis=1) > _LEAD_DISTANCE
        unit = np.diff(np.reshape(self._axes.viewLim.get_points(), (2, 2)), axis=0)[0]
        ends = points + reach * unit / self._room
        self._lines.set_segments(list(np.stack([points, ends], axis=1)))
        self._lines.set_alpha(np.where(is_far, opacity, 0.0).tolist())

    def _measure(self) -> np.ndarray:
        """Widths and heights of the words, in points."""
        font = FontProperties(size=self._size)
        measure = text_to_path.get_text_width_height_descent
        wide = [measure(word, font, ismath=False)[0] + _MARGIN for word in self._words]
        return np.stack([wide, np.full(len(wide), _HIGH * self._size)], axis=-1)

    def _place_labels(self) -> Labels:
        """The places of the words, recomputed only if the size of the axes changes."""
        figure = self._axes.get_figure(root=True)
        assert figure is not None
        room = (
            72 / figure.dpi * np.array([self._axes.bbox.width, self._axes.bbox.height])
        )
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


def word_order(words: np.ndarray) -> np.ndarray:
    """Indices of the words to place, the most informative first.

    Words of four letters or more come first, then those of three, then shorter ones,
    then punctuation and special tokens such as `[SEP]`; equal ranks keep their order.
    """
    ranks = [_rank(str(word)) for word in words]
    order = np.argsort(ranks, kind="stable")
    return order[:_MAX_LABELS] if words.size > _MAX_LABELS else order


def _rank(word: str) -> int:
    letters = word.removeprefix("##")
    if not letters.isalpha():
        return 3
    return int(np.clip(4 - len(letters), 0, 2))
