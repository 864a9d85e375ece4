"""Connected components of the graph that links tokens within a radius; exact."""

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


def component_labels(x: np.ndarray, radius: float) -> np.ndarray:
    """The component (0, 1, …) of each token of `x`, of shape (n, d).

    Two tokens are linked when their distance is at most `radius`. Sparse graphs are
    built; crowded ones, of up to n² links, are swept without being built. The
    components are the same.
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
