r"""Derivatives in weights that are zero, which their logarithms do not have.

A token of weight 0 is excluded from every sum, and costs nothing. Its weight still has
a derivative, that of one side: with $Z = \sum_j w_je^{s_j}$ a mean
$m = \sum_j w_je^{s_j}v_j/Z$ has $\partial m/\partial w_0 = e^{s_0}(v_0 - m)/Z$, and
$\log Z$ has $e^{s_0}/Z$. Sums keep their values here, and get these derivatives by
rules, so that nothing is summed twice unless a derivative is taken.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._derivatives import ruled
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

from ._reduction import AbstractReduction, Keys
from ._streaming import Link


class Excluded(NamedTuple):
    """The tokens of weight zero among all.

    Attributes:
        keys: all tokens; those that count have a log-weight of minus infinity, the
            others what is added to their scores.
        weights: zeros, which may be variables.
    """

    keys: Keys
    weights: Float[Array, " n"]


def split_shares(
    w: Float[Array, " n"],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The logs of weights divided by their sum; likewise the weights that are zero.

    Sums beyond all floats will do. Neither has a derivative that is not finite.
    """
    counts = w > 0
    scale = jax.lax.stop_gradient(jnp.max(w))  # it cancels
    shares = w / scale / jnp.sum(w / scale)
    logs = jnp.where(counts, jnp.log(jnp.where(counts, shares, 1)), -jnp.inf)
    return logs, jnp.where(counts, 0, shares)


def vary_log_mean(
    sums: tuple[Float[Array, "m p"], Float[Array, " m"]],
    reduction: AbstractReduction,
    score: AbstractScore,
    queries: Tokens,
    excluded: Excluded,
) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
    """Means and log-masses, with derivatives in the weights of what is excluded."""
    arrays, rest = eqx.partition(
        (reduction, score, queries, excluded.keys), eqx.is_array
    )
    leaves, structure = jax.tree.flatten(arrays)
    value = jnp.concatenate([sums[0], sums[1][:, None]], axis=1)

    def rule(value: Array, args: tuple, tangents: tuple) -> Array:
        whole = jax.tree.unflatten(structure, args[2:])
        reduction, score, queries, keys = eqx.combine(whole, rest)
        rows = jnp.pad(keys.values, ((0, 0), (0, 1)), constant_values=1)

        def varied(weights: Array) -> tuple[Array, Array]:
            terms = Keys(keys.tokens, keys.log_weights, weights[:, None] * rows)
            return reduction.log_mean(score, queries, terms)

        # By their derivative, for sums of tangents and of ones are not linear.
        (_, logs), (part, _) = jax.jvp(varied, (args[1],), (tangents[1],))
        means, mass = value[:, :-1], value[:, -1]
        most = jnp.log(jnp.finfo(logs.dtype).max) / 2  # beyond, no derivative is finite
        ratio = jnp.minimum(logs - jnp.where(jnp.isneginf(mass), 0, mass), most)
        part = part * jnp.exp(ratio)[:, None]
        change = part.at[:, :-1].add(-means * part[:, -1:])
        return tangents[0] + change

    same = ruled(rule)(lambda value, *_: value)
    value = same(value, excluded.weights, *leaves)
    return value[:, :-1], value[:, -1]


def vary_integral(
    value: Float[Array, "m p"],
    reduction: AbstractReduction,
    link: Link,
    score: AbstractScore,
    queries: Tokens,
    excluded: Excluded,
) -> Float[Array, "m p"]:
    """A linked sum, with derivatives in the weights of what is excluded."""
    arrays, rest = eqx.partition(
        (reduction, score, queries, excluded.keys), eqx.is_array
    )
    leaves, structure = jax.tree.flatten(arrays)

    def rule(_: Array, args: tuple, tangents: tuple) -> Array:
        whole = jax.tree.unflatten(structure, args[2:])
        reduction, score, queries, keys = eqx.combine(whole, rest)
        rows = tangents[1][:, None] * keys.values
        varied = Keys(keys.tokens, keys.log_weights, rows)
        return tangents[0] + reduction.integral(link, score, queries, varied)

    same = ruled(rule)(lambda value, *_: value)
    return same(value, excluded.weights, *leaves)
