"""Tokens in the order of their positions, divided into blocks of equal length."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from meanfield.measures import Points
from meanfield.scores import positions
from meanfield.tokens import Tokens


class Blocks(eqx.Module):
    r"""The tokens of a measure, divided into blocks in the order of their positions.

    Blocks have the length $b = \lceil n/N_B \rceil$, where $n$ is the number of tokens
    that are not excluded. The last blocks are padded with slots of weight zero.

    Attributes:
        mu: the tokens.
        n_blocks: the number of blocks, $N_B$.
        order: indices of the tokens, sorted by position; excluded tokens come last.
        places: positions of the tokens in this order; infinite for excluded tokens.
        count: $n$, the number of tokens that are not excluded.
    """

    mu: Points
    n_blocks: int = eqx.field(static=True)
    order: Int[Array, " n"]
    places: Float[Array, " n"]
    count: Int[Array, ""]

    def __init__(self, mu: Points, n_blocks: int) -> None:
        is_excluded = jnp.isneginf(mu.log_weights)
        places = jnp.where(is_excluded, jnp.inf, positions(mu.tokens))
        self.mu, self.n_blocks = mu, n_blocks
        self.order = jnp.argsort(places)
        self.places = places[self.order]
        self.count = jnp.sum(~is_excluded)

    @property
    def width(self) -> int:
        """Number of slots of a block in memory: $b$ if no token is excluded."""
        return -(-self.mu.tokens.n // self.n_blocks)

    @property
    def length(self) -> Int[Array, ""]:
        """The length $b$ of a block."""
        return jnp.maximum(-(-self.count // self.n_blocks), 1)

    @property
    def weights(self) -> Float[Array, "b w"]:
        """Weights of the slots times $n$: one for equal weights, zero on padding."""
        shares = self.count * self.mu.probabilities
        return self.gather(shares[:, None])[..., 0]

    @property
    def states(self) -> Float[Array, "b w d"]:
        """The states of tokens, arranged in blocks; padding has the state zero."""
        return self.gather(self.mu.safe_tokens.x)

    def gather(self, values: Float[Array, "n p"]) -> Float[Array, "b w p"]:
        """The values of tokens, arranged in blocks; padding has the value zero."""
        ranks, is_occupied = self._slots()
        tokens = self.order[jnp.minimum(ranks, self.mu.tokens.n - 1)]
        return jnp.where(is_occupied[..., None], values[tokens], 0)

    def ranks(self, tokens: Tokens) -> Int[Array, " m"]:
        """For each of `tokens`, rank of the last token of `mu` at or before it.

        The rank is -1 if no token of `mu` lies at or before it.
        """
        s = positions(tokens)
        return jnp.searchsorted(self.places, s, side="right").astype(int) - 1

    def _slots(self) -> tuple[Int[Array, "b w"], Bool[Array, "b w"]]:
        """Rank of each slot in the sequence, and whether a token occupies the slot."""
        block, place = jnp.arange(self.n_blocks), jnp.arange(self.width)
        ranks = block[:, None] * self.length + place[None, :]
        return ranks, (place[None, :] < self.length) & (ranks < self.count)


def block_sums(blocks: Blocks) -> Float[Array, "b d"]:
    r"""Sums $\sum_{iB \leq j < (i+1)B} x_j$ over blocks; $x_j$ is weighted by $nw_j$.

    Source: tay2020, eq. (2), whose upper index counts a token twice (ERRATA T6).
    """
    return jnp.sum(blocks.weights[..., None] * blocks.states, axis=1)


def prefix_sums(blocks: Blocks) -> Float[Array, "b d"]:
    r"""Sums $\sum_{j \leq iB} x_j$ of all tokens up to the first of block $i$.

    Source: tay2020, eq. (5), whose upper index adds one token too many (ERRATA T5).
    """
    # The sums add earlier tokens only. If they were differences of longer sums, their
    # rounding errors would depend on later tokens.
    earlier = jnp.cumsum(block_sums(blocks)[:-1], axis=0)
    sums = jnp.concatenate([jnp.zeros_like(blocks.states[:1, 0]), earlier])
    return sums + blocks.weights[:, :1] * blocks.states[:, 0]
