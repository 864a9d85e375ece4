"""Placement of words beside moving tokens: close, without overlaps, and steady."""

from itertools import product
from typing import NamedTuple

import numpy as np

_GAP, _FAR = 3.0, (15.0, 30.0)  # distances of words from dots, in points
_OFFSETS = (*product((1, -1), (0.5, -0.5)), (1, 0), (-1, 0), (0, 1), (0, -1))
# A word takes the place of least cost. Keeping the previous place saves `_HABIT`; each
# hidden dot costs `_COVERS`, a line to the dot costs `_LINE`, and each hidden point of
# a tail or line costs `_STRUCK`.
_HABIT, _COVERS, _LINE, _STRUCK = 2.5, 1.0, 1.2, 0.7
_MAX_HIDDEN = 3  # at most this many hidden dots or points are counted per word
_LINE_SAMPLES = np.linspace(0.1, 0.9, 7)  # sample points of a line to a dot
LEADING = 1  # largest rank of words that can be far from their dots
_FADE = 3  # number of frames in which a word fades in


class Labels(NamedTuple):
    """Lower left corners of words, relative to the dots of the words, and opacities.

    The corners have shape (frames, words, 2), the opacities (frames, words).
    """

    offsets: np.ndarray
    opacity: np.ndarray


def labels(
    dots: np.ndarray,
    sizes: np.ndarray,
    *,
    ranks: np.ndarray,
    room: np.ndarray,
    tails: np.ndarray | None = None,
) -> Labels:
    """Places of words in all frames; words of low rank are placed first.

    A word keeps its place relative to its dot where possible. Words do not overlap each
    other or cross lines to other dots, and they hide few dots and tails. Words without
    room, or whose dots are outside the page, are hidden; words with a rank above
    `LEADING` must be close to their dots.

    Args:
        dots: dots of the words, (frames, words, 2), in points from the lower left.
        sizes: widths and heights of the words, (words, 2), in points.
        ranks: ranks of the words, (words,); low ranks are placed first.
        room: the size of the page, (2,), in points.
        tails: points of the tails of dots, (frames, k, 2); None without tails.
    """
    corners = _corners(sizes)
    page = _Page(corners, sizes, ranks, room)
    choices = np.full(dots.shape[:2], -1)
    previous = np.full(dots.shape[1], -1)
    tail_points = np.empty((len(dots), 0, 2)) if tails is None else tails
    for frame, places in enumerate(dots):
        previous = _choose_places(places, page, previous, tail_points[frame])
        choices[frame] = previous
    offsets = corners[np.arange(dots.shape[1]), np.maximum(choices, 0)]
    return Labels(offsets, _opacities(choices))


class _Page(NamedTuple):
    """Arguments of `labels` common to all frames, and the result of `_corners`."""

    corners: np.ndarray
    sizes: np.ndarray
    ranks: np.ndarray
    room: np.ndarray


def _corners(sizes: np.ndarray) -> np.ndarray:
    """Candidate lower left corners of each word relative to its dot, (words, k, 2)."""
    ways = np.array(_OFFSETS, dtype=float)
    close_corners = (ways - 1) / 2 * sizes[:, None] + _GAP * np.sign(ways)
    long = ways / np.linalg.norm(ways, axis=1, keepdims=True)
    far = [(np.sign(ways) - 1) / 2 * sizes[:, None] + reach * long for reach in _FAR]
    return np.concatenate([close_corners, *far], axis=1)


def _choose_places(
    dots: np.ndarray, page: _Page, previous: np.ndarray, tails: np.ndarray
) -> np.ndarray:
    """The index of each word's place in one frame; -1 if it has none."""
    choices = np.full(len(dots), -1)
    obstacles, thin = np.empty((0, 4)), np.hstack([tails, tails])
    boxes, fits, is_far = _boxes(dots, page)
    lines, spots = _lines(dots, page), np.hstack([dots, dots])
    for word in np.lexsort([previous < 0, page.ranks]):
        is_crossed = _overlaps(lines[word].reshape(-1, 4), obstacles).any(axis=1)
        free = fits[word] & ~is_crossed.reshape(is_far.size, -1).any(axis=1)
        free &= ~_overlaps(boxes[word], obstacles).any(axis=1)
        if not free.any():
            continue
        costs = _LINE * is_far + _COVERS * _count_hidden(boxes[word], spots)
        costs += _STRUCK * _count_hidden(boxes[word], thin)
        costs = np.where(free, costs, np.inf)
        if previous[word] >= 0:
            costs[previous[word]] -= _HABIT
        place = choices[word] = np.argmin(costs)
        obstacles = np.vstack([obstacles, boxes[word, place]])
        if is_far[place]:
            thin = np.vstack([thin, lines[word, place]])
    return choices


def _boxes(dots: np.ndarray, page: _Page) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes (words, k, 4) of words at each place; masks of allowed and far places."""
    lows = dots[:, None] + page.corners
    boxes = np.concatenate([lows, lows + page.sizes[:, None]], axis=-1)
    fits = (boxes[..., :2] >= 0).all(-1) & (boxes[..., 2:] <= page.room).all(-1)
    fits &= np.all((dots >= 0) & (dots <= page.room), axis=-1)[:, None]
    is_far = np.arange(page.corners.shape[1]) >= len(_OFFSETS)
    return boxes, fits & ~(is_far & (page.ranks > LEADING)[:, None]), is_far


def _count_hidden(boxes: np.ndarray, spots: np.ndarray) -> np.ndarray:
    """The number of points that each box hides, at most `_MAX_HIDDEN`."""
    return np.minimum(_overlaps(boxes, spots).sum(axis=1), _MAX_HIDDEN)


def _lines(dots: np.ndarray, page: _Page) -> np.ndarray:
    """Points of the lines from dots to words at each place, (words, places, k, 4)."""
    reach = np.clip(0.0, page.corners, page.corners + page.sizes[:, None])
    points = dots[:, None, None] + _LINE_SAMPLES[:, None] * reach[:, :, None]
    return np.concatenate([points, points], axis=-1)


def _overlaps(boxes: np.ndarray, obstacles: np.ndarray) -> np.ndarray:
    """Mask (k, m) of the boxes (k, 4) that intersect obstacles (m, 4)."""
    low = np.maximum(boxes[:, None, :2], obstacles[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], obstacles[None, :, 2:])
    return np.all(low <= high, axis=-1)


def _opacities(choices: np.ndarray) -> np.ndarray:
    """Opacities (frames, words): words fade in after a move, and vanish abruptly."""
    previous = choices[0]
    ages = np.full(previous.shape, _FADE)
    opacity = np.empty(choices.shape)
    for frame, places in enumerate(choices):
        ages = np.where(places == previous, np.minimum(ages + 1, _FADE), 0)
        opacity[frame] = np.where(places >= 0, (1 + ages) / (1 + _FADE), 0.0)
        previous = places
    opacity[-1] = choices[-1] >= 0  # no word is faint in the last frame, which is held
    return opacity
