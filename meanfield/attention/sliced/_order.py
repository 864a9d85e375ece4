r"""Argsort of points on the line; many points are sorted as integers.

XLA sorts floats with a comparison that also orders NaN. For a million numbers on an AMD
EPYC (family 26), sorting floats takes 0.25 to 0.3 s and sorting integers 0.05 to
0.07 s. If all bits of negative numbers but the sign are inverted, the bits of finite
floats, read as integers, have the order of the floats.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

MIN_SIZE = 2**12  # shorter rows are sorted as floats


def argsort_rows(places: Float[Array, "s n"]) -> Int[Array, "s n"]:
    """Indices that sort each row; NaN goes last."""
    if places.shape[1] < MIN_SIZE:
        return jnp.argsort(places, axis=1)
    # Rows are sorted one by one, since `vmap` of `cond` would compute both branches.
    return jax.lax.map(_integer_argsort, places)


def _integer_argsort(places: Float[Array, " n"]) -> Int[Array, " n"]:
    """Argsort that uses integers if all numbers are distinct, else compares floats."""
    keys = _as_integers(places)
    increasing = jax.lax.sort(keys, is_stable=False)
    distinct = jnp.all(increasing[1:] > increasing[:-1]) & ~jnp.any(jnp.isnan(places))
    rank_argsort = functools.partial(_rank_argsort, increasing, keys)
    return jax.lax.cond(distinct, rank_argsort, lambda: jnp.argsort(places))


def _rank_argsort(
    increasing: Int[Array, " n"], keys: Int[Array, " n"]
) -> Int[Array, " n"]:
    indices = jnp.arange(len(keys))
    return jnp.zeros_like(indices).at[jnp.searchsorted(increasing, keys)].set(indices)


def _as_integers(x: Float[Array, " n"]) -> Int[Array, " n"]:
    bits = jax.lax.bitcast_convert_type(x, jnp.dtype(f"int{8 * x.dtype.itemsize}"))
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)
