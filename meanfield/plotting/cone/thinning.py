"""Paths with as few points as the eye needs."""

from collections.abc import Sequence

import numpy as np


def thinned(paths: Sequence[np.ndarray], tolerance: float) -> list[np.ndarray]:
    """The paths with rows left out, never off by more than `tolerance`.

    The last column is the time, which increases. Between kept rows a path is straight
    and its speed constant; every row left out lies within `tolerance` of where that
    puts it at its time. This is the rule of Douglas and Peucker with distances at equal
    times, for all paths at once: each pass keeps the farthest row of every piece.
    """
    rows = np.concatenate(paths)
    ends = np.cumsum([len(path) for path in paths])
    kept = np.zeros(len(rows), dtype=bool)
    kept[[0, *ends[:-1]]] = True
    kept[ends - 1] = True
    while True:
        nodes = np.flatnonzero(kept)
        gaps = _gaps(rows, nodes)
        farthest = np.maximum.reduceat(gaps, nodes)[np.cumsum(kept) - 1]
        new = (gaps > tolerance) & (gaps == farthest)
        if not new.any():
            break
        kept |= new
    masks = np.split(kept, ends[:-1])
    return [path[mask] for path, mask in zip(paths, masks, strict=True)]


def _gaps(rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Distances of rows to the path that is straight between `nodes`."""
    after = np.searchsorted(nodes, np.arange(len(rows)))
    right = nodes[after]
    left = np.where(right == np.arange(len(rows)), right, nodes[after - 1])
    span = rows[right, -1] - rows[left, -1]
    share = (rows[:, -1] - rows[left, -1]) / np.where(span > 0, span, 1.0)
    start = rows[left, :-1]
    straight = start + share[:, None] * (rows[right, :-1] - start)
    return np.linalg.norm(rows[:, :-1] - straight, axis=-1)
