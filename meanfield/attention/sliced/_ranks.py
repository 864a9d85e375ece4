r"""Optimal transport on the line by ranks: $T = F_K^{-1}\circ F_Q$, in $O(n\log n)$."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._order import in_order


class Side(NamedTuple):
    """Weighted atoms on the line, in increasing order.

    Attributes:
        order: which atom has each rank.
        places: where they are.
        edges: the mass below each, and all mass, which is one.
        even: whether all masses are the same number.
    """

    order: Int[Array, " n"]
    places: Float[Array, " n"]
    edges: Float[Array, " n+1"]
    even: Bool[Array, ""]


UNROLLED = 64  # coordinates that are added up in one expression


def projected(x: Float[Array, "n d"], v: Float[Array, " d"]) -> Float[Array, " n"]:
    r"""The products $x_i\cdot v$, each with the same rounding in any company."""
    return projected_each(x, v[None])[0]


def projected_each(
    x: Float[Array, "n d"], v: Float[Array, "s d"]
) -> Float[Array, "s n"]:
    r"""The same along several slices, coordinate by coordinate.

    A token must be found among others by its place; products of matrices are rounded
    by the shapes that they are taken in.
    """
    d = x.shape[1]
    term = lambda c: v[:, c, None] * x[None, :, c]
    if d <= UNROLLED:
        return sum(map(term, range(1, d)), term(0))
    x, v = x.T, v.T  # what is added at once lies side by side
    add = lambda c, sums: sums + v[c][:, None] * x[c][None, :]
    return jax.lax.fori_loop(0, d, add, jnp.zeros((v.shape[1], x.shape[1]), x.dtype))


def sorted_side(places: Float[Array, " n"], shares: Float[Array, " n"]) -> Side:
    """Atoms of given masses, which sum to one, in order; those without mass go last."""
    return jax.tree.map(lambda row: row[0], sorted_sides(places[None], shares))


def sorted_sides(places: Float[Array, "s n"], shares: Float[Array, " n"]) -> Side:
    """The same atoms in several places: a stack of sides."""
    places = jnp.where(shares > 0, places, jnp.inf)
    arranged = jax.vmap(_arranged, in_axes=(0, 0, None))
    return arranged(places, in_order(places), shares)


def _arranged(
    places: Float[Array, " n"], order: Int[Array, " n"], shares: Float[Array, " n"]
) -> Side:
    mass = jnp.cumsum(shares[order])
    edges = jnp.concatenate([jnp.zeros(1, mass.dtype), mass])
    even = jnp.all(shares == shares[0])
    return Side(order, places[order], jnp.minimum(edges / edges[-1], 1), even)


def matched(
    queries: Side, keys: Side, at: Float[Array, " m"], y: Float[Array, "n d"]
) -> Float[Array, "m d"]:
    r"""The mean of $y$ over the keys that the optimal plan gives to queries.

    Atoms in one place share what they are given, on both sides: the lifted plan,
    shahbazi2025, eq. (5). Masses overlap exactly, whatever the two numbers of atoms
    and their weights (ERRATA H1). Where there is no atom, what lies between the middles
    of the keys to both sides of that quantile, in proportion.

    Args:
        queries: projected queries.
        keys: projected keys.
        at: projections of the queries that are asked for.
        y: the keys themselves, in their own order.
    """
    ranked = lambda: _ranked(queries, keys, at, y)
    massed = lambda: _massed(queries, keys, at, y)
    return jax.lax.cond(_alike(queries, keys), ranked, massed)


def _ranked(queries: Side, keys: Side, at: Array, y: Float[Array, "n d"]) -> Array:
    """Where each atom has one partner."""
    first, last = _among(queries, at)
    n = y.shape[0]
    low = jnp.where(last > first, first, jnp.maximum(first - 1, 0))
    high = jnp.where(last > first, first, jnp.minimum(first, n - 1))
    return (y[keys.order[low]] + y[keys.order[high]]) / 2


def _massed(queries: Side, keys: Side, at: Array, y: Float[Array, "n d"]) -> Array:
    """Where masses overlap."""
    return _by_mass(queries, keys, *_among(queries, at), y[keys.order])


def _among(queries: Side, at: Float[Array, " m"]) -> tuple[Array, Array]:
    """The first query in each place, and the first beyond it."""
    first = jnp.searchsorted(queries.places, at, side="left")
    return first, jnp.searchsorted(queries.places, at, side="right")


def matched_each(
    queries: Side, keys: Side, at: Float[Array, "s m"], y: Float[Array, "n d"]
) -> Float[Array, "s m d"]:
    """The same along several slices: stacks of sides, and of places."""
    alone = jnp.all(jax.vmap(_alike)(queries, keys))
    by_rank = lambda: jax.vmap(_ranked, in_axes=(0, 0, 0, None))(queries, keys, at, y)
    by_mass = lambda: jax.vmap(_massed, in_axes=(0, 0, 0, None))(queries, keys, at, y)
    return jax.lax.cond(alone, by_rank, by_mass)


def _alike(queries: Side, keys: Side) -> Bool[Array, ""]:
    """Whether both sides have as many atoms, all of one mass and in distinct places."""
    if queries.places.shape != keys.places.shape:
        return jnp.zeros((), bool)
    distinct = [jnp.all(jnp.diff(side.places) > 0) for side in (queries, keys)]
    return distinct[0] & distinct[1] & queries.even & keys.even


def _by_mass(
    queries: Side, keys: Side, first: Array, last: Array, y: Float[Array, "n d"]
) -> Float[Array, "m d"]:
    """The mean of keys over the masses between `first` and `last`."""
    a, b = queries.edges[first], queries.edges[last]
    starts, ends = keys.edges[:-1], keys.edges[1:]
    y, sums = _shared(keys, y)
    low = jnp.searchsorted(ends, a, side="right")  # the key to the right of `a`
    high = jnp.searchsorted(starts, b, side="left") - 1  # and to the left of `b`
    low, high = jnp.minimum(low, _last(keys)), jnp.maximum(high, 0)
    head, tail = ends[low] - a, b - starts[high]
    middle = sums[high] - sums[low + 1]
    whole = head[:, None] * y[low] + middle + tail[:, None] * y[high]
    is_atom = b > a
    mean = whole / jnp.where(is_atom, b - a, 1)[:, None]
    mean = jnp.where((low == high)[:, None], y[low], mean)
    return jnp.where(is_atom[:, None], mean, _at_level(keys, a, y))


def _at_level(keys: Side, a: Float[Array, " m"], y: Float[Array, "n d"]) -> Array:
    """The key at the quantile `a`, linear between middles of masses in one place."""
    low, high = _place(keys)
    middles = (keys.edges[low] + keys.edges[high]) / 2
    place = jnp.searchsorted(middles, a, side="right")
    after = jnp.minimum(place, _last(keys))
    before = jnp.clip(place - 1, 0, _last(keys))
    apart = middles[after] - middles[before]
    share = (a - middles[before]) / jnp.where(apart > 0, apart, 1)
    share = jnp.clip(jnp.where(apart > 0, share, 0), 0, 1)[:, None]
    return (1 - share) * y[before] + share * y[after]


def _place(keys: Side) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """For each key the first of those in its place, and the first beyond."""
    low = jnp.searchsorted(keys.places, keys.places, side="left")
    return low, jnp.searchsorted(keys.places, keys.places, side="right")


def _last(keys: Side) -> Int[Array, ""]:
    """The last key with mass; some before it may have less than rounding leaves."""
    backwards = jnp.flip(jnp.diff(keys.edges) > 0)
    return len(backwards) - 1 - jnp.argmax(backwards)


def _shared(keys: Side, y: Float[Array, "n d"]) -> tuple[Array, Array]:
    """Keys that share with those in their place, and sums of mass times key below."""
    masses = jnp.diff(keys.edges)
    mean = masses @ y  # sums of what is centred lose less
    y = y - mean[None, :]
    low, high = _place(keys)
    sums = _sums_below(masses, y)
    mass = keys.edges[high] - keys.edges[low]
    tied = (sums[high] - sums[low]) / jnp.where(mass > 0, mass, 1)[:, None]
    y = jnp.where((high > low + 1)[:, None], tied, y)
    sums = _sums_below(masses, y) + keys.edges[:, None] * mean[None, :]
    return y + mean[None, :], sums


def _sums_below(masses: Float[Array, " n"], y: Float[Array, "n d"]) -> Array:
    below = jnp.cumsum(masses[:, None] * y, axis=0)
    return jnp.concatenate([jnp.zeros_like(below[:1]), below])
