r"""Derivatives with respect to zero weights, where logarithms have no derivative.

A token of weight 0 is excluded from every sum. Sums still have one-sided derivatives
with respect to its weight: for $Z = \sum_j w_je^{s_j}$ and the mean
$m = \sum_j w_je^{s_j}v_j/Z$ they are $\partial m/\partial w_0 = e^{s_0}(v_0 - m)/Z$ and
$\partial\log Z/\partial w_0 = e^{s_0}/Z$. The functions here leave the values of sums
unchanged and add these derivatives by custom rules, which cost nothing unless a
derivative is taken.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from meanfield._array import check_real, is_addressable, or_nan
from meanfield._derivatives import custom_derivative
from meanfield.errors import InvalidInputError
from meanfield.scores import AbstractScore
from meanfield.scores.pairs import Link
from meanfield.tokens import Tokens

from ._reduction import AbstractReduction, Keys


class ExcludedKeys(NamedTuple):
    """The tokens of weight zero, as keys of a sum.

    Attributes:
        keys: all tokens. The log-weight of a token of positive weight is minus
            infinity. That of an excluded token is the potential added to its score.
        weights: the weights of the excluded tokens, all zero, kept for derivatives with
            respect to them.
    """

    keys: Keys
    weights: Float[Array, " n"]


def check_weights(weights: Float[Array, "..."], n: int) -> None:
    """Raises unless there is one weight for each of `n` tokens.

    Raises:
        InvalidInputError: if `weights` has another shape.
    """
    if weights.shape != (n,):
        raise InvalidInputError(
            f"`weights` must hold one number for each of the {n} tokens; got shape "
            f"{weights.shape}."
        )


def check_log_weights(logs: Float[Array, "*batch n"], tokens: Tokens) -> None:
    """Checks that there is one number below infinity for each token.

    Raises:
        InvalidInputError: if the shape does not fit, or a number is NaN or infinity.
    """
    check_real("log_weights", logs)
    if np.shape(logs)[-1:] != np.shape(tokens.x)[-2:-1]:
        raise InvalidInputError(
            "`log_weights` must hold one number for each row of the tokens; got "
            f"shapes {np.shape(logs)} and {np.shape(tokens.x)}."
        )
    host = np.asarray(logs) if is_addressable(logs) else np.zeros(0)
    if np.any(np.isnan(host) | (host == np.inf)):
        raise InvalidInputError(
            "`log_weights`, the logarithms of weights, must be numbers below infinity. "
            "To give weights, use `Points.weighted(x, weights)`."
        )


def log_shares(w: np.ndarray) -> np.ndarray:
    """Logarithms of normalised weights, even if the sum of the weights overflows.

    Raises:
        InvalidInputError: if a weight is negative or not a number, or all are 0.
    """
    if not (np.all(w >= 0) and np.any(w > 0)):
        raise InvalidInputError(
            f"`weights` must be non-negative and not all zero; got a smallest weight "
            f"of {w.min():g}."
        )
    with np.errstate(divide="ignore"):
        logs = np.log(w)
    logs = logs - np.max(logs)
    return logs - np.log(np.sum(np.exp(logs)))


def split_shares(
    w: Float[Array, " n"],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Logarithms of normalised weights, and the weights that are zero.

    The sum of the weights may overflow. All derivatives are finite.
    """
    w = or_nan(jnp.all(w >= 0) & jnp.any(w > 0), w)
    counts = w > 0
    scale = jax.lax.stop_gradient(jnp.max(w))  # cancels in the shares
    shares = w / scale / jnp.sum(w / scale)
    logs = jnp.where(counts, jnp.log(jnp.where(counts, shares, 1)), -jnp.inf)
    return logs, jnp.where(counts, 0, shares)


def log_sum(
    logs: Float[Array, " n"], zeros: Float[Array, " n"] | None
) -> Float[Array, ""]:
    """The logarithm of the sum of all weights."""
    total = jax.nn.logsumexp(logs)
    if zeros is None:
        return total
    finite = jnp.where(jnp.isneginf(total), 0, total)
    return total + jnp.sum(zeros) * jnp.exp(-finite)


def shares(
    logs: Float[Array, " n"], zeros: Float[Array, " n"] | None
) -> Float[Array, " n"]:
    """The weights divided by their sum; zeros if the sum is 0."""
    top = jax.lax.stop_gradient(jnp.max(logs))  # cancels in the shares
    massless = jnp.isneginf(top)
    top = jnp.where(massless, 0, top)
    w = jnp.exp(logs - top)
    if zeros is not None:
        w = w + zeros * jnp.exp(-top)
    return w / jnp.where(massless, 1, jnp.sum(w))


