"""Where words stand beside moving tokens: near, apart, and where they stood before."""

from typing import NamedTuple

import numpy as np

_GAP, _FAR = 3.0, (15.0, 30.0)  # points from a dot; beyond the gap with a line
_BESIDE = ((1, 0.5), (1, -0.5), (-1, 0.5), (-1, -0.5), (1, 0), (-1, 0), (0, 1), (0, -1))
# A word moves to a better place if it is better by the first; it hides dots at the
# second each, each line to a dot costs the third, and each tail or line below the
# word the last.
_HABIT, _COVERS, _LINE, _STRUCK = 2.5, 1.0, 1.2, 0.7
_HIDDEN = 3  # dots at most that are counted as hidden, and points of tails or lines
_ALONG = np.linspace(0.1, 0.9, 7)  # points of a line to a dot
LEADING = 1  # the last rank of words to which lines lead
_FADE = 3  # frames in which a word appears, or appears elsewhere


class Labels(NamedTuple):
    """Corners (frames, words, 2) from their dots, and opacities (frames, words)."""

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
    """The places of words in all frames; those of low rank come first.

    A word that stood beside its dot goes on standing there if it can. Words cover no
    other word, and few dots and tails, and no line to a dot crosses them. Those without
    room are hidden, as those of dots outside the page, and those of a rank above
    `LEADING` stand close to their dots only.

    Args:
        dots: of the words, (frames, words, 2), in points from the lower left corner.
        sizes: of the words, (words, 2), in points.
        ranks: of the words, (words,).
        room: the size of the page, (2,), in points.
        tails: points of the tails of dots, (frames, k, 2); None if they have none.
    """
    corners = _corners(sizes)
    page = _Page(corners, sizes, ranks, room)
    chosen = np.full(dots.shape[:2], -1)
    before = np.full(dots.shape[1], -1)
    behind = np.empty((len(dots), 0, 2)) if tails is None else tails
    for frame, places in enumerate(dots):
        before = _chosen(places, page, before, behind[frame])
        chosen[frame] = before
    offsets = corners[np.arange(dots.shape[1]), np.maximum(chosen, 0)]
    return Labels(offsets, _faded(chosen))


class _Page(NamedTuple):
    """What is the same in all frames: see `labels`, and `_corners`."""

    corners: np.ndarray
    sizes: np.ndarray
    ranks: np.ndarray
    room: np.ndarray


def _corners(sizes: np.ndarray) -> np.ndarray:
    """The lower left corners from a dot that each word may have, (words, k, 2)."""
    ways = np.array(_BESIDE, dtype=float)
    near = (ways - 1) / 2 * sizes[:, None] + _GAP * np.sign(ways)
    long = ways / np.linalg.norm(ways, axis=1, keepdims=True)
    far = [(np.sign(ways) - 1) / 2 * sizes[:, None] + reach * long for reach in _FAR]
    return np.concatenate([near, *far], axis=1)


def _chosen(
    dots: np.ndarray, page: _Page, before: np.ndarray, tails: np.ndarray
) -> np.ndarray:
    """The place of each word in one frame, -1 of those without."""
    chosen = np.full(len(dots), -1)
    taken, thin = np.empty((0, 4)), np.hstack([tails, tails])
    boxes, fits, is_far = _boxes(dots, page)
    lines, spots = _lines(dots, page), np.hstack([dots, dots])
    for word in np.lexsort([before < 0, page.ranks]):
        crossed = _overlaps(lines[word].reshape(-1, 4), taken).any(axis=1)
        free = fits[word] & ~crossed.reshape(is_far.size, -1).any(axis=1)
        free &= ~_overlaps(boxes[word], taken).any(axis=1)
        if not free.any():
            continue
        costs = _LINE * is_far + _COVERS * _hidden(boxes[word], spots)
        costs += _STRUCK * _hidden(boxes[word], thin)
        costs = np.where(free, costs, np.inf)
        if before[word] >= 0:
            costs[before[word]] -= _HABIT
        place = chosen[word] = np.argmin(costs)
        taken = np.vstack([taken, boxes[word, place]])
        if is_far[place]:
            thin = np.vstack([thin, lines[word, place]])
    return chosen


def _boxes(dots: np.ndarray, page: _Page) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes of words at each place, (words, k, 4); which fit; which are far, (k,)."""
    lows = dots[:, None] + page.corners
    boxes = np.concatenate([lows, lows + page.sizes[:, None]], axis=-1)
    fits = (boxes[..., :2] >= 0).all(-1) & (boxes[..., 2:] <= page.room).all(-1)
    fits &= np.all((dots >= 0) & (dots <= page.room), axis=-1)[:, None]
    is_far = np.arange(page.corners.shape[1]) >= len(_BESIDE)
    return boxes, fits & ~(is_far & (page.ranks > LEADING)[:, None]), is_far


def _hidden(boxes: np.ndarray, spots: np.ndarray) -> np.ndarray:
    """How many spots each box hides, up to those that count."""
    return np.minimum(_overlaps(boxes, spots).sum(axis=1), _HIDDEN)


def _lines(dots: np.ndarray, page: _Page) -> np.ndarray:
    """Points of the lines to words at each of their places, (words, places, k, 4)."""
    reach = np.clip(0.0, page.corners, page.corners + page.sizes[:, None])
    points = dots[:, None, None] + _ALONG[:, None] * reach[:, :, None]
    return np.concatenate([points, points], axis=-1)


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which boxes (k, 4) meet which others (m, 4)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.all(low <= high, axis=-1)


def _faded(chosen: np.ndarray) -> np.ndarray:
    """Opacities that come within a few frames; what has no room goes at once."""
    before = chosen[0]
    ages = np.full(before.shape, _FADE)
    opacity = np.empty(chosen.shape)
    for frame, places in enumerate(chosen):
        ages = np.where(places == before, np.minimum(ages + 1, _FADE), 0)
        opacity[frame] = np.where(places >= 0, (1 + ages) / (1 + _FADE), 0.0)
        before = places
    opacity[-1] = chosen[-1] >= 0  # the last frame stands still, and is read
    return opacity
