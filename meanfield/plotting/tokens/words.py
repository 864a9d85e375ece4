"""Words beside tokens in a panel, where they do not overlap."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from meanfield.plotting._figure.style import INK, paper
from meanfield.plotting._figure.text import verbatim
from meanfield.plotting.reading.data import Cloud
from meanfield.plotting.reading.observables import even_frames

from .paths import MAX_PATHS
from .views import Window

_SIZE = 0.75  # font size of words, relative to the default font size
_WIDE, _HIGH = 0.55, 1.2  # width and height of a letter, relative to its font size
_VIEW_SHARE = 0.95  # words must be within this share of the view's half-width
_SQUARE = 0.68  # width of the axes, as a share of the width of the figure


def write_word_labels(axes: Axes, x: np.ndarray, cloud: Cloud, view: Window) -> str:
    """Write words at the last places (m, 2) of the drawn tokens; return a note.

    Words are placed in order; a word that would cover an earlier one is left out.
    """
    assert cloud.words is not None
    figure, size = axes.get_figure(root=True), _SIZE * mpl.rcParams["font.size"]
    assert figure is not None
    # The variable `unit` is the length of one point in the coordinates of the tokens.
    unit = 2 * view.half_width / (72 * _SQUARE * figure.get_figwidth())
    indices = even_frames(cloud.words.size, MAX_PATHS)
    words = [str(word) for word in cloud.words[indices]]
    boxes: list[np.ndarray] = []
    for word, (left, low) in zip(words, x, strict=True):
        extent = size * unit * np.array([_WIDE * len(word) + 0.5, _HIGH])
        box = np.stack([[left, low], np.array([left, low]) + extent])
        if _is_free(box, boxes, view):
            boxes.append(box)
            axes.annotate(
                verbatim(word),
                (left, low),
                xytext=(2.5, 1.5),
                textcoords="offset points",
                fontsize=size,
                color=INK,
                zorder=5,
                path_effects=[withStroke(linewidth=1.8, foreground=paper())],
            )
    if len(boxes) == len(words):
        return ""
    return f"{len(boxes)} of {len(words)} words have room"


def _is_free(box: np.ndarray, boxes: list[np.ndarray], view: Window) -> bool:
    """Whether a box is inside the view and overlaps no other."""
    offset = np.abs(box - view.centre).max()
    if not offset <= _VIEW_SHARE * view.half_width:
        return False
    return all(
        (box[1] <= neighbour[0]).any() or (neighbour[1] <= box[0]).any()
        for neighbour in boxes
    )