def zero_excluded(
    values: Float[Array, "n p"],
    logs: Float[Array, " n"],
    zeros: Float[Array, " n"] | None,
) -> Float[Array, "n p"]:
    """Values of the tokens, with zeros for excluded ones, whose values may be NaN."""
    is_excluded = jnp.isneginf(logs)[:, None]
    if zeros is not None:  # finite values of excluded tokens enter derivatives
        is_excluded &= ~jnp.isfinite(values)
    return jnp.where(is_excluded, 0, values)


def select_excluded(
    logs: Float[Array, " n"],
    zeros: Float[Array, " n"] | None,
    potential: Float[Array, " n"] | None,
    keys: tuple[Tokens, Float[Array, "n p"]],
) -> ExcludedKeys | None:
    """The tokens of weight zero; `None` if weights are not differentiated."""
    if zeros is None:
        return None
    g = jnp.zeros_like(logs) if potential is None else potential
    tokens, values = keys
    offsets = jnp.where(jnp.isneginf(logs), g, -jnp.inf)
    return ExcludedKeys(Keys(tokens, offsets, values), zeros)


def vary_norm(
    tangent: Float[Array, "n d"], probabilities: Float[Array, " n"]
) -> Float[Array, ""]:
    """Root mean square of rows, without square roots of weights that may be zero."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(tangent)))  # cancels in the norm
    scale = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1)
    squares = jnp.sum((tangent / scale) ** 2, axis=1)
    return scale * jnp.sqrt(probabilities @ squares)


def vary_log_mean(
    sums: tuple[Float[Array, "m p"], Float[Array, " m"]],
    reduction: AbstractReduction,
    score: AbstractScore,
    queries: Tokens,
    excluded_keys: ExcludedKeys | None,
) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
    """Means and log-masses, differentiable in the weights of excluded tokens."""
    if excluded_keys is None:
        return sums
    leaves, whole = _flatten((reduction, score, queries, excluded_keys.keys))
    value = jnp.concatenate([sums[0], sums[1][:, None]], axis=1)

    def rule(value: Array, args: tuple, tangents: tuple) -> Array:
        reduction, score, queries, keys = whole(args[2:])
        rows = jnp.pad(keys.values, ((0, 0), (0, 1)), constant_values=1)

        def weighted_log_mean(weights: Array) -> tuple[Array, Array]:
            terms = Keys(keys.tokens, keys.log_weights, weights[:, None] * rows)
            return reduction.log_mean(score, queries, terms)

        # Reductions append ones to the values. `jvp` keeps tangents and ones apart, as
        # JAX cannot transpose a matrix product with both.
        (_, logs), (part, _) = jax.jvp(weighted_log_mean, (args[1],), (tangents[1],))
        means, mass = value[:, :-1], value[:, -1]
        # If the ratio of the sums is larger, no derivative is finite.
        max_log = jnp.log(jnp.finfo(logs.dtype).max) / 2
        ratio = jnp.minimum(logs - jnp.where(jnp.isneginf(mass), 0, mass), max_log)
        part = part * jnp.exp(ratio)[:, None]
        change = part.at[:, :-1].add(-means * part[:, -1:])
        return tangents[0] + change

    identity = custom_derivative(rule)(lambda value, *_: value)
    value = identity(value, excluded_keys.weights, *leaves)
    return value[:, :-1], value[:, -1]


def vary_integral(
    value: Float[Array, "m p"],
    reduction: AbstractReduction,
    link: Link,
    score: AbstractScore,
    queries: Tokens,
    excluded_keys: ExcludedKeys | None,
) -> Float[Array, "m p"]:
    """A sum with a link, differentiable in the weights of excluded tokens."""
    if excluded_keys is None:
        return value
    leaves, whole = _flatten((reduction, score, queries, excluded_keys.keys))

    def rule(_: Array, args: tuple, tangents: tuple) -> Array:
        reduction, score, queries, keys = whole(args[2:])
        rows = tangents[1][:, None] * keys.values
        terms = Keys(keys.tokens, keys.log_weights, rows)
        return tangents[0] + reduction.integral(link, score, queries, terms)

    identity = custom_derivative(rule)(lambda value, *_: value)
    return identity(value, excluded_keys.weights, *leaves)


def _flatten(tree: PyTree) -> tuple[list[Array], Callable[[Sequence[Array]], PyTree]]:
    """The arrays of a tree, and the function that rebuilds the tree from them."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    return leaves, lambda parts: eqx.combine(jax.tree.unflatten(structure, parts), rest)
