r"""Clusters of tokens, the exact connected components of a graph of close tokens.

The module uses NumPy and SciPy only. Frames with entries that are not finite, or larger
than `LARGEST`, give NaN.
"""

from typing import NamedTuple

import numpy as np
import scipy  # SciPy loads its submodules lazily

# Above this dimension a k-d tree prunes little, and matrix products are faster.
_TREE_DIMENSION = 12
# A graph is stored if it has at most `_LINKS` links, or `_DEGREE` links per token;
# a larger graph is searched without being stored.
_LINKS, _DEGREE = 500_000, 16
# This many tokens at a time are compared with all others, to bound the memory.
_BLOCK = 512
# The default cluster radius is the larger of two lengths: a share of the RMS radius,
# and a share of the median distance from a token to the nearest other token.
RADIUS_SHARE, _NEAREST_SHARE = 0.05, 0.5
# The median distance to the nearest token is estimated from this many tokens.
_SAMPLE = 200
# Frames with entries larger than this give NaN, since their squares could overflow.
LARGEST = 1e100
# By default, tokens are linked by cosine if it is at least 0.9, that is at angles up to
# 26°, and on spheres, where clusters become points, if it is at least 0.999.
COSINE_LINK, SPHERE_LINK = 0.1, 1e-3
# Coordinate of tokens at zero along an additional axis. They are then farther from all
# unit vectors than two unit vectors can be from each other.
_FAR = 3.0


class ClusterCounts(NamedTuple):
    """Number of clusters, and weight of the heaviest cluster, in each frame.

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
    deviations = x - w @ x
    return float(share * np.sqrt(w @ (deviations**2).sum(axis=-1)))


def cluster_share(x: np.ndarray, weights: np.ndarray) -> float:
    """Default cluster radius of tokens (n, d), as a share of their RMS radius.

    The radius is 5 % of the RMS radius, or half of the median distance to the nearest
    token if that is larger: in hundreds of dimensions, the distances between a few
    tokens all exceed the RMS radius.

    Examples:
        >>> from meanfield.clusters import cluster_share
        >>> cluster_share(np.array([[-1.0], [1.0]]), np.full(2, 0.5))
        1.0
    """
    support = x[weights > 0]
    radius = cluster_radius(x, weights, 1.0)
    if len(support) < 2 or not (np.isfinite(radius) and radius > 0):
        return RADIUS_SHARE
    sample = (
        np.linspace(0, len(support) - 1, min(len(support), _SAMPLE)).round().astype(int)
    )
    distances = scipy.spatial.distance.cdist(support[sample], support)
    nearest = np.partition(distances, 1, axis=1)[:, 1]  # index 0 is the token itself
    return max(RADIUS_SHARE, float(_NEAREST_SHARE * np.median(nearest) / radius))


def cluster_radii(x: np.ndarray, weights: np.ndarray, share: float) -> np.ndarray:
    """Cluster radius in each frame of tokens (time, n, d).

    The radius is proportional to the RMS radius of the cloud in this frame or in the
    first one, whichever is larger. The radius does not shrink with the cloud, so if all
    tokens meet, they become one cluster.

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
    """Number of clusters of tokens (..., n, d), and weight share of the heaviest.

    Clusters are the connected components of the graph that links two tokens at a
    distance of at most `radius`, which may differ between frames. The counts are
    deterministic and do not depend on the order of the tokens. Tokens of weight zero
    are ignored. Frames that are not finite give NaN.

    Examples:
        >>> from meanfield.clusters import cluster_counts
        >>> x = np.array([[0.0], [0.1], [5.0]])
        >>> cluster_counts(x, np.array([0.25, 0.25, 0.5]), 1.0).counts
        np.float64(2.0)
    """
    has_weight = weights > 0
    w = weights[has_weight] / weights[has_weight].sum()
    frames = x[..., has_weight, :].astype(np.float64).reshape(-1, w.size, x.shape[-1])
    radii = np.broadcast_to(radius, x.shape[:-2]).ravel()
    results = np.full((len(frames), 2), np.nan)
    for index, frame in enumerate(frames):  # SciPy takes one graph at a time
        if np.all(np.abs(frame) <= LARGEST):
            masses = np.bincount(component_labels(frame, radii[index]), weights=w)
            results[index] = masses.size, masses.max()
    counts, bulk = np.moveaxis(results.reshape(*x.shape[:-2], 2), -1, 0)
    return ClusterCounts(counts, bulk)


def unit_vectors(x: np.ndarray) -> np.ndarray:
    """The directions of tokens (..., d), without overflow; those of zero are zero.

    Examples:
        >>> from meanfield.clusters import unit_vectors
        >>> print(unit_vectors(np.array([[3e200, 4e200], [0.0, 0.0]])))
        [[0.6 0.8]
         [0.  0. ]]
    """
    largest = np.abs(x).max(axis=-1, keepdims=True)
    scaled_x = x / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(scaled_x, axis=-1, keepdims=True)
    return scaled_x / np.where(lengths > 0, lengths, 1.0)


