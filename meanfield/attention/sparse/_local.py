"""Attention of each block to the keys of its own places, sorted and unsorted."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.errors import UnsupportedError
from meanfield.linalg import HIGHEST
from meanfield.measures.reductions import Groups
from meanfield.scores import AbstractQuadraticScore, AbstractScore
from meanfield.tokens import Tokens

from ._sorted import AbstractSortedMean, unmasked

Sees = Callable[[Array, Array], Bool[Array, "..."]]
SHARE = 4  # rows of queries are a quarter of a block: then few of them are empty


def everywhere(query: Int[Array, "..."], key: Int[Array, "..."]) -> Bool[Array, "..."]:
    """A query sees every place of its block."""
    return jnp.ones(jnp.broadcast_shapes(query.shape, key.shape), bool)


def so_far(query: Int[Array, "..."], key: Int[Array, "..."]) -> Bool[Array, "..."]:
    """A query sees the places of its block up to its own."""
    return key <= query


class Queries(NamedTuple):
    """Some queries of one block: their factors of scores, and their places in it."""

    factor: Float[Array, "c k"]
    place: Int[Array, " c"]


class BlockKeys(NamedTuple):
    """The places of one block: factors and logarithms of keys, and values."""

    factor: Float[Array, "w k"]
    log: Float[Array, " w"]
    value: Float[Array, "w p"]


class SparseMean(AbstractSortedMean):
    r"""$\mathrm{Softmax}(s(x, \psi_S) + s(x, y))\,\psi_S$ over places of a block.

    Attributes:
        ordered: $\psi_S$.
        score: $s$.
        sees: which places of its block a query sees.
    """

    score: AbstractQuadraticScore
    sees: Sees = eqx.field(static=True)

    @override
    @compile_once
    def averaged(
        self, tokens: Tokens, values: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        blocks = self.ordered.blocks
        ranks = jnp.clip(blocks.ranks(tokens), -1, blocks.count - 1)
        block = jnp.maximum(ranks, 0) // blocks.length
        place = jnp.where(ranks < 0, -1, ranks % blocks.length)
        queries, keys = self._sides(tokens, values)
        length = max(1, blocks.width // SHARE)
        groups = Groups(block, blocks.n_blocks, length)
        attended = lambda some, own: _attended(some, own, self.sees)
        return groups.map(attended, Queries(queries, place), keys)

    def _sides(
        self, tokens: Tokens, values: Float[Array, "n p"]
    ) -> tuple[Float[Array, "m k"], BlockKeys]:
        """The factors of queries, and of the sum of both scores the keys."""
        blocks, means = self.ordered.blocks, self.ordered.means
        shape = (blocks.n_blocks, blocks.width)
        both = (means(blocks.mu.counted.x), blocks.states)
        flat = [Tokens(x.reshape(-1, x.shape[-1])) for x in both]
        first, second = (self.score.factors(tokens, keys) for keys in flat)
        factor = (first.key + second.key).reshape(*shape, -1)
        log = (first.of_key + second.of_key).reshape(shape) + self.ordered.log_masses
        log = jnp.where(self.ordered.occupied, log, -jnp.inf)
        return first.query, BlockKeys(factor, log, means(values))


def _attended(queries: Queries, keys: BlockKeys, sees: Sees) -> Float[Array, "c p"]:
    """The means of some queries over the places that they see; zero if they see none.

    What is not seen is left out by `-inf`: scores of zero would keep most of the
    weight (ERRATA T7).
    """
    S = jnp.matmul(queries.factor, keys.factor.T, precision=HIGHEST) + keys.log[None]
    places = jnp.arange(keys.log.shape[0])
    S = jnp.where(sees(queries.place[:, None], places[None, :]), S, -jnp.inf)
    top = jax.lax.stop_gradient(jnp.max(S, axis=1, keepdims=True))
    weights = jnp.exp(S - jnp.where(jnp.isneginf(top), 0, top))
    mass = jnp.sum(weights, axis=1, keepdims=True)
    means = jnp.matmul(weights, keys.value, precision=HIGHEST)
    return means / jnp.where(mass == 0, 1, mass)


def quadratic(score: AbstractScore) -> AbstractQuadraticScore:
    """The score, if sparse attention can split it between queries and keys.

    Raises:
        UnsupportedError: unless it is quadratic.
    """
    plain = unmasked(score)
    if not isinstance(plain, AbstractQuadraticScore):
        raise UnsupportedError(
            "Sparse attention multiplies queries by sorted keys, as a `Dot` or "
            f"`SquaredDistance` score does; got `{type(score).__name__}`."
        )
    return plain
