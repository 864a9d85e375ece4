"""Thinning of paths by the rule of Douglas and Peucker."""

from collections.abc import Sequence

import numpy as np


def thin_paths(paths: Sequence[np.ndarray], tolerance: float) -> list[np.ndarray]:
    """The paths without rows that interpolation reproduces up to `tolerance`.

    The last column is the time, which increases. Between kept rows a path is
    interpolated linearly in time; every omitted row lies within `tolerance` of the
    interpolation at its time. This is the rule of Douglas and Peucker with distances at
    equal times, vectorised over paths: each pass keeps the farthest row of every piece.
    """
    rows = np.concatenate(paths)
    ends = np.cumsum([len(path) for path in paths])
    is_kept = np.zeros(len(rows), dtype=bool)
    is_kept[[0, *ends[:-1]]] = True
    is_kept[ends - 1] = True
    while True:
        nodes = np.flatnonzero(is_kept)
        gaps = _gaps(rows, nodes)
        farthest = np.maximum.reduceat(gaps, nodes)[np.cumsum(is_kept) - 1]
        new = (gaps > tolerance) & (gaps == farthest)
        if not new.any():
            break
        is_kept |= new
    masks = np.split(is_kept, ends[:-1])
    return [path[mask] for path, mask in zip(paths, masks, strict=True)]


def _gaps(rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Distances from rows to the linear interpolation between `nodes`."""
    positions = np.searchsorted(nodes, np.arange(len(rows)))
    right = nodes[positions]
    left = np.where(right == np.arange(len(rows)), right, nodes[positions - 1])
    span = rows[right, -1] - rows[left, -1]
    share = (rows[:, -1] - rows[left, -1]) / np.where(span > 0, span, 1.0)
    start = rows[left, :-1]
    straight = start + share[:, None] * (rows[right, :-1] - start)
    return np.linalg.norm(rows[:, :-1] - straight, axis=-1)
