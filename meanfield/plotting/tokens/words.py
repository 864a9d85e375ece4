"""Words beside tokens in a panel and in a movie: order, sizes, and places."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.textpath import text_to_path

from meanfield.plotting._figure.style import GREY, INK, paper
from meanfield.plotting._figure.text import verbatim
from meanfield.plotting.reading.data import Cloud
from meanfield.plotting.reading.observables import even_frames

from .labels import labels
from .paths import MAX_PATHS
from .views import Window

LEAD_DISTANCE = 8.0  # distance in points beyond which a line joins dot and word
_SIZE = 0.75  # font size of words in a panel, relative to the default font size
_HIGH, _MARGIN = 1.05, 1.5  # word height relative to its font size; margin in points
_MAX_LABELS = 120  # largest number of words that are placed
_SQUARE = 0.58  # least width of the axes, as a share of the width of the figure


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
    order = np.argsort(ranks, kind="stable")
    return order[:_MAX_LABELS] if words.size > _MAX_LABELS else order


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


def write_word_labels(axes: Axes, x: np.ndarray, cloud: Cloud, view: Window) -> str:
    """Write words at the last places (m, 2) of the drawn tokens; return a note.

    A word far from its dot is joined to it by a line. Words without room are left out.
    """
    assert cloud.words is not None
    figure, size = axes.get_figure(root=True), _SIZE * mpl.rcParams["font.size"]
    assert figure is not None
    drawn_words = cloud.words[even_frames(cloud.words.size, MAX_PATHS)]
    order = word_order(drawn_words)
    words, points = [str(drawn_words[i]) for i in order], x[order]
    extents = word_extents(words, size)
    room = np.full(2, 72 * _SQUARE * figure.get_figwidth())
    unit = 2 * view.half_width / room  # one point, in the coordinates of the tokens
    layout = labels(
        ((points - view.centre) / unit + room / 2)[None],
        extents,
        ranks=np.array([word_rank(word) for word in words]),
        room=room,
    )
    offsets, is_placed = layout.offsets[0], layout.opacity[0] > 0
    for i in np.flatnonzero(is_placed):
        text = write_word(axes, words[i], size)
        text.xy, text.xyann = tuple(points[i]), tuple(offsets[i])
        _join(axes, points[i], offsets[i], extents[i], unit)
    n_placed, n_words = int(is_placed.sum()), drawn_words.size
    return "" if n_placed == n_words else f"{n_placed} of {n_words} words have room"


def _join(
    axes: Axes,
    point: np.ndarray,
    offset: np.ndarray,
    extent: np.ndarray,
    unit: np.ndarray,
) -> None:
    """Draw a line from a dot to the nearest point of its word, if it is far."""
    reach = np.clip(0.0, offset, offset + extent)
    if np.linalg.norm(reach) > LEAD_DISTANCE:
        line = np.stack([point, point + reach * unit])
        axes.plot(*line.T, color=GREY, linewidth=0.5, zorder=4)
