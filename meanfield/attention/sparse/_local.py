"""Attention within blocks, with scores for the sorted and unsorted key of each slot."""

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

from ._sorted_tokens import AbstractSortedMean, require_unmasked

Sees = Callable[[Array, Array], Bool[Array, "..."]]
SHARE = 4  # queries are computed in groups of a quarter block, which limits padding


def sees_block(query: Int[Array, "..."], key: Int[Array, "..."]) -> Bool[Array, "..."]:
    """Mask that is always true, since a query sees every slot of its block."""
    return jnp.ones(jnp.broadcast_shapes(query.shape, key.shape), bool)


def sees_past(query: Int[Array, "..."], key: Int[Array, "..."]) -> Bool[Array, "..."]:
    """Causal mask, by which a query sees the slots of its block up to its own."""
    return key <= query


class Queries(NamedTuple):
    """Some queries of one block, with their score factors and their slots."""

    factor: Float[Array, "c k"]
    place: Int[Array, " c"]


class BlockKeys(NamedTuple):
    """The slots of one block, with score factors, log weights and values of keys."""

    factor: Float[Array, "w k"]
    log: Float[Array, " w"]
    value: Float[Array, "w p"]


class SparseMean(AbstractSortedMean):
    r"""$\mathrm{Softmax}(s(x, \psi_S) + s(x, y))\,\psi_S$ over the slots of a block.

    Attributes:
        sorted_tokens: $\psi_S$.
        score: $s$.
        sees: predicate that is true for the slots that a query sees in its block.
    """

    score: AbstractQuadraticScore
    sees: Sees = eqx.field(static=True)

    @override
    @compile_once
    def average(
        self, tokens: Tokens, values: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        blocks = self.sorted_tokens.blocks
        ranks = jnp.clip(blocks.ranks(tokens), -1, blocks.count - 1)
        block = jnp.maximum(ranks, 0) // blocks.length
        place = jnp.where(ranks < 0, -1, ranks % blocks.length)
        queries, keys = self._sides(tokens, values)
        length = max(1, blocks.width // SHARE)
        groups = Groups(block, blocks.n_blocks, length)
        block_means = lambda block_queries, block_keys: _block_means(
            block_queries, block_keys, self.sees
        )
        return groups.map(block_means, Queries(queries, place), keys)

    def _sides(
        self, tokens: Tokens, values: Float[Array, "n p"]
    ) -> tuple[Float[Array, "m k"], BlockKeys]:
        """Score factors of the queries, and the slots of all blocks.

        The key factor of a slot is the sum of the factors of its two keys, so that the
        score of a slot is the sum of their scores.
        """
        blocks, means = self.sorted_tokens.blocks, self.sorted_tokens.means
        shape = (blocks.n_blocks, blocks.width)
        states = (means(blocks.mu.safe_tokens.x), blocks.states)
        flat = [Tokens(x.reshape(-1, x.shape[-1])) for x in states]
        first, second = (self.score.factors(tokens, keys) for keys in flat)
        factor = (first.key + second.key).reshape(*shape, -1)
        log = (first.key_term + second.key_term).reshape(
            shape
        ) + self.sorted_tokens.log_masses
        log = jnp.where(self.sorted_tokens.is_occupied, log, -jnp.inf)
        return first.query, BlockKeys(factor, log, means(values))


def _block_means(queries: Queries, keys: BlockKeys, sees: Sees) -> Float[Array, "c p"]:
    """Means of values over the slots that each query sees; zero if it sees none.

    Slots that a query does not see have the score `-inf`. A score of zero, as in the
    paper, would leave most of the weight to these slots (ERRATA T7).
    """
    S = jnp.matmul(queries.factor, keys.factor.T, precision=HIGHEST) + keys.log[None]
    places = jnp.arange(keys.log.shape[0])
    S = jnp.where(sees(queries.place[:, None], places[None, :]), S, -jnp.inf)
    top = jax.lax.stop_gradient(jnp.max(S, axis=1, keepdims=True))
    weights = jnp.exp(S - jnp.where(jnp.isneginf(top), 0, top))
    mass = jnp.sum(weights, axis=1, keepdims=True)
    means = jnp.matmul(weights, keys.value, precision=HIGHEST)
    return means / jnp.where(mass == 0, 1, mass)


def require_quadratic(score: AbstractScore) -> AbstractQuadraticScore:
    """Returns the score if it is quadratic, so that it has factors of queries and keys.

    Raises:
        UnsupportedError: unless the score is quadratic.
    """
    plain = require_unmasked(score)
    if not isinstance(plain, AbstractQuadraticScore):
        raise UnsupportedError(
            "Sparse attention needs a quadratic score, such as `Dot` or "
            f"`SquaredDistance`; got `{type(score).__name__}`."
        )
    return plain