def embed_directions(x: np.ndarray) -> np.ndarray:
    r"""Tokens (..., d) as points whose distance is $\sqrt{2(1-\cos\theta)}$.

    Tokens at zero have no direction. They become one point far from the others, along
    an additional axis.

    Examples:
        >>> from meanfield.clusters import embed_directions
        >>> print(embed_directions(np.array([[3.0, 4.0], [0.0, 0.0]])))
        [[0.6 0.8 0. ]
         [0.  0.  3. ]]
    """
    directions = unit_vectors(x)
    is_zero = ~np.any(directions, axis=-1, keepdims=True)
    return np.concatenate([directions, np.where(is_zero, _FAR, 0.0)], axis=-1)


def cosine_counts(
    x: np.ndarray, weights: np.ndarray, link: float = SPHERE_LINK
) -> ClusterCounts:
    """Counts as by `cluster_counts`, of tokens linked by a cosine of 1 − `link`.

    Examples:
        >>> from meanfield.clusters import cosine_counts
        >>> x = np.array([[1.0, 0.0], [5.0, 0.1], [0.0, 1.0]])
        >>> cosine_counts(x, np.full(3, 1 / 3)).counts
        np.float64(2.0)
    """
    return cluster_counts(embed_directions(x), weights, np.sqrt(2 * link))


def component_labels(x: np.ndarray, radius: float) -> np.ndarray:
    """Index (0, 1, …) of the connected component of each token of `x`, (n, d).

    Two tokens are linked if their distance is at most `radius`. Sparse graphs are
    stored; dense ones, of up to n² links, are searched without being stored. The
    components are the same either way.

    Examples:
        >>> from meanfield.clusters import component_labels
        >>> print(component_labels(np.array([[0.0], [5.0], [0.1]]), 1.0))
        [0 1 0]
    """
    n, d = x.shape
    max_links = max(_LINKS, _DEGREE * n)
    links = (_tree_links if d <= _TREE_DIMENSION else _block_links)(
        x, radius, max_links
    )
    if links is None:
        return _sweep_labels(x, radius)
    graph = scipy.sparse.coo_array(
        (np.ones(len(links), dtype=bool), tuple(links.T)), shape=(n, n)
    )
    return scipy.sparse.csgraph.connected_components(graph, directed=False)[1]


def _tree_links(x: np.ndarray, radius: float, max_links: int) -> np.ndarray | None:
    """Linked pairs of tokens, by a k-d tree; `None` if there are over `max_links`."""
    tree = scipy.spatial.KDTree(x)
    if tree.count_neighbors(tree, radius) > 2 * max_links:
        return None
    return tree.query_pairs(radius, output_type="ndarray")


def _block_links(x: np.ndarray, radius: float, max_links: int) -> np.ndarray | None:
    """Linked pairs of tokens, block by block; `None` if there are over `max_links`."""
    pairs, total = [], 0
    for start in range(0, len(x), _BLOCK):
        adjacency = _adjacency(x[start : start + _BLOCK], x[start:], radius)
        pairs.append(np.argwhere(np.triu(adjacency, 1)) + start)
        total += len(pairs[-1])
        if total > max_links:
            return None
    return np.concatenate(pairs)


def _adjacency(x: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
    r"""Adjacency matrix: which tokens of `x` and `y` are within `radius` of each other.

    Distances are computed from $|x|^2 + |y|^2 - 2 x \cdot y$ if rounding errors cannot
    change the result, and otherwise from differences.
    """
    centre = y.mean(axis=0)
    u, v = x - centre, y - centre
    u2, v2 = (u**2).sum(axis=1), (v**2).sum(axis=1)
    gap = u2[:, None] + v2 - 2 * u @ v.T - radius**2
    rounding = 4 * (4 + x.shape[1]) * np.finfo(x.dtype).eps * v2.max()
    if np.all(np.abs(gap) > rounding):
        return gap < 0
    return scipy.spatial.distance.cdist(x, y) <= radius


def _sweep_labels(x: np.ndarray, radius: float) -> np.ndarray:
    """Component labels by breadth-first search, which visits each token once."""
    labels = np.empty(len(x), dtype=np.intp)
    rest = np.arange(len(x))
    label = 0
    while rest.size:
        frontier, rest = rest[:1], rest[1:]
        while frontier.size:
            labels[frontier] = label
            is_near = _is_near(x[rest], x[frontier], radius)
            frontier, rest = rest[is_near], rest[~is_near]
        label += 1
    return labels


def _is_near(x: np.ndarray, frontier: np.ndarray, radius: float) -> np.ndarray:
    """Whether each token of `x` is within `radius` of a token of the frontier."""
    is_near = np.zeros(len(x), dtype=bool)
    for start in range(0, len(frontier), _BLOCK):
        far = np.flatnonzero(~is_near)
        distances = scipy.spatial.distance.cdist(
            x[far], frontier[start : start + _BLOCK]
        )
        is_near[far] = (distances <= radius).any(axis=1)
    return is_near
