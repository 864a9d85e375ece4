"""Words beside tokens in a panel and in a movie: order, sizes, and places."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.font_manager import FontProperties
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.textpath import text_to_path

from meanfield.plotting._figure.parts import draw_lines
from meanfield.plotting._figure.style import GREY, INK, paper
from meanfield.plotting._figure.text import verbatim
from meanfield.plotting.reading.data import Cloud, Swarm
from meanfield.plotting.reading.observables import even_frames

from .labels import Labels, labels
from .moving import trail_length
from .paths import MAX_PATHS
from .views import Window, view_limits

LEAD_DISTANCE = 8.0  # distance in points beyond which a line joins dot and word
_SIZE = 0.75  # font size of words in a panel, relative to the default font size
_HIGH, _MARGIN = 1.05, 1.5  # word height relative to its font size; margin in points
_ROOM = 0.94  # share of the axes that is left if a note on words is added
_MAX_LABELS = 120  # largest number of words that are placed
_MOVIE_SIZE = 0.82  # font size of words, relative to the default font size
_STEP = 2  # number of frames between the points of a tail that words avoid


def word_rank(word: str) -> int:
    """The rank of a word: 0 for four letters or more, 3 for punctuation."""
    letters = word.removeprefix("##")
    if not letters.isalpha():
        return 3
    return int(np.clip(4 - len(letters), 0, 2))


def word_order(words: np.ndarray) -> np.ndarray:
    """Indices of the words to place, the most informative first.

    Words of four letters or more come first, then those of three, then shorter ones,
    then punctuation and special tokens such as `[SEP]`; equal ranks keep their order.
    """
    ranks = [word_rank(str(word)) for word in words]
    return np.argsort(ranks, kind="stable")[:_MAX_LABELS]


def word_extents(words: list[str], size: float) -> np.ndarray:
    """Widths and heights of words of font size `size`, in points, (words, 2)."""
    font = FontProperties(size=size)
    measure = text_to_path.get_text_width_height_descent
    wide = [measure(word, font, ismath=False)[0] + _MARGIN for word in words]
    return np.stack([wide, np.full(len(wide), _HIGH * size)], axis=-1)


def write_word(axes: Axes, word: str, size: float) -> Annotation:
    """Write a word on a stroke of the background; `xy` and `xyann` place it later."""
    text = axes.annotate(
        verbatim(word),
        (0.0, 0.0),
        xytext=(0.0, 0.0),
        textcoords="offset points",
        va="bottom",
        fontsize=size,
        color=INK,
        zorder=5,
        path_effects=[withStroke(linewidth=1.8, foreground=paper())],
        annotation_clip=False,
    )
    text.set_in_layout(False)
    return text


def write_word_labels(axes: Axes, cloud: Cloud) -> str:
    """Write words beside the drawn tokens at the last time; return a note.

    A word far from its dot is joined to it by a line. Words without room are left out.
    There are no words in 1D and 3D, or if a legend explains them.
    """
    state, words = cloud.state, cloud.words
    if not isinstance(state, Swarm) or cloud.dimension != 2 or words is None:
        return ""
    if cloud.look.colour == "label":
        return ""
    figure, size = axes.get_figure(root=True), _SIZE * mpl.rcParams["font.size"]
    assert figure is not None
    figure.draw_without_rendering()  # the layout determines the size of the axes
    indices = even_frames(words.size, MAX_PATHS)
    order = indices[word_order(words[indices])]
    texts, points = [str(word) for word in words[order]], state.x[-1, order]
    extents = word_extents(texts, size)
    room = _ROOM * 72 / figure.dpi * np.array(axes.bbox.size)
    low, high = np.transpose([axes.get_xlim(), axes.get_ylim()])
    unit = (high - low) / room  # one point, in the coordinates of the tokens
    ranks = np.array([word_rank(text) for text in texts])
    layout = labels(((points - low) / unit)[None], extents, ranks=ranks, room=room)
    offsets, is_placed = layout.offsets[0], layout.opacity[0] > 0
    reach = np.clip(0.0, offsets, offsets + extents)  # the nearest points of the words
    for i in np.flatnonzero(is_placed):
        text = write_word(axes, texts[i], size)
        text.xy, text.xyann = tuple(points[i]), tuple(offsets[i])
        if np.linalg.norm(reach[i]) > LEAD_DISTANCE:
            line = np.stack([points[i], points[i] + reach[i] * unit])
            axes.plot(*line.T, color=GREY, linewidth=0.5, zorder=4)
    n_placed, n_words = int(is_placed.sum()), indices.size
    return "" if n_placed == n_words else f"{n_placed} of {n_words} words have room"


class WordLabels:
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
        size = _MOVIE_SIZE * mpl.rcParams["font.size"]
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

    def show(self, frame: int, view: Window) -> None:
        """Move the words to their places in `frame`."""
        del view  # the words have the views of all frames
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
