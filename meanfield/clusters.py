r"""Clusters of tokens: the connected components of tokens within a radius; exact.

Plain NumPy and SciPy, for runs and pictures. Frames that are not finite, or beyond
`LARGEST`, come out as NaN.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

# A tree prunes little above this dimension; products of matrices are faster.
_TREE_DIMENSION = 12
# A graph is built up to this many links, or links per token; else it is swept.
_LINKS, _DEGREE = 500_000, 16
# Tokens compared at once with all others: bounds the memory of a comparison.
_BLOCK = 512
# The default radius of clusters, as a share of the RMS radius; or, where tokens are
# farther apart than that at first, this share of the distance to the nearest.
RADIUS_SHARE, _NEAREST_SHARE = 0.05, 0.5
# Tokens whose nearest neighbours are looked for.
_SAMPLE = 200
# Larger entries are NaN in what is computed: their squares would overflow.
LARGEST = 1e100


class ClusterCounts(NamedTuple):
    """Clusters over the leading axes: how many, and the weight of the heaviest.

    Examples:
        >>> from meanfield.clusters import cluster_counts
        >>> x = np.array([[0.0], [0.1], [5.0]])
        >>> cluster_counts(x, np.full(3, 1 / 3), 1.0)
        ClusterCounts(counts=np.float64(2.0), bulk=np.float64(0.66666...))
    """

    counts: np.ndarray
    bulk: np.ndarray


def cluster_radius(
    x: np.ndarray, weights: np.ndarray, share: float = RADIUS_SHARE
) -> float:
    r"""`share` of the RMS radius $\sqrt{\operatorname{tr}\Sigma}$ of tokens (n, d).

    Examples:
        >>> from meanfield.clusters import cluster_radius
        >>> x = np.array([[-1.0, 0.0], [1.0, 0.0]])
        >>> cluster_radius(x, np.full(2, 0.5), share=0.25)
        0.25
    """
    w = weights / weights.sum()
    centred = x - w @ x
    return float(share * np.sqrt(w @ (centred**2).sum(axis=-1)))


def cluster_share(x: np.ndarray, weights: np.ndarray) -> float:
    """The share of the RMS radius of tokens (n, d) within which they are clusters.

    Five per cent; or half of the median distance to the nearest token, if that is more:
    in hundreds of dimensions no two of few tokens are nearer than the RMS radius.

    Examples:
        >>> from meanfield.clusters import cluster_share
        >>> cluster_share(np.array([[-1.0], [1.0]]), np.full(2, 0.5))
        1.0
    """
    held = x[weights > 0]
    radius = cluster_radius(x, weights, 1.0)
    if len(held) < 2 or not (np.isfinite(radius) and radius > 0):
        return RADIUS_SHARE
    sample = np.linspace(0, len(held) - 1, min(len(held), _SAMPLE)).round().astype(int)
    distances = cdist(held[sample], held)
    nearest = np.partition(distances, 1, axis=1)[:, 1]  # the first is the token itself
    return max(RADIUS_SHARE, float(_NEAREST_SHARE * np.median(nearest) / radius))


def cluster_radii(x: np.ndarray, weights: np.ndarray, share: float) -> np.ndarray:
    """The radius of clusters in each frame of tokens (time, n, d).

    It follows a cloud that grows beyond its first frame; in one that shrinks it stays,
    so that tokens which all meet become one cluster.

    Examples:
        >>> from meanfield.clusters import cluster_radii
        >>> x = np.array([[[-1.0], [1.0]], [[-0.1], [0.1]], [[-2.0], [2.0]]])
        >>> print(cluster_radii(x, np.full(2, 0.5), share=0.5))
        [0.5 0.5 1. ]
    """
    sizes = [cluster_radius(frame, weights, share) for frame in x]
    return np.fmax(sizes, sizes[0])


def cluster_counts(
    x: np.ndarray, weights: np.ndarray, radius: float | np.ndarray
) -> ClusterCounts:
    """The number of clusters of tokens (..., n, d), and the share of the heaviest.

    Clusters are the connected components of the graph that links two tokens at a
    distance of at most `radius`, which may differ from frame to frame: deterministic,
    and blind to the tokens' order. Tokens of weight zero do not count. Frames that are
    not finite give NaN.

    Examples:
        >>> from meanfield.clusters import cluster_counts
        >>> x = np.array([[0.0], [0.1], [5.0]])
        >>> cluster_counts(x, np.array([0.25, 0.25, 0.5]), 1.0).counts
        np.float64(2.0)
    """
    held = weights > 0
    w = weights[held] / weights[held].sum()
    frames = x[..., held, :].astype(np.float64).reshape(-1, w.size, x.shape[-1])
    radii = np.broadcast_to(radius, x.shape[:-2]).ravel()
    results = np.full((len(frames), 2), np.nan)
    for index, frame in enumerate(frames):  # a graph algorithm, frame by frame
        if np.all(np.abs(frame) <= LARGEST):
            masses = np.bincount(component_labels(frame, radii[index]), weights=w)
            results[index] = masses.size, masses.max()
    counts, bulk = np.moveaxis(results.reshape(*x.shape[:-2], 2), -1, 0)
    return ClusterCounts(counts, bulk)


def component_labels(x: np.ndarray, radius: float) -> np.ndarray:
    """The component (0, 1, …) of each token of `x`, of shape (n, d).

    Two tokens are linked when their distance is at most `radius`. Sparse graphs are
    built; crowded ones, of up to n² links, are swept without being built. The
    components are the same.

    Examples:
        >>> from meanfield.clusters import component_labels
        >>> print(component_labels(np.array([[0.0], [5.0], [0.1]]), 1.0))
        [0 1 0]
    """
    n, d = x.shape
    most = max(_LINKS, _DEGREE * n)
    links = (_tree_links if d <= _TREE_DIMENSION else _block_links)(x, radius, most)
    if links is None:
        return _swept(x, radius)
    graph = coo_array((np.ones(len(links), dtype=bool), tuple(links.T)), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def _tree_links(x: np.ndarray, radius: float, most: int) -> np.ndarray | None:
    """The pairs of linked tokens by a k-d tree; None if there are over `most`."""
    tree = KDTree(x)
    if tree.count_neighbors(tree, radius) > 2 * most:
        return None
    return tree.query_pairs(radius, output_type="ndarray")


def _block_links(x: np.ndarray, radius: float, most: int) -> np.ndarray | None:
    """The pairs of linked tokens, block by block; None if there are over `most`."""
    pairs, total = [], 0
    for start in range(0, len(x), _BLOCK):
        linked = _linked(x[start : start + _BLOCK], x[start:], radius)
        pairs.append(np.argwhere(np.triu(linked, 1)) + start)
        total += len(pairs[-1])
        if total > most:
            return None
    return np.concatenate(pairs)


def _linked(x: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
    r"""Which of `x` are within `radius` of which of `y`.

    By $|x|^2 + |y|^2 - 2 x \cdot y$ where its rounding leaves no doubt; if it ever
    does, by differences.
    """
    centre = y.mean(axis=0)
    u, v = x - centre, y - centre
    u2, v2 = (u**2).sum(axis=1), (v**2).sum(axis=1)
    gap = u2[:, None] + v2 - 2 * u @ v.T - radius**2
    rounding = 4 * (4 + x.shape[1]) * np.finfo(x.dtype).eps * v2.max()
    if np.all(np.abs(gap) > rounding):
        return gap < 0
    return cdist(x, y) <= radius


def _swept(x: np.ndarray, radius: float) -> np.ndarray:
    """Components by breadth-first search, each token being met only once."""
    labels = np.empty(len(x), dtype=np.intp)
    rest = np.arange(len(x))
    label = 0
    while rest.size:
        frontier, rest = rest[:1], rest[1:]
        while frontier.size:
            labels[frontier] = label
            near = _near(x[rest], x[frontier], radius)
            frontier, rest = rest[near], rest[~near]
        label += 1
    return labels


def _near(x: np.ndarray, frontier: np.ndarray, radius: float) -> np.ndarray:
    """Which tokens of `x` are within `radius` of a token of the frontier."""
    near = np.zeros(len(x), dtype=bool)
    for start in range(0, len(frontier), _BLOCK):
        far = np.flatnonzero(~near)
        distances = cdist(x[far], frontier[start : start + _BLOCK])
        near[far] = (distances <= radius).any(axis=1)
    return near
