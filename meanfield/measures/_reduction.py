r"""How a sum over tokens is executed: all at once, or block by block.

Every integral against weighted tokens is one of two sums, with $w_j = e^{\log w_j}$:
a normalised exponential sum (`log_mean`) and a linked sum (`integral`). A token with
$\log w_j = -\infty$ and a score of $-\infty$ are excluded from both; what stands there
must still be finite, or derivatives are not.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield.linalg import HIGHEST
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

Link = Callable[[Array], Array]


class Keys(eqx.Module):
    """What is summed over: tokens, their log-weights, and values to average."""

    tokens: Tokens
    log_weights: Float[Array, " n"]
    values: Float[Array, "n p"]


class AbstractReduction(eqx.Module):
    """An execution strategy for sums over keys."""

    @abc.abstractmethod
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        r"""$\sum_j w_j e^{s_{ij}} v_j / Z_i$ and $\log Z_i$.

        With $Z_i = \sum_j w_j e^{s_{ij}}$. Where everything is excluded the mean is 0
        and the log is $-\infty$.
        """

    @abc.abstractmethod
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        r"""$\sum_j w_j \varphi(s_{ij}) v_j$."""


class Dense(AbstractReduction):
    """All scores at once: `m n` numbers in memory."""

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        return _finish(_absorb(_empty(queries, keys), score, queries, keys))

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        return _linked(link, score, queries, keys)


class Blocked(AbstractReduction):
    """Blocks of at most `size` queries by `size` keys: memory grows like `n`.

    Reverse-mode derivatives recompute the blocks and keep the same memory.

    Attributes:
        size: tokens in a block.
    """

    size: int = eqx.field(static=True, default=1024)

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        blocks = _blocks(_excluding_padding(keys, self.size), self.size)

        def rows(some: Tokens) -> tuple[Array, Array]:
            start = _empty(some, keys)
            step = lambda carry, block: (_absorb(carry, score, some, block), None)
            return _finish(jax.lax.scan(jax.checkpoint(step), start, blocks)[0])

        return in_blocks(rows, queries, self.size)

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        blocks = _blocks(_excluding_padding(keys, self.size), self.size)

        def rows(some: Tokens) -> Array:
            start = jnp.zeros((some.n, keys.values.shape[1]), keys.values.dtype)
            step = lambda sums, block: (sums + _linked(link, score, some, block), None)
            return jax.lax.scan(jax.checkpoint(step), start, blocks)[0]

        return in_blocks(rows, queries, self.size)


def in_blocks(
    rows: Callable[[Tokens], PyTree[Array]], queries: Tokens, size: int
) -> PyTree[Array]:
    """`rows` of the queries, so many at once: arrays that lead with the queries."""
    padded = jax.tree.map(lambda x: _pad(x, size, 0.0), queries)
    results = jax.lax.map(jax.checkpoint(rows), _blocks(padded, size))
    joined = lambda y: y.reshape(y.shape[0] * size, *y.shape[2:])[: queries.n]
    return jax.tree.map(joined, results)


class _Sums(eqx.Module):
    """A running log-sum-exp: exponentials are relative to the reference."""

    reference: Float[Array, " m"]
    mass: Float[Array, " m"]
    moment: Float[Array, "m p"]


def _empty(queries: Tokens, keys: Keys) -> _Sums:
    m, p = queries.n, keys.values.shape[1]
    dtype = jnp.result_type(queries.x, keys.values)
    none = jnp.full(m, -jnp.inf, dtype)
    return _Sums(none, jnp.zeros(m, dtype), jnp.zeros((m, p), dtype))


def _absorb(sums: _Sums, score: AbstractScore, queries: Tokens, keys: Keys) -> _Sums:
    S = score(queries, keys.tokens) + keys.log_weights[None, :]
    top = jax.lax.stop_gradient(jnp.maximum(sums.reference, jnp.max(S, axis=1)))
    base = jnp.where(jnp.isneginf(top), 0, top)  # nothing to subtract from -inf
    old = jnp.exp(sums.reference - base)
    weights = jnp.exp(S - base[:, None])
    return _Sums(
        top,
        sums.mass * old + jnp.sum(weights, axis=1),
        sums.moment * old[:, None]
        + jnp.matmul(weights, keys.values, precision=HIGHEST),
    )


def _finish(sums: _Sums) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
    empty = jnp.isneginf(sums.reference)
    mass = jnp.where(empty, 1, sums.mass)
    log_mass = jnp.where(empty, -jnp.inf, sums.reference + jnp.log(mass))
    return sums.moment / mass[:, None], log_mass


def _linked(link: Link, score: AbstractScore, queries: Tokens, keys: Keys) -> Array:
    S = score(queries, keys.tokens)
    out = jnp.isneginf(S) | jnp.isneginf(keys.log_weights)[None, :]
    # The inner `where` keeps derivatives of the link at -inf out of the sum.
    linked = jnp.where(out, 0, link(jnp.where(out, 0, S)))
    weighted = jnp.exp(keys.log_weights)[:, None] * keys.values
    return jnp.matmul(linked, weighted, precision=HIGHEST)


def _pad(x: Array, size: int, fill: float) -> Array:
    short = -x.shape[0] % size
    widths = [(0, short)] + [(0, 0)] * (x.ndim - 1)
    return jnp.pad(x, widths, constant_values=fill)


def _excluding_padding(keys: Keys, size: int) -> Keys:
    padded = jax.tree.map(lambda x: _pad(x, size, 0.0), keys)
    log_weights = _pad(keys.log_weights, size, -jnp.inf)
    return Keys(padded.tokens, log_weights, padded.values)


def _blocks(tree: PyTree[Array], size: int) -> PyTree[Array]:
    split = lambda x: x.reshape(x.shape[0] // size, size, *x.shape[1:])
    return jax.tree.map(split, tree)
