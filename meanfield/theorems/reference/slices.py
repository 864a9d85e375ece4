"""Transport along slices, by ranks and sorts in SciPy and POT."""

from collections.abc import Callable
from itertools import permutations

import numpy as np

from meanfield._pot import ot

Array = np.ndarray


def lifted_plan(a: Array, b: Array, w: Array, v: Array) -> Array:
    """Plan between atoms on the line, lifted from POT's plan between distinct points.

    Atoms at the same point share its mass in proportion to their weights.
    """
    a, b = a.astype(float), b.astype(float)  # POT gives another plan for integer arrays
    places, rows = np.unique(a, return_inverse=True)
    targets, columns = np.unique(b, return_inverse=True)
    masses = np.bincount(rows, w), np.bincount(columns, v)
    plan = np.asarray(ot.emd_1d(places, targets, *masses))
    shares = np.outer(w / masses[0][rows], v / masses[1][columns])
    return plan[np.ix_(rows, columns)] * shares


def quantile_cost(a: Array, b: Array, w: Array, p: int) -> float:
    r"""Cost $\int_0^1 |F_1^{-1} - F_2^{-1}|^p$ of atoms `a`, `b` with weights `w`."""
    sides = [(x[np.argsort(x)], np.cumsum(w[np.argsort(x)])) for x in (a, b)]
    cuts = np.unique(np.concatenate([[0.0], sides[0][1], sides[1][1]]))
    middle = (cuts[1:] + cuts[:-1]) / 2
    first, second = (
        x[np.minimum(np.searchsorted(mass, middle), len(x) - 1)] for x, mass in sides
    )
    return float(np.diff(cuts) @ np.abs(first - second) ** p)


def partner(a: Array, b: Array) -> Array:
    """For each entry of `a`, the index of the entry of `b` with the same rank."""
    partners = np.empty(len(a), int)
    partners[np.argsort(a)] = np.argsort(b)
    return partners


def permutation(v: Array) -> Array:
    """Permutation matrix that sorts `v`: row `i` selects the entry of rank `i`."""
    return np.eye(len(v))[np.argsort(v, kind="stable")]


def soft_permutation(v: Array, t: float, p: int = 1) -> Array:
    r"""SoftSort matrix $\mathrm{softmax}_j(-|\mathrm{sort}(v)_i - v_j|^p/t)$.

    Complex steps in `v` are allowed. The largest exponent of each row is zero.
    """
    gaps = np.sort(v)[:, None] - v[None, :]
    kernel = np.exp(-((gaps * np.sign(np.real(gaps))) ** p) / t)
    return kernel / kernel.sum(axis=1, keepdims=True)


def hard_plan(u: Array, v: Array) -> Array:
    r"""Plan $\frac1NA^\top B$ of the permutations that sort `u` and `v`."""
    return permutation(u).T @ permutation(v) / len(u)


def soft_plan(u: Array, v: Array, t: float, p: int = 1) -> Array:
    r"""Plan $\frac1NA^\top B$ of the soft sorts of `u` and `v`, as published."""
    return soft_permutation(u, t, p).T @ soft_permutation(v, t, p) / len(u)


def divided_soft_plan(u: Array, v: Array, t: float, p: int = 1) -> Array:
    """Plan of soft sorts whose rows are divided by their sums."""
    plan = soft_plan(u, v, t, p)
    return plan / plan.sum(axis=1, keepdims=True) / len(u)


def sliced_plan(
    q: Array,
    k: Array,
    directions: Array,
    *,
    slice_plan: Callable[[Array, Array], Array],
    rate: float,
) -> Array:
    r"""Plan $G = \sum_l\sigma_lU_l$ of Algorithm 1, $\sigma$ = softmax(`rate` · costs).

    Directions are divided by their lengths, and complex steps in them are allowed.
    `slice_plan` maps the projections of queries and of keys to $U_l$.
    """
    units = directions / np.sqrt(np.sum(directions**2, axis=1, keepdims=True))
    plans = np.array([slice_plan(q @ v, k @ v) for v in units])
    logs = rate * np.sum(powers(q, k, 2) * plans, axis=(1, 2))
    shares = np.exp(logs - np.max(np.real(logs)))
    return np.tensordot(shares / shares.sum(), plans, 1)


def overlap(n: int, m: int) -> Array:
    r"""Overlap $I_{ij} = n\,|[\frac{i-1}n, \frac in] \cap [\frac{j-1}m, \frac jm]|$."""
    length = lambda i, j: min((i + 1) * m, (j + 1) * n) - max(i * m, j * n)
    return np.array([[max(length(i, j), 0) / m for j in range(m)] for i in range(n)])


def powers(x: Array, y: Array, p: int) -> Array:
    """Powers $|x_i - y_j|^p$ of distances, also for stacks of clouds."""
    squares = np.sum((x[..., :, None, :] - y[..., None, :, :]) ** 2, axis=-1)
    return squares ** (p / 2)


def cheapest_permutation(cost: Array) -> Array:
    """Least mean cost over all permutations, for each cost matrix of a stack."""
    n = cost.shape[-1]
    orders = np.array(list(permutations(range(n))))
    return cost[..., np.arange(n), orders].mean(axis=-1).min(axis=-1)
