"""Decoders: sequences whose tokens see those before them, and all of another one."""

import equinox as eqx
import jax
from jaxtyping import Array, Float

from meanfield._typing import PRNGKey
from meanfield.measures import Points

from ._blocks import Residual, before
from ._head import self_attention
from ._sequence import in_sequence
from ._sets import MeetingBlock
from ._variant import Variant

PAST, ALL = Variant("softmax", mask="causal"), Variant("softmax")


class DecoderBlock(eqx.Module):
    """Tokens look at those before them, then at a source, then a perceptron.

    With norms before the parts, and softmax in both attentions, whatever the source
    was encoded by.

    Attributes:
        past: the causal layer.
        meeting: with the source, and the perceptron.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import DecoderBlock
        >>> block = DecoderBlock(jax.random.key(0), d=4, k=2, n_heads=2, width=8)
        >>> source = Points.uniform(jnp.ones((9, 4)))
        >>> places = jnp.arange(1, 5) / 4
        >>> block(Points.uniform(jnp.eye(4), position=places), source).tokens.x.shape
        (4, 4)
    """

    past: Residual
    meeting: MeetingBlock

    def __init__(
        self, key: PRNGKey, *, d: int, k: int, n_heads: int, width: int
    ) -> None:
        first, second = jax.random.split(key)
        sizes = {"d": d, "k": k, "n_heads": n_heads}
        self.past = before(self_attention(first, PAST, **sizes), d)
        self.meeting = MeetingBlock(second, ALL, width=width, **sizes)

    def __call__(self, mu: Points, source: Points) -> Points:
        """The tokens after the block."""
        return self.meeting(self.past(mu), source)


class Decoder(eqx.Module):
    """Decoder blocks, one after another.

    Attributes:
        blocks: from the first to the last.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import Decoder, DecoderBlock
        >>> block = DecoderBlock(jax.random.key(0), d=4, k=2, n_heads=2, width=8)
        >>> source = Points.uniform(jnp.ones((9, 4)))
        >>> Decoder((block, block))(jnp.eye(4), source).shape
        (4, 4)
    """

    blocks: tuple[DecoderBlock, ...]

    def __call__(self, x: Float[Array, "m d"], source: Points) -> Float[Array, "m d"]:
        """A sequence after the last block; each token depends on none after it."""
        mu = in_sequence(x)
        for block in self.blocks:
            mu = block(mu, source)
        return mu.tokens.x
