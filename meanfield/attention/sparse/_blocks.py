"""Tokens in the order of their positions, cut into blocks of one length."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from meanfield.measures import Points
from meanfield.scores import positions
from meanfield.tokens import Tokens


class Blocks(eqx.Module):
    r"""Where each token of a measure stands: its block, and its place in that.

    The length is $b = \lceil n/N_B \rceil$ of the $n$ tokens that count; what the last
    blocks lack is padding, which has no weight. Excluded tokens are left out.

    Attributes:
        mu: the tokens.
        n_blocks: $N_B$.
        order: the tokens by position, excluded ones last.
        places: their positions in that order, infinite where excluded.
        count: how many count.
    """

    mu: Points
    n_blocks: int = eqx.field(static=True)
    order: Int[Array, " n"]
    places: Float[Array, " n"]
    count: Int[Array, ""]

    def __init__(self, mu: Points, n_blocks: int) -> None:
        excluded = jnp.isneginf(mu.log_weights)
        places = jnp.where(excluded, jnp.inf, positions(mu.tokens))
        self.mu, self.n_blocks = mu, n_blocks
        self.order = jnp.argsort(places)
        self.places = places[self.order]
        self.count = jnp.sum(~excluded)

    @property
    def width(self) -> int:
        """The places that a block has in memory: $b$ if no token is excluded."""
        return -(-self.mu.tokens.n // self.n_blocks)

    @property
    def length(self) -> Int[Array, ""]:
        """The length $b$ of a block."""
        return jnp.maximum(-(-self.count // self.n_blocks), 1)

    @property
    def weights(self) -> Float[Array, "b w"]:
        """Weights times $n$: one where they are equal, zero on padding."""
        shares = self.count * self.mu.probabilities
        return self.taken(shares[:, None])[..., 0]

    @property
    def states(self) -> Float[Array, "b w d"]:
        """The states, zero on padding."""
        return self.taken(self.mu.counted.x)

    def taken(self, values: Float[Array, "n p"]) -> Float[Array, "b w p"]:
        """What belongs to each token at the places of blocks, zero on padding."""
        ranks, occupied = self._slots()
        tokens = self.order[jnp.minimum(ranks, self.mu.tokens.n - 1)]
        return jnp.where(occupied[..., None], values[tokens], 0)

    def ranks(self, tokens: Tokens) -> Int[Array, " m"]:
        """How many tokens stand before the last at or before each of these.

        Minus one for a token before all others.
        """
        s = positions(tokens)
        return jnp.searchsorted(self.places, s, side="right").astype(int) - 1

    def _slots(self) -> tuple[Int[Array, "b w"], Bool[Array, "b w"]]:
        """The rank at each place, and whether a token stands there."""
        block, place = jnp.arange(self.n_blocks), jnp.arange(self.width)
        ranks = block[:, None] * self.length + place[None, :]
        return ranks, (place[None, :] < self.length) & (ranks < self.count)


def pooled(blocks: Blocks) -> Float[Array, "b d"]:
    r"""$\sum_{iB \leq j < (i+1)B} x_j$, each token times $n$ times its weight.

    Source: tay2020, eq. (2), whose upper index counts a token twice (ERRATA T6).
    """
    return jnp.sum(blocks.weights[..., None] * blocks.states, axis=1)


def pooled_before(blocks: Blocks) -> Float[Array, "b d"]:
    r"""$\sum_{j \leq iB} x_j$: all tokens up to the first one of block $i$.

    Source: tay2020, eq. (5), whose upper index reads one token more (ERRATA T5).
    """
    # No difference of sums: it would round what later tokens bring.
    earlier = jnp.cumsum(pooled(blocks)[:-1], axis=0)
    before = jnp.concatenate([jnp.zeros_like(blocks.states[:1, 0]), earlier])
    return before + blocks.weights[:, :1] * blocks.states[:, 0]
