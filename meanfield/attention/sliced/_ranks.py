r"""Optimal transport on the line by ranks: $T = F_K^{-1}\circ F_Q$, in $O(n\log n)$."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._order import argsort_rows


class Side(NamedTuple):
    """Weighted atoms on the line, in increasing order.

    Attributes:
        order: index of the atom of each rank.
        places: positions of the atoms, sorted.
        edges: the mass below each atom, and finally the total mass, which is one.
        even: whether all masses are equal.
    """

    order: Int[Array, " n"]
    places: Float[Array, " n"]
    edges: Float[Array, " n+1"]
    even: Bool[Array, ""]


MAX_TERMS = 64  # largest number of coordinates added in one unrolled expression


def project(x: Float[Array, "n d"], v: Float[Array, " d"]) -> Float[Array, " n"]:
    r"""The products $x_i\cdot v$, rounded independently of the number of tokens."""
    return project_slices(x, v[None])[0]


def project_slices(
    x: Float[Array, "n d"], v: Float[Array, "s d"]
) -> Float[Array, "s n"]:
    r"""The products $x_i\cdot v$ for several slices, added coordinate by coordinate.

    A token can be found among others only if its projection is the same to the last
    digit each time it is computed. A matrix product does not guarantee that, since its
    rounding depends on the shapes.
    """
    d = x.shape[1]
    term = lambda c: v[:, c, None] * x[None, :, c]
    if d <= MAX_TERMS:
        return sum(map(term, range(1, d)), term(0))
    x, v = x.T, v.T  # so that the loop reads contiguous rows
    add = lambda c, sums: sums + v[c][:, None] * x[c][None, :]
    return jax.lax.fori_loop(0, d, add, jnp.zeros((v.shape[1], x.shape[1]), x.dtype))


def sort_side(places: Float[Array, " n"], shares: Float[Array, " n"]) -> Side:
    """Sorts atoms with the masses `shares`; atoms without mass go last."""
    return jax.tree.map(lambda row: row[0], sort_sides(places[None], shares))


def sort_sides(places: Float[Array, "s n"], shares: Float[Array, " n"]) -> Side:
    """Sorts the same atoms by several sets of positions; returns a stack of sides."""
    places = jnp.where(shares > 0, places, jnp.inf)
    arrange = jax.vmap(_arrange_side, in_axes=(0, 0, None))
    return arrange(places, argsort_rows(places), shares)


def _arrange_side(
    places: Float[Array, " n"], order: Int[Array, " n"], shares: Float[Array, " n"]
) -> Side:
    mass = jnp.cumsum(shares[order])
    edges = jnp.concatenate([jnp.zeros(1, mass.dtype), mass])
    even = jnp.all(shares == shares[0])
    return Side(order, places[order], jnp.minimum(edges / edges[-1], 1), even)


def partner_means(
    queries: Side, keys: Side, points: Float[Array, " m"], y: Float[Array, "n d"]
) -> Float[Array, "m d"]:
    r"""The mean of $y$ over the keys that the optimal plan assigns to a query.

    This is the lifted plan of shahbazi2025, eq. (5): queries at the same position share
    their partners, and so do keys. The numbers of atoms and their weights are arbitrary
    (ERRATA H1). At a point without a query, the result is interpolated linearly between
    the two keys whose quantiles are next to that of the point.

    Args:
        queries: projected queries.
        keys: projected keys.
        points: projections of the queries at which the mean is evaluated.
        y: the values at the keys, in their original order.
    """
    equal_case = lambda: _rank_means(queries, keys, points, y)
    general_case = lambda: _mass_means(queries, keys, points, y)
    return jax.lax.cond(_has_equal_atoms(queries, keys), equal_case, general_case)


def _rank_means(
    queries: Side, keys: Side, points: Array, y: Float[Array, "n d"]
) -> Array:
    """`partner_means` by ranks, if both sides have n distinct atoms of mass 1/n."""
    first, last = _tie_range(queries, points)
    n = y.shape[0]
    low = jnp.where(last > first, first, jnp.maximum(first - 1, 0))
    high = jnp.where(last > first, first, jnp.minimum(first, n - 1))
    return (y[keys.order[low]] + y[keys.order[high]]) / 2


def _mass_means(
    queries: Side, keys: Side, points: Array, y: Float[Array, "n d"]
) -> Array:
    """`partner_means` in general: means over the keys that share mass with a query."""
    return _overlap_means(queries, keys, *_tie_range(queries, points), y[keys.order])


def _tie_range(queries: Side, points: Float[Array, " m"]) -> tuple[Array, Array]:
    """Index of the first query at each point, and of the first query beyond it."""
    first = jnp.searchsorted(queries.places, points, side="left")
    return first, jnp.searchsorted(queries.places, points, side="right")


def slice_partner_means(
    queries: Side, keys: Side, points: Float[Array, "s m"], y: Float[Array, "n d"]
) -> Float[Array, "s m d"]:
    """Applies `partner_means` along several slices, to stacks of sides and points."""
    is_equal_case = jnp.all(jax.vmap(_has_equal_atoms)(queries, keys))
    equal_case = lambda: jax.vmap(_rank_means, in_axes=(0, 0, 0, None))(
        queries, keys, points, y
    )
    general_case = lambda: jax.vmap(_mass_means, in_axes=(0, 0, 0, None))(
        queries, keys, points, y
    )
    return jax.lax.cond(is_equal_case, equal_case, general_case)


def _has_equal_atoms(queries: Side, keys: Side) -> Bool[Array, ""]:
    """Whether both sides have n distinct atoms of mass 1/n, for the same n."""
    if queries.places.shape != keys.places.shape:
        return jnp.zeros((), bool)
    distinct = [jnp.all(jnp.diff(side.places) > 0) for side in (queries, keys)]
    return distinct[0] & distinct[1] & queries.even & keys.even


def _overlap_means(
    queries: Side, keys: Side, first: Array, last: Array, y: Float[Array, "n d"]
) -> Float[Array, "m d"]:
    """The mean of the keys matched with the mass of queries `first` to `last - 1`."""
    a, b = queries.edges[first], queries.edges[last]
    starts, ends = keys.edges[:-1], keys.edges[1:]
    y, sums = _share_ties(keys, y)
    low = jnp.searchsorted(ends, a, side="right")  # the key to the right of `a`
    high = jnp.searchsorted(starts, b, side="left") - 1  # the key to the left of `b`
    low, high = jnp.minimum(low, _last(keys)), jnp.maximum(high, 0)
    head, tail = ends[low] - a, b - starts[high]
    middle = sums[high] - sums[low + 1]
    whole = head[:, None] * y[low] + middle + tail[:, None] * y[high]
    is_atom = b > a
    mean = whole / jnp.where(is_atom, b - a, 1)[:, None]
    mean = jnp.where((low == high)[:, None], y[low], mean)
    return jnp.where(is_atom[:, None], mean, _quantile_means(keys, a, y))


def _quantile_means(keys: Side, a: Float[Array, " m"], y: Float[Array, "n d"]) -> Array:
    """The keys at quantiles `a`, interpolated between midpoints of mass intervals."""
    low, high = _place(keys)
    middles = (keys.edges[low] + keys.edges[high]) / 2
    place = jnp.searchsorted(middles, a, side="right")
    upper = jnp.minimum(place, _last(keys))
    lower = jnp.clip(place - 1, 0, _last(keys))
    gap = middles[upper] - middles[lower]
    share = (a - middles[lower]) / jnp.where(gap > 0, gap, 1)
    share = jnp.clip(jnp.where(gap > 0, share, 0), 0, 1)[:, None]
    return (1 - share) * y[lower] + share * y[upper]


def _place(keys: Side) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """For each key, the range of indices of all keys at its position."""
    low = jnp.searchsorted(keys.places, keys.places, side="left")
    return low, jnp.searchsorted(keys.places, keys.places, side="right")


def _last(keys: Side) -> Int[Array, ""]:
    """Index of the last key whose mass is positive after rounding."""
    backwards = jnp.flip(jnp.diff(keys.edges) > 0)
    return len(backwards) - 1 - jnp.argmax(backwards)


def _share_ties(keys: Side, y: Float[Array, "n d"]) -> tuple[Array, Array]:
    """Keys averaged over ties, and the cumulative sums of mass times key."""
    masses = jnp.diff(keys.edges)
    mean = masses @ y  # subtracted from `y`, which reduces rounding in the sums
    y = y - mean[None, :]
    low, high = _place(keys)
    sums = _sums_below(masses, y)
    mass = keys.edges[high] - keys.edges[low]
    tie_means = (sums[high] - sums[low]) / jnp.where(mass > 0, mass, 1)[:, None]
    y = jnp.where((high > low + 1)[:, None], tie_means, y)
    sums = _sums_below(masses, y) + keys.edges[:, None] * mean[None, :]
    return y + mean[None, :], sums


def _sums_below(masses: Float[Array, " n"], y: Float[Array, "n d"]) -> Array:
    sums = jnp.cumsum(masses[:, None] * y, axis=0)
    return jnp.concatenate([jnp.zeros_like(sums[:1]), sums])
